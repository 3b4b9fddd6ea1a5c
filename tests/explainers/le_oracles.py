"""Linear Explanations, one number at a time."""

import numpy as np


def standard(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def descended(x, y, strength=0.05, l1_ratio=0.99, sweeps=3000):
    """Plain coordinate descent over all concepts."""
    n, n_concepts = x.shape
    w = np.zeros(n_concepts)
    for _ in range(sweeps):
        for j in range(n_concepts):
            pull = x[:, j] @ (y - x @ w + x[:, j] * w[j]) / n
            shrunk = np.sign(pull) * max(abs(pull) - strength * l1_ratio, 0)
            w[j] = shrunk / (x[:, j] @ x[:, j] / n + strength * (1 - l1_ratio))
    return w


def literal(train, y_train, held, y_held, *, max_concepts, min_gain, width):
    """The search as stated, with lstsq and corrcoef; candidates are columns (n, K)."""

    def fit(columns):
        ones = np.ones((len(train), 1))
        found = np.linalg.lstsq(np.hstack([train[:, columns], ones]), y_train, rcond=None)[0][:-1]
        return found, np.corrcoef(held[:, columns] @ found, y_held)[0, 1]

    rising = [j for j in range(train.shape[1]) if np.cov(train[:, j], y_train)[0, 1] > 0][:width]
    if not rising:
        return [], np.empty(0)
    best = max(rising, key=lambda j: fit([j])[1])
    chosen, (weights, reached) = [best], fit([best])
    left = [j for j in range(train.shape[1]) if j != best]
    while len(chosen) < max_concepts and left:
        found = {j: fit([*chosen, j]) for j in left[:width]}
        for j, (_, score) in found.items():
            if score - reached < min_gain:
                left.remove(j)
        able = [j for j in found if j in left]
        if not able:
            break
        best = max(able, key=lambda j: found[j][1])
        chosen.append(best)
        left.remove(best)
        weights, reached = found[best]
    return chosen, weights
