"""The MG-IS proposal: which images are worth a rating."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import FloatArray, is_constant, standardised, vector
from pipeline.errors import AssayError


def proposal(activation: ArrayLike, probability: ArrayLike, uniform_share: float = 0.2) -> FloatArray:
    """Return q (N,), each image's chance in one draw; it sums to 1.

    activation (N,) is one unit's; probability (N,) is the scorer's for the text, both over all N
    images. q is proportional to |abar cbar|, both standardised over N, then mixed with
    `uniform_share` of the uniform 1/N, so no weight (1/N)/q exceeds 1/uniform_share. Where
    `uniform_reasons` gives a reason, q is uniform. Raises AssayError for shapes that differ, NaN or
    infinity, or a share outside (0, 1]. Source: "Beyond Top Activations" (arXiv 2506.07985), MG-IS.
    """
    a = vector("activation", activation)
    c = vector("probability", probability, len(a))
    if not 0 < uniform_share <= 1:
        raise AssayError(f"uniform_share is {uniform_share}; it must be in (0, 1]")
    product = np.abs(standardised(a) * standardised(c))
    if not product.sum() > 0:  # also where one is constant: all NaN
        return np.full(len(a), 1 / len(a))
    return np.asarray((1 - uniform_share) * (product / product.sum()) + uniform_share / len(a))


def active_proposal(
    activation: ArrayLike,
    probability: ArrayLike,
    uniform_share: float = 0.1,
    floor: float = 0.1,
    mgis_share: float = 0.5,
) -> FloatArray:
    """Return q (N,) of active sampling; it sums to 1.

    q is (1 - mgis_share) times what is proportional to |g| sqrt(s (1 - s) + floor mu), plus mgis_share times
    what is proportional to MG-IS's |abar sbar|, then mixed with `uniform_share` of the uniform. s (N,) is
    the probability, mu its mean, rho its correlation with the standardised activation abar, and
    g = abar - rho (1 - 2 mu) / (2 sqrt(mu (1 - mu))) is what one image's presence moves in the
    correlation of a 0/1 presence. floor: the share of the base rate that the scorer may be blind to; without
    it such images are hardly ever drawn. MG-IS's part is for images that an over-confident scorer is sure
    of. Where `uniform_reasons` gives a reason, q is uniform. Raises AssayError as `proposal` does, for a
    negative floor, for an mgis_share outside [0, 1], and for a probability outside [0, 1].
    Source: Neyman's allocation for the difference estimator; T. Zrnic and E. Candès, "Active statistical
    inference" (arXiv 2403.03208), with the floor ours.
    """
    a = vector("activation", activation)
    s = vector("probability", probability, len(a))
    if not 0 < uniform_share <= 1:
        raise AssayError(f"uniform_share is {uniform_share}; it must be in (0, 1]")
    if not floor >= 0:
        raise AssayError(f"floor is {floor}; it must be 0 or more")
    if not 0 <= mgis_share <= 1:
        raise AssayError(f"mgis_share is {mgis_share}; it must be in [0, 1]")
    if s.min() < 0 or s.max() > 1:
        image = int(np.flatnonzero((s < 0) | (s > 1))[0])
        raise AssayError(f"probability[{image}] is {s[image]}; it must be in [0, 1]")
    abar, mu = standardised(a), float(s.mean())
    product = abar * standardised(s)
    if not np.abs(product).sum() > 0:  # also where one is constant: all NaN
        return np.full(len(a), 1 / len(a))
    rho = float(product.mean())
    # |g| times 2 sqrt(mu (1 - mu)), which may be 0 where mu is next to 0 or 1.
    moved = np.abs(2 * np.sqrt(mu * (1 - mu)) * abar - rho * (1 - 2 * mu))
    score = moved * np.sqrt(s * (1 - s) + floor * mu)
    total = score.sum()
    share = score / total if total > 0 else np.full(len(a), 1 / len(a))
    if mgis_share:
        share = (1 - mgis_share) * share + mgis_share * np.abs(product) / np.abs(product).sum()
    return np.asarray((1 - uniform_share) * share + uniform_share / len(a))


def uniform_reasons(activation: ArrayLike, probability: ArrayLike) -> tuple[str, ...]:
    """Return why the proposal falls back to uniform, as flags; () where it does not.

    `constant_activation`, `constant_probability`: sd is 0. `zero_product`: both vary, but at least
    one of them is at its mean on every image. Raises AssayError as `proposal` does.
    """
    a = vector("activation", activation)
    c = vector("probability", probability, len(a))
    constant = {"constant_activation": is_constant(a), "constant_probability": is_constant(c)}
    if any(constant.values()):
        return tuple(flag for flag, holds in constant.items() if holds)
    return () if np.any(standardised(a) * standardised(c)) else ("zero_product",)
