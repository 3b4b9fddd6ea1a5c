"""Which images stand for a latent, for what it misses, and for pairs: by rules that a reader can repeat."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array

Rows = NDArray[np.intp]


def strongest(codes: csc_array, latent: int, n: int) -> tuple[Rows, NDArray[np.float64]]:
    """Return the up to n rows of codes (N, D) on which a latent is strongest, and its codes there.

    Largest first, none that is not above 0; on ties the lower row first.
    """
    rows, values = fires(codes, latent)
    order = np.argsort(-values, kind="stable")[:n]
    return rows[order], values[order]


def fires(codes: csc_array, latent: int) -> tuple[Rows, NDArray[np.float64]]:
    """Return the rows of codes (N, D) on which a latent fires (code above 0), in order, and the codes."""
    span = slice(int(codes.indptr[latent]), int(codes.indptr[latent + 1]))
    rows, values = codes.indices[span].astype(np.intp), codes.data[span].astype(np.float64)
    order = np.argsort(rows, kind="stable")
    rows, values = rows[order], values[order]
    return rows[values > 0], values[values > 0]


def missed(codes: csc_array, coalition: ArrayLike, held: ArrayLike) -> Rows:
    """Return the rows of those that have the attribute (held: (N,) bool) on which no latent fires."""
    covered = np.zeros(codes.shape[0], dtype=np.bool_)
    for latent in np.asarray(coalition, dtype=np.int64):
        covered[fires(codes, int(latent))[0]] = True
    return np.flatnonzero(np.asarray(held, dtype=np.bool_) & ~covered)


def spread_over(rows: ArrayLike, n: int) -> Rows:
    """Return n of the rows, evenly spread over their order from first to last; all where there are fewer."""
    found = np.asarray(rows, dtype=np.intp)
    if len(found) <= n:
        return found
    places = np.linspace(0, len(found) - 1, n).round().astype(np.intp)
    return found[places]
