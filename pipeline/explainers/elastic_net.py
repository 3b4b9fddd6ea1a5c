"""Elastic nets of many units on one set of concepts, by scikit-learn on a working set of concepts a unit."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import column_blocks

FloatArray = NDArray[np.float64]
ENTERING = 100
"""Concepts that join a unit's working set in one round."""
VIOLATION = 1e-4
"""A concept left out may exceed the threshold of the weights 0 by this share of it."""
GAP = 1e-12
MAX_SWEEPS = 100_000


@dataclass(frozen=True, eq=False)
class Design:
    """Values (T, n) of T concepts on n images, with the mean and the sd (T,) that standardise them."""

    values: NDArray[Any]
    mean: FloatArray
    sd: FloatArray

    def standardised(self, places: slice | NDArray[np.intp]) -> FloatArray:
        """Return the standardised values (k, n) of some concepts."""
        rows: FloatArray = self.values[places] - self.mean[places, None]
        np.divide(rows, self.sd[places, None], out=rows)
        return rows

    def products(self, targets: FloatArray) -> FloatArray:
        """Return the mean over images of each standardised concept times each column of (n, u), (T, u)."""
        n_concepts, n_images = self.values.shape
        result = np.empty((n_concepts, targets.shape[1]))
        for concepts in column_blocks(n_images, n_concepts):
            result[concepts] = self.standardised(concepts) @ targets
        np.divide(result, n_images, out=result)
        return result

    def predictions(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sums (n, u) of the standardised concepts for weights (T, u)."""
        used = np.flatnonzero(weights.any(axis=1))
        n_images = self.values.shape[1]
        result = np.zeros((n_images, weights.shape[1]))
        for block in column_blocks(n_images, len(used)):
            result += self.standardised(used[block]).T @ weights[used[block]]
        return result


def elastic_nets(
    design: Design, targets: FloatArray, *, strength: float, l1_ratio: float
) -> tuple[FloatArray, FloatArray]:
    """Return the weights (T, u) of u elastic nets and their duality gaps (u,).

    For each column y of `targets` (n, u), with mean 0 and sd 1, and the standardised concepts X (n, T):

        minimise  1/(2n) |y - X w|^2 + strength (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|_2^2)

    A unit's working set starts with the concepts whose |X'y|/n exceeds strength * l1_ratio, at most 100 of
    them. scikit-learn solves the problem on that set from its Gram matrix to a duality gap of 1e-12; then
    one product over all concepts and units finds those outside that break the optimality conditions, and
    the strongest 100 join, until none is left. So no matrix of T x T is ever held. A gap above 1e-12 says
    that 100,000 sweeps were not enough.
    """
    threshold = strength * l1_ratio
    weights = np.zeros((len(design.values), targets.shape[1]))
    inside = np.zeros(weights.shape, dtype=bool)
    gaps = np.zeros(targets.shape[1])
    waiting, correlations = np.arange(targets.shape[1]), design.products(targets)
    products = correlations
    while True:
        joined = [_join(inside[:, u], products[:, k], threshold) for k, u in enumerate(waiting)]
        waiting = waiting[np.array(joined, dtype=bool)]
        if not len(waiting):
            return weights, gaps
        for unit in waiting:
            members = np.flatnonzero(inside[:, unit])
            weights[members, unit], gaps[unit] = _solve(
                design.standardised(members),
                correlations[members, unit],
                weights[members, unit],
                strength,
                l1_ratio,
            )
        residuals = targets[:, waiting] - design.predictions(weights[:, waiting])
        products = design.products(residuals)


def _join(inside: NDArray[np.bool_], products: FloatArray, threshold: float) -> bool:
    """Mark the strongest outside that break optimality, of equal ones the first; return whether any does."""
    excess = np.where(inside, 0.0, np.abs(products))
    breaking = np.flatnonzero(excess > threshold * (1 + VIOLATION))
    inside[breaking[np.argsort(-excess[breaking], kind="stable")[:ENTERING]]] = True
    return bool(len(breaking))


def _solve(
    rows: FloatArray, correlations: FloatArray, start: FloatArray, strength: float, l1_ratio: float
) -> tuple[FloatArray, float]:
    """Return the weights (k,) and the gap on a working set with standardised values (k, n).

    scikit-learn needs only the Gram matrix, X'y and y'y: divided by n, as of one image, they give the same
    problem. The array in the place of X is read for its shape.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import enet_path

    size, n_images = rows.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, found, gaps = enet_path(
            np.zeros((1, size), order="F"),
            np.ones(1),
            alphas=[strength],
            l1_ratio=l1_ratio,
            precompute=np.ascontiguousarray(rows @ rows.T / n_images),
            Xy=np.ascontiguousarray(correlations),
            coef_init=start,
            tol=GAP,
            max_iter=MAX_SWEEPS,
            check_input=False,
        )
    return found[:, 0], float(gaps[0])
