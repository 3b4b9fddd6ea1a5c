"""The largest random factors, absorbed: everything else is then a small dense problem.

T (N, m) is R (indicators of the other factors), X and y side by side. The inner factor Z1 is nested in the
outer factor Z2; W = (I + g1 Z1 Z1' + g2 Z2 Z2')^-1 never appears, only T'WT and what its derivatives need.
With a_j = r_j n_j, r_j = 1 / (1 + g1 n_j) for a level j of n_j rows, h_s = sum a_j and e_s = 1 / (1 + g2 h_s)
over the levels j in s, all of it is sums over levels of outer products of T'z_j = c_j.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pipeline.statistics.intervals import Floats
from pipeline.statistics.mixed.design import RandomFactor, indicators, is_nested


@dataclass(frozen=True)
class Absorbed:
    """What rows say of the absorbed factors: counts n (J,), sums c (J, m), the outer level of each, and T'T.

    factors are the numbers of the outer and the inner factor in the formula; there may be one or none.
    """

    factors: tuple[int, ...]
    counts: Floats
    sums: Floats
    outer: sparse.csr_array
    gram: Floats


@dataclass(frozen=True)
class Products:
    """T'WT, log det W^-1, and for each absorbed factor i with V_i = Z_i Z_i', and each pair:

    first T'W V_i W T, first_trace tr W V_i, second T'W V_i W V_j W T, second_trace tr W V_i W V_j.
    """

    middle: Floats
    log_det: float
    first: tuple[Floats, ...]
    first_trace: tuple[float, ...]
    second: dict[tuple[int, int], Floats]
    second_trace: dict[tuple[int, int], float]


def choose(random: tuple[RandomFactor, ...]) -> tuple[int, ...]:
    """Return the factors to absorb: the largest, before it the largest that it is nested in, if any."""
    if not random:
        return ()
    inner = max(range(len(random)), key=lambda i: random[i].n_levels)
    around = [i for i, one in enumerate(random) if i != inner and is_nested(random[inner], one)]
    return (*sorted(around, key=lambda i: -random[i].n_levels)[:1], inner)


def absorb(random: tuple[RandomFactor, ...], factors: tuple[int, ...], columns: sparse.csr_array) -> Absorbed:
    """Return the sums of columns T (N, m) over the levels of the chosen factors."""
    gram = (columns.T @ columns).toarray()
    if not factors:
        nothing = np.zeros((0, columns.shape[1]))
        return Absorbed((), np.zeros(0), nothing, sparse.csr_array((0, 0)), gram)
    outer, inner = random[factors[0]], random[factors[-1]]
    first_row = np.unique(inner.codes, return_index=True)[1]
    return Absorbed(
        factors,
        np.bincount(inner.codes, minlength=inner.n_levels).astype(np.float64),
        (indicators(inner.codes, inner.n_levels).T @ columns).toarray(),
        sparse.csr_array(indicators(outer.codes[first_row], outer.n_levels).T),
        gram,
    )


def products(absorbed: Absorbed, ratios: Floats) -> Products:
    """Return T'WT and its like at the absorbed factors' ratios: variances per residual variance."""
    if not absorbed.factors:
        return Products(absorbed.gram, 0.0, (), (), {}, {})
    g2, g1 = ratios[0], ratios[1] if len(ratios) > 1 else 0.0
    n, c, over = absorbed.counts, absorbed.sums, absorbed.outer
    r = 1 / (1 + g1 * n)
    a = r * n
    h = over @ a
    e = 1 / (1 + g2 * h)
    rc = r[:, None] * c
    g = over @ rc
    middle = absorbed.gram - g1 * (rc.T @ c) - g2 * _weighed(g, e)
    log_det = float(np.sum(np.log1p(g1 * n)) + np.sum(np.log1p(g2 * h)))
    first, trace = [_weighed(g, e**2)], [float(h @ e)]
    second, second_trace = {(0, 0): _weighed(g, h * e**3)}, {(0, 0): float(np.sum((h * e) ** 2))}
    if len(ratios) > 1:
        b = g2 * e
        f = rc - a[:, None] * (over.T @ (b[:, None] * g))
        k = over @ (a[:, None] * f)
        squares = over @ a**2
        first.append(f.T @ f)
        trace.append(float(np.sum(a) - b @ squares))
        second[0, 1] = (e[:, None] ** 2 * k).T @ g
        second_trace[0, 1] = float(e**2 @ squares)
        second[1, 1] = _weighed(f, a) - _weighed(k, b)
        second_trace[1, 1] = float(np.sum(a**2) - 2 * (b @ (over @ a**3)) + b**2 @ squares**2)
    return Products(middle, log_det, tuple(first), tuple(trace), second, second_trace)


def _weighed(rows: Floats, weights: Floats) -> Floats:
    product: Floats = (weights[:, None] * rows).T @ rows
    return product
