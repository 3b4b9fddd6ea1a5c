"""The restricted likelihood of random intercepts: exact value, gradient and Hessian from cross-products.

y = X b + sum_i Z_i u_i + e, Var u_i = g_i v I, Var e = v I, so Var y = v H with H = I + sum_i g_i Z_i Z_i'.
With P = H^-1 - H^-1 X (X'H^-1 X)^-1 X'H^-1 and f = N - p, the criterion is lme4's
log|H| + log|X'H^-1 X| + f (1 + log(2 pi y'Py / f)) (Bates et al. 2015, J. Stat. Softw. 67(1), eq. 39 to 42),
and with V_i = Z_i Z_i' its derivatives are of tr P V_i, y'P V_i P y, tr P V_i P V_j and y'P V_i P V_j P y.
P = W - W T C T'W with the small matrix C: the absorbed factors are in W, all others and X in T.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from pipeline.statistics.intervals import Floats
from pipeline.statistics.mixed.absorbed import Absorbed, Products, absorb, choose, products
from pipeline.statistics.mixed.design import Design, RandomFactor, indicators


@dataclass(frozen=True)
class Problem:
    """All that a fit needs of its rows: the absorbed sums of T = (R, X, y), and where R's factors lie.

    blocks are the columns of R of each factor that is not absorbed, by its number in the formula.
    """

    n_rows: int
    n_fixed: int
    n_random: int
    absorbed: Absorbed
    blocks: dict[int, slice]

    @property
    def fixed(self) -> slice:
        """The columns of X in T; y is the last column."""
        end = self.absorbed.gram.shape[0] - 1
        return slice(end - self.n_fixed, end)

    @property
    def freedom(self) -> int:
        """N - p."""
        return self.n_rows - self.n_fixed


@dataclass(frozen=True)
class Point:
    """The problem at variance ratios g (K,): everything is per unit of residual variance v.

    coefficients (p,), spread (X'H^-1 X)^-1 (p, p), squares y'Py, log_dets log|H| + log|X'H^-1 X|;
    by factor traces tr P V_i, quadratics y'P V_i P y, slopes d spread / d g_i (K, p, p); by pairs
    trace_pairs tr P V_i P V_j and quadratic_pairs y'P V_i P V_j P y.
    """

    ratios: Floats
    coefficients: Floats
    spread: Floats
    squares: float
    log_dets: float
    freedom: int
    traces: Floats
    quadratics: Floats
    slopes: Floats
    trace_pairs: Floats
    quadratic_pairs: Floats

    @property
    def residual_variance(self) -> float:
        """The residual variance that is best at these ratios."""
        return self.squares / self.freedom

    @property
    def criterion(self) -> float:
        """The REML criterion, -2 log likelihood."""
        return self.log_dets + self.freedom * (1 + float(np.log(2 * np.pi * self.residual_variance)))

    @property
    def gradient(self) -> Floats:
        """The criterion's derivative by the ratios (K,)."""
        return self.traces - self.quadratics / self.residual_variance

    @property
    def hessian(self) -> Floats:
        """The criterion's second derivative by the ratios (K, K)."""
        outer = np.outer(self.quadratics, self.quadratics) / self.squares
        return -self.trace_pairs + (2 * self.quadratic_pairs - outer) / self.residual_variance

    @property
    def expected(self) -> Floats:
        """The Hessian's expectation (K, K), never negative: Fisher's scoring steps by it."""
        return self.trace_pairs - np.outer(self.traces, self.traces) / self.freedom

    @property
    def variance_hessian(self) -> Floats:
        """The second derivative of -2 log likelihood by (g, v), K + 1, at the best v."""
        v, k = self.residual_variance, len(self.ratios)
        full = np.empty((k + 1, k + 1))
        full[:k, :k] = -self.trace_pairs + 2 * self.quadratic_pairs / v
        full[:k, k] = full[k, :k] = self.quadratics / v**2
        full[k, k] = self.freedom / v**2
        return full


def problem_of(design: Design, columns: sparse.csr_array, y: Floats) -> Problem:
    """Return the problem of independent fixed columns X (N, p) and of y (N,)."""
    factors = choose(design.random)
    rest = [i for i in range(len(design.random)) if i not in factors]
    ends = np.cumsum([0, *(design.random[i].n_levels for i in rest)])
    sides = [_indicators(design.random[i]) for i in rest]
    joined = sparse.hstack([*sides, columns, sparse.csr_array(y[:, None])], format="csr")
    blocks = {i: slice(int(ends[k]), int(ends[k + 1])) for k, i in enumerate(rest)}
    absorbed = absorb(design.random, factors, joined)
    return Problem(len(y), columns.shape[1], len(design.random), absorbed, blocks)


def evaluate(problem: Problem, ratios: Floats) -> Point:
    """Return the point at ratios (K,), all >= 0."""
    inner = products(problem.absorbed, ratios[list(problem.absorbed.factors)])
    middle, fixed = inner.middle, problem.fixed
    scale = np.ones(len(middle) - 1)
    for i, block in problem.blocks.items():
        scale[block] = np.sqrt(ratios[i])
    system = scale[:, None] * middle[:-1, :-1] * scale
    system[np.diag_indices(fixed.start)] += 1
    root = linalg.cholesky(system, lower=True)
    half = linalg.solve_triangular(root, np.diag(scale), lower=True)
    inverse = np.zeros_like(middle)
    inverse[:-1, :-1] = half.T @ half
    projected = middle - middle @ inverse @ middle
    parts = _Parts(problem, inner, inverse, projected)
    k = problem.n_random
    pairs = [(i, j, *parts.pair(i, j)) for i in range(k) for j in range(i, k)]
    trace_pairs, quadratic_pairs = np.empty((k, k)), np.empty((k, k))
    for i, j, trace, quadratic in pairs:
        trace_pairs[i, j] = trace_pairs[j, i] = trace
        quadratic_pairs[i, j] = quadratic_pairs[j, i] = quadratic
    return Point(
        ratios=ratios,
        coefficients=inverse[fixed] @ middle[:, -1],
        spread=inverse[fixed, fixed],
        squares=max(float(projected[-1, -1]), np.finfo(np.float64).tiny),
        log_dets=inner.log_det + 2 * float(np.sum(np.log(np.diag(root)))),
        freedom=problem.freedom,
        traces=np.array([parts.trace(i) for i in range(k)]),
        quadratics=np.array([parts.quadratic(i) for i in range(k)]),
        slopes=np.array([parts.slope(i) for i in range(k)]).reshape(k, problem.n_fixed, problem.n_fixed),
        trace_pairs=trace_pairs,
        quadratic_pairs=quadratic_pairs,
    )


class _Parts:
    """Traces and quadratic forms by factor: from T'PT for a factor in T, else from the products."""

    def __init__(self, problem: Problem, inner: Products, inverse: Floats, projected: Floats) -> None:
        self.problem, self.inner, self.inverse, self.projected = problem, inner, inverse, projected
        self.residual = np.eye(len(inverse)) - inverse @ inner.middle
        self.place = {i: k for k, i in enumerate(problem.absorbed.factors)}
        self.sandwiches = [self.residual.T @ one @ self.residual for one in inner.first]
        self.reduced = [inverse @ one for one in inner.first]

    def trace(self, i: int) -> float:
        """tr P V_i."""
        if i in self.place:
            k = self.place[i]
            return self.inner.first_trace[k] - float(np.trace(self.reduced[k]))
        block = self.problem.blocks[i]
        return float(np.trace(self.projected[block, block]))

    def quadratic(self, i: int) -> float:
        """y'P V_i P y."""
        if i in self.place:
            return float(self.sandwiches[self.place[i]][-1, -1])
        return float(np.sum(self.projected[self.problem.blocks[i], -1] ** 2))

    def slope(self, i: int) -> Floats:
        """The derivative of (X'H^-1 X)^-1 by g_i (p, p)."""
        rows = self.inverse[self.problem.fixed]
        if i in self.place:
            sandwich: Floats = rows @ self.inner.first[self.place[i]] @ rows.T
            return sandwich
        side = rows @ self.inner.middle[:, self.problem.blocks[i]]
        product: Floats = side @ side.T
        return product

    def pair(self, i: int, j: int) -> tuple[float, float]:
        """tr P V_i P V_j and y'P V_i P V_j P y."""
        if i in self.place and j in self.place:
            return self._both_absorbed(*sorted((self.place[i], self.place[j])))
        if j in self.place:
            i, j = j, i
        across = self.problem.blocks[j]
        if i in self.place:
            sandwich = self.sandwiches[self.place[i]]
            return float(np.trace(sandwich[across, across])), float(
                sandwich[-1, across] @ self.projected[across, -1]
            )
        between = self.projected[self.problem.blocks[i], across]
        left = self.projected[-1, self.problem.blocks[i]]
        return float(np.sum(between**2)), float(left @ between @ self.projected[across, -1])

    def _both_absorbed(self, k: int, other: int) -> tuple[float, float]:
        second, last = self.inner.second[k, other], self.residual[:, -1]
        cross = self.inner.first[k] @ self.reduced[other]
        trace = self.inner.second_trace[k, other] - 2 * float(np.sum(self.inverse * second))
        return trace + float(np.sum(self.reduced[k] * self.reduced[other].T)), float(
            last @ (second - cross) @ last
        )


def _indicators(one: RandomFactor) -> sparse.csr_array:
    return indicators(one.codes, one.n_levels)
