"""Random factors of many levels, absorbed: everything else is then a small dense problem.

T (N, m) is R (indicators of the other factors), X and y side by side. The absorbed factors are all nested in
one of them, the outer one, so that W = (I + sum_i g_i Z_i Z_i')^-1 has a block for each of its levels; W
never appears, only T'WT and what its derivatives need. Within a block Z holds the indicators of its levels of
all absorbed factors side by side, C = Z'Z, U = Z'T, and D has each column's ratio on its diagonal. Then
W = I - Z M Z' with M = D^1/2 (I + D^1/2 C D^1/2)^-1 D^1/2, Z'WT = U - C M U and Z'WZ = C - C M C.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy import sparse

from pipeline.statistics.intervals import Codes, Floats
from pipeline.statistics.mixed.design import RandomFactor, is_nested

BLOCKS_AT_ONCE = 64
"""So many blocks stay in a processor's cache."""


@dataclass(frozen=True)
class Absorbed:
    """What rows say of the absorbed factors in L blocks of q columns: C (L, q, q), U (L, q, m), and T'T.

    factors are their numbers in the formula, the outer one first; there may be none. parts are their columns
    in a block; a block with fewer levels than another has columns of zeros.
    """

    factors: tuple[int, ...]
    parts: tuple[slice, ...]
    counts: Floats
    sums: Floats
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
    """Return the factors to absorb, the outer one first: those whose absorption leaves least to compute."""
    inside = {
        outer: [i for i, one in enumerate(random) if i != outer and is_nested(one, random[outer])]
        for outer in range(len(random))
    }
    costs = {outer: _cost(random, outer, inner) for outer, inner in inside.items()}
    if not costs:
        return ()
    outer = min(costs, key=lambda i: costs[i])
    widths = {i: _places(random[i], random[outer])[1] for i in inside[outer]}
    return (outer, *sorted(widths, key=lambda i: widths[i]))


def _cost(random: tuple[RandomFactor, ...], outer: int, inner: list[int]) -> float:
    """Return about how many products an evaluation takes: of the dense rest, and of the blocks."""
    left = sum(one.n_levels for i, one in enumerate(random) if i != outer and i not in inner)
    width = 1 + sum(_places(random[i], random[outer])[1] for i in inner)
    return float(left) ** 3 + float(random[outer].n_levels) * width * (width**2 + left**2)


def _places(one: RandomFactor, outer: RandomFactor) -> tuple[Codes, int]:
    """Return each level's place among those of one that share its level of outer, and the most places."""
    level, first_row = np.unique(one.codes, return_index=True)
    block = outer.codes[first_row]
    order = np.argsort(block, kind="stable")
    starts = np.searchsorted(block[order], block[order])
    places = np.empty(one.n_levels, dtype=np.int64)
    places[level[order]] = np.arange(len(order)) - starts
    return places, int(places.max(initial=0)) + 1


def absorb(random: tuple[RandomFactor, ...], factors: tuple[int, ...], columns: sparse.csr_array) -> Absorbed:
    """Return the sums of columns T (N, m) over the levels of the chosen factors."""
    gram = (columns.T @ columns).toarray()
    if not factors:
        return Absorbed((), (), np.zeros((0, 0, 0)), np.zeros((0, 0, columns.shape[1])), gram)
    outer, parts, at = random[factors[0]], [], []
    width = 0
    for one in (random[i] for i in factors):
        places, n_places = _places(one, outer)
        parts.append(slice(width, width + n_places))
        at.append(width + places[one.codes])
        width += n_places
    cells = np.stack([outer.codes * width + place for place in at], axis=1)
    counts = np.zeros(outer.n_levels * width * width)
    for cell in cells.T:
        for place in at:
            counts += np.bincount(cell * width + place, minlength=len(counts))
    n, shape = len(outer.codes), (outer.n_levels, width)
    ends = np.arange(0, n * len(factors) + 1, len(factors))
    z = sparse.csr_array((np.ones(cells.size), cells.ravel(), ends), shape=(n, shape[0] * width))
    sums = (z.T @ columns).toarray().reshape(*shape, columns.shape[1])
    return Absorbed(factors, tuple(parts), counts.reshape(*shape, width), sums, gram)


def products(absorbed: Absorbed, ratios: Floats) -> Products:
    """Return T'WT and its like at the absorbed factors' ratios: variances per residual variance."""
    if not absorbed.factors:
        return Products(absorbed.gram, 0.0, (), (), {}, {})
    widths = [part.stop - part.start for part in absorbed.parts]
    root = np.repeat(np.sqrt(ratios), widths)
    starts = range(0, len(absorbed.counts), BLOCKS_AT_ONCE)
    some = (slice(start, start + BLOCKS_AT_ONCE) for start in starts)
    pieces = (_of_blocks(absorbed.parts, absorbed.counts[s], absorbed.sums[s], root) for s in some)
    total = reduce(_added, pieces)
    return replace(total, middle=absorbed.gram - total.middle)


def _of_blocks(parts: tuple[slice, ...], c: Floats, u: Floats, root: Floats) -> Products:
    """Return what some blocks add to each sum; to the middle it is what they take away."""
    system = root[:, None] * c * root + np.eye(len(root))
    m = root[:, None] * np.linalg.inv(system) * root
    mu = m @ u
    b, k = u - c @ mu, c - c @ m @ c
    second, second_trace = {}, {}
    for j, right in enumerate(parts):
        kb = k[:, :, right] @ b[:, right]
        for i, left in enumerate(parts[: j + 1]):
            second[i, j] = _sum(b[:, left], kb[:, left])
            second_trace[i, j] = float(np.sum(k[:, left, right] ** 2))
    return Products(
        middle=_sum(u, mu),
        log_det=float(np.sum(np.linalg.slogdet(system)[1])),
        first=tuple(_sum(b[:, part], b[:, part]) for part in parts),
        first_trace=tuple(float(np.einsum("saa->", k[:, part, part])) for part in parts),
        second=second,
        second_trace=second_trace,
    )


def _added(a: Products, b: Products) -> Products:
    return Products(
        a.middle + b.middle,
        a.log_det + b.log_det,
        tuple(one + two for one, two in zip(a.first, b.first, strict=True)),
        tuple(one + two for one, two in zip(a.first_trace, b.first_trace, strict=True)),
        {pair: a.second[pair] + b.second[pair] for pair in a.second},
        {pair: a.second_trace[pair] + b.second_trace[pair] for pair in a.second_trace},
    )


def _sum(left: Floats, right: Floats) -> Floats:
    """Return the sum over blocks of left' right, (L, q, m) each."""
    m = left.shape[-1]
    total: Floats = left.reshape(-1, m).T @ right.reshape(-1, m)
    return total
