"""From scores to orders of players: highest first, ties broken by seeded permutations."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.synergy.states import FloatArray, IntArray

OrderPair = tuple[IntArray, IntArray]


def orders(scores: ArrayLike, n: int, seed: int, *names: object) -> IntArray:
    """Return n orders (n, m) of players by scores (m,), highest first; ties by n seeded permutations.

    Row i does not depend on n. Rows are equal where no score is tied. -0.0 and 0.0 are one score.
    names give a stream of its own, e.g. to each sample. Raises AssayError for scores that are empty, not
    1-D or not finite, and for n below 1.
    """
    values = _checked(scores)
    if n < 1:
        raise AssayError(f"n is {n}; ask for at least one order")
    rng = generator(seed, "tie-breaks", *names)
    return np.stack([np.lexsort((rng.permutation(len(values)), -values)) for _ in range(n)])


def tie_share(scores: ArrayLike) -> float:
    """Return the share of players whose score another player has too: 0 without ties, 1 if constant.

    Raises AssayError for scores that are empty, not 1-D or not finite.
    """
    values = _checked(scores)
    _, n_equal = np.unique(values, return_counts=True)
    return float(n_equal[n_equal > 1].sum() / len(values))


def tie_breaks(
    patch_scores: ArrayLike, token_scores: ArrayLike, n: int, seed: int, *names: object
) -> list[OrderPair]:
    """Return the pairs of a patch order (m,) and a token order (n,) to average F_syn over.

    n pairs, each modality with its own permutations; one pair where neither modality has a tie. Raises
    AssayError as `orders`.
    """
    tied = tie_share(patch_scores) > 0 or tie_share(token_scores) > 0
    n_pairs = n if tied else min(n, 1)
    patch_orders = orders(patch_scores, n_pairs, seed, "patches", *names)
    token_orders = orders(token_scores, n_pairs, seed, "tokens", *names)
    return list(zip(patch_orders, token_orders, strict=True))


def _checked(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise AssayError(f"scores have shape {values.shape}; give one score a player, at least one")
    if not (finite := np.isfinite(values)).all():
        first = int(np.flatnonzero(~finite)[0])
        raise AssayError(f"scores[{first}] is {values[first]}; every score must be finite to be ranked")
    return values
