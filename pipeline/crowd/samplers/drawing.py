"""Drawing images from a proposal, with or without replacement."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.samplers.draws import Draws
from pipeline.errors import AssayError


def draw_from(
    q: FloatArray,
    n_inputs: int,
    rng: np.random.Generator,
    *,
    replacement: bool = True,
    flags: tuple[str, ...] = (),
) -> Draws:
    """Draw n_inputs images by the proposal q (N,).

    With replacement: independently. Without: Pareto sampling, whose inclusion probabilities are n q but
    for those that are certain; `Draws.q` is then inclusion / n, so that weights and means are those of
    Horvitz and Thompson. rng gives every image its own number, so that two proposals under one stream
    share as many images as they can. Raises AssayError for more images than there are.
    Source: B. Rosén, "On sampling with probability proportional to size", J. Stat. Plan. Inf. 62 (1997).
    """
    if replacement:
        return Draws(q, rng.choice(len(q), size=n_inputs, p=q), flags)
    if n_inputs > len(q):
        raise AssayError(
            f"n_inputs is {n_inputs} but there are {len(q)} images; without replacement an image is drawn "
            "once, so lower sampler.n_inputs"
        )
    inclusion = inclusion_probabilities(q, n_inputs)
    u = rng.random(len(q))
    certain = inclusion >= 1
    with np.errstate(divide="ignore", invalid="ignore"):
        rank = np.where(certain, -1.0, u * (1 - inclusion) / ((1 - u) * inclusion))
    chosen = np.sort(np.argsort(rank, kind="stable")[:n_inputs])
    return Draws(inclusion / n_inputs, chosen, flags, inclusion=inclusion[chosen])


def inclusion_probabilities(q: FloatArray, n_inputs: int) -> FloatArray:
    """Return each image's chance to be in the sample (N,): n q, at most 1, and n in all.

    What is above 1 is certain, and the rest is scaled up until none is above 1.
    """
    inclusion = np.minimum(q * n_inputs, 1.0)
    while True:
        certain = inclusion >= 1
        rest = float(q[~certain].sum())
        if not rest > 0:
            return inclusion
        scaled = np.where(certain, 1.0, q * (n_inputs - int(certain.sum())) / rest)
        if not np.any(scaled > 1):
            return scaled
        inclusion = np.minimum(scaled, 1.0)
