"""Slow, literal forms of what pipeline.matching computes, and random cases for both."""

import numpy as np

from pipeline.seeds import generator


def literal_fbmp(latents, attributes, beta, max_latents):
    """The spec, word by word: N x D booleans, a loop over attributes, steps and latents."""
    coalitions, paths = [], []
    for y in attributes.T:
        residual, cover = y.copy(), np.zeros(len(y), dtype=bool)
        chosen, path = [], []
        while len(chosen) < max_latents:
            scores = []
            for j in range(latents.shape[1]):
                z = latents[:, j]
                tp = float(np.sum(residual & z))
                below = beta * beta * float(residual.sum()) + float(z.sum())
                scores.append(-1.0 if j in chosen else (1 + beta * beta) * tp / below if below > 0 else 0.0)
            if not scores or max(scores) < 0:
                break
            best = scores.index(max(scores))
            z = latents[:, best]
            wider = cover | z
            f1 = 2.0 * np.sum(y & wider) / (y.sum() + wider.sum()) if y.sum() + wider.sum() else 0.0
            if not chosen and scores[best] == 0:
                break
            if chosen and f1 <= path[-1]:
                break
            chosen.append(best)
            path.append(float(f1))
            residual, cover = residual & ~z, wider
        coalitions.append(chosen)
        paths.append(path)
    return coalitions, paths


def literal_f1(coalition, latents, present, k):
    """F1 of the union of the first k latents."""
    cover = np.zeros(len(present), dtype=bool)
    for latent in coalition[:k]:
        cover |= latents[:, latent]
    total = present.sum() + cover.sum()
    return 2.0 * np.sum(cover & present) / total if total else 0.0


def literal_tapascore(before, after, added, removed, coalitions, k):
    """Per-pair changes of both sides, None where there is no such side; whether a side has no latent."""
    rows = []
    for p, (new, old) in enumerate(zip(added, removed, strict=True)):
        on = list(coalitions[new][:k]) if new >= 0 else []
        off = list(coalitions[old][:k]) if old >= 0 else []
        shared = set(on) & set(off)
        sides = []
        for attribute, own in ((new, on), (old, off)):
            kept = [j for j in own if j not in shared]
            z, z_hat = (max((float(c[p, j]) for j in kept), default=0.0) for c in (before, after))
            sides += [(z_hat - z, not kept) if attribute >= 0 else (None, False)]
        rows.append((sides[0][0], sides[1][0], sides[0][1], sides[1][1]))
    return rows


def literal_dstay(before, after, present, added, removed, coalitions, k):
    """Mean |change| over a pair's untouched present attributes, None where it has none."""
    values = []
    for p in range(len(before)):
        changes = []
        for attribute, own in enumerate(coalitions):
            if present[p, attribute] and attribute not in (added[p], removed[p]):
                z, z_hat = (max((float(c[p, j]) for j in own[:k]), default=0.0) for c in (before, after))
                changes.append(abs(z_hat - z))
        values.append(sum(changes) / len(changes) if changes else None)
    return values


def random_case(case):
    """Latents (N, D) and attributes (N, A) as booleans, sparse or dense, with doubles: ties happen."""
    rng = generator(0, "matching case", case)
    n_images, n_latents = int(rng.integers(1, 40)), int(rng.integers(1, 25))
    n_attributes = int(rng.integers(1, 6))
    latents = rng.random((n_images, n_latents)) < rng.choice([0.02, 0.1, 0.5, 0.9])
    latents = latents[:, rng.integers(0, n_latents, n_latents)]
    attributes = rng.random((n_images, n_attributes)) < rng.choice([0.0, 0.1, 0.5, 1.0])
    linked = rng.integers(0, n_latents, n_attributes)
    noise = rng.random(attributes.shape) < 0.2
    linked_columns = np.where(noise, attributes, latents[:, linked])
    return latents, linked_columns if rng.random() < 0.5 else attributes


def random_pairs(case):
    """Before, after (P, D), present (P, A), added, removed (P,) and coalitions, as booleans."""
    rng = generator(0, "perturbation case", case)
    n_pairs, n_latents, n_attributes = int(rng.integers(1, 20)), int(rng.integers(2, 12)), 5
    before, after = (rng.random((n_pairs, n_latents)) < 0.3 for _ in range(2))
    coalitions = [
        rng.choice(n_latents, min(n_latents, int(rng.integers(0, 6))), replace=False)
        for _ in range(n_attributes)
    ]
    ids = np.array([rng.choice(n_attributes, 2, replace=False) for _ in range(n_pairs)])
    lacking = rng.integers(0, 3, n_pairs)
    ids[lacking == 0, 0] = -1
    ids[lacking == 1, 1] = -1
    present = rng.random((n_pairs, n_attributes)) < 0.4
    return before, after, present, ids[:, 0], ids[:, 1], coalitions
