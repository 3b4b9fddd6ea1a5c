"""Logistic regressions of many attributes at once, each of which stops by itself."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from tqdm import tqdm

from pipeline.matching.codes import BoolArray, FloatArray, IntArray
from pipeline.seeds import generator

DECAY = (0.9, 0.999)
TINY = 1e-8
"""Adam's, as in Kingma and Ba (arXiv 1412.6980)."""


@dataclass(frozen=True, eq=False)
class Data:
    """Standardised activations and attributes: x and y to train on, held_x and held_y to stop by."""

    x: FloatArray
    y: BoolArray
    held_x: FloatArray
    held_y: BoolArray


@dataclass(frozen=True, eq=False)
class State:
    """Weights (d, A), biases (A,), and of each attribute the epoch and the validation loss, (A,)."""

    weights: FloatArray
    biases: FloatArray
    epochs: IntArray
    loss: FloatArray


def fit(
    data: Data, seed: int, rate: float, batch_size: int, max_epochs: int, patience: int, progress: bool
) -> State:
    """Return each attribute's best state."""
    n_images, n_attributes = data.y.shape
    share = data.y.mean(axis=0)
    with np.errstate(divide="ignore"):
        biases = np.log(share) - np.log1p(-share)
    best = State(
        np.zeros((data.x.shape[1], n_attributes)), biases, np.zeros(n_attributes, dtype=np.int64), share * 0
    )
    going = np.flatnonzero(np.isfinite(biases))
    best.loss[:] = np.nan
    best.loss[going] = _loss(data, best.weights[:, going], biases[going], going)
    moving = _Adam(np.vstack([best.weights, biases])[:, going], rate)
    for epoch in tqdm(range(1, max_epochs + 1), desc="linear probe", unit="epoch", disable=not progress):
        if not len(going):
            break
        order = generator(seed, "probe", epoch).permutation(n_images)
        for start in range(0, n_images, batch_size):
            rows = order[start : start + batch_size]
            moving.step(data.x[rows], data.y[np.ix_(rows, going)])
        loss = _loss(data, moving.values[:-1], moving.values[-1], going)
        better = loss < best.loss[going]
        kept = going[better]
        best.weights[:, kept], best.biases[kept] = moving.values[:-1, better], moving.values[-1, better]
        best.loss[kept], best.epochs[kept] = loss[better], epoch
        on = epoch - best.epochs[going] < patience
        going, moving = going[on], moving.those(on)
    return best


class _Adam:
    """Adam on the cross-entropy of columns (A,) of weights with the bias as the last row, (d + 1, A)."""

    def __init__(self, values: FloatArray, rate: float) -> None:
        self.values = values
        self._rate = rate
        self._first = np.zeros_like(values)
        self._second = np.zeros_like(values)
        self._n_steps = 0

    def step(self, x: FloatArray, y: BoolArray) -> None:
        """Move along the gradient on a batch, x (B, d) and y (B, A)."""
        error = expit(x @ self.values[:-1] + self.values[-1]) - y
        gradient = np.vstack([x.T @ error, error.sum(axis=0)]) / len(x)
        self._n_steps += 1
        self._first += (1 - DECAY[0]) * (gradient - self._first)
        self._second += (1 - DECAY[1]) * (gradient * gradient - self._second)
        first, second = (
            moment / (1 - decay**self._n_steps)
            for moment, decay in zip((self._first, self._second), DECAY, strict=True)
        )
        self.values = self.values - self._rate * first / (np.sqrt(second) + TINY)

    def those(self, on: BoolArray) -> "_Adam":
        """Return the optimiser of some of its columns."""
        if not on.all():
            self.values = self.values[:, on]
            self._first, self._second = self._first[:, on], self._second[:, on]
        return self


def _loss(data: Data, weights: FloatArray, biases: FloatArray, attributes: IntArray) -> FloatArray:
    """Return the mean cross-entropy of some attributes on the images to stop by."""
    logits = data.held_x @ weights + biases
    return np.asarray((np.logaddexp(0.0, logits) - data.held_y[:, attributes] * logits).mean(axis=0))
