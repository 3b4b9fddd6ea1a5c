"""Linear probes of attributes on activations: what is there to be matched, the upper bound of matching."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from scipy.special import expit

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.matching.codes import BoolArray, FloatArray, IntArray, attribute_matrix
from pipeline.matching.logistic import Data, fit
from pipeline.matching.matching import f1_scores
from pipeline.matching.real_codes import finite

HEADER = "assay_probe"
FORMAT = 1
ARRAYS = ("weights", "biases", "means", "scales", "thresholds", "epochs", "validation_loss")

NO_POSITIVE = "no positive in training"
NO_NEGATIVE = "no negative in training"
NO_VALIDATION = "no positive in validation"


@dataclass(frozen=True, eq=False)
class Probe:
    """Logistic regressions of A attributes on standardised activations (d).

    weights: (d, A); biases: (A,), infinite where training has one class; means, scales: (d,), of the
    training activations. thresholds: (A,), the probability from which an attribute is predicted, 0.5 where
    there is a reason. epochs, validation_loss: (A,), of the state that was kept. reasons: what was missing
    ("no positive in training": the probability is 0; "no negative in training": it is 1; "no positive in
    validation"), else "".
    """

    weights: FloatArray
    biases: FloatArray
    means: FloatArray
    scales: FloatArray
    thresholds: FloatArray
    epochs: IntArray
    validation_loss: FloatArray
    reasons: tuple[str, ...]
    seed: int

    def probabilities(self, activations: ArrayLike) -> FloatArray:
        """Return the probability (N, A) of each attribute; AssayError for activations (N, d) of another d."""
        x = finite(activations, "activations")
        if x.shape[1] != len(self.means):
            raise AssayError(
                f"activations have {x.shape[1]} columns; the probe was trained on {len(self.means)}"
            )
        return np.asarray(expit((x - self.means) / self.scales @ self.weights + self.biases))

    def predict(self, activations: ArrayLike) -> BoolArray:
        """Return which attributes (N, A) are predicted: a probability of at least the threshold."""
        return self.probabilities(activations) >= self.thresholds

    def save(self, path: Path) -> None:
        """Write one .safetensors file that `load_probe` reads."""
        facts = {"format": FORMAT, "reasons": self.reasons, "seed": self.seed}
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        with replacing(path) as temporary:
            save_file(arrays, temporary, metadata={HEADER: json.dumps(facts)})


def load_probe(path: Path) -> Probe:
    """Read a probe; AssayError where the file is missing or not one of ours."""
    if not path.is_file():
        raise AssayError(f"{path} is missing; train the probe again")
    try:
        with safe_open(path, framework="numpy") as stored:
            facts = json.loads((stored.metadata() or {}).get(HEADER, "{}"))
            arrays = {name: stored.get_tensor(name) for name in ARRAYS if name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise AssayError(f"{path} is no probe: {error}") from error
    if facts.get("format") != FORMAT or len(arrays) < len(ARRAYS):
        raise AssayError(f"{path} is no probe of format {FORMAT}; train it again")
    return Probe(**arrays, reasons=tuple(facts["reasons"]), seed=facts["seed"])


def linear_probe(
    train_x: ArrayLike,
    train_y: ArrayLike,
    validation_x: ArrayLike,
    validation_y: ArrayLike,
    seed: int,
    *,
    learning_rate: float = 3e-3,
    batch_size: int = 256,
    max_epochs: int = 1000,
    patience: int = 10,
    progress: bool = False,
) -> Probe:
    """Fit a logistic regression for each attribute (N, A) on activations (N, d), all attributes at once.

    Adam on the mean cross-entropy, from weights of 0 and the training share; an epoch sees every image
    once, in an order that the seed draws. Each attribute keeps its own state of the least validation loss
    (its start included) and stops by itself after `patience` epochs without a lower one, so what others
    are fitted beside it changes it by rounding alone. Its threshold is the one of the greatest F1 on the
    validation images, the highest on ties. float64. Raises AssayError for shapes that do not fit, values
    that are not finite or no attribute, and settings out of range.
    """
    _check(learning_rate=learning_rate, batch_size=batch_size, max_epochs=max_epochs, patience=patience)
    train, validation = finite(train_x, "train_x"), finite(validation_x, "validation_x")
    if train.shape[1] != validation.shape[1]:
        raise AssayError(f"train_x has {train.shape[1]} columns and validation_x {validation.shape[1]}")
    present, held = attribute_matrix(train_y, len(train)), attribute_matrix(validation_y, len(validation))
    if present.shape[1] != held.shape[1]:
        raise AssayError(f"train_y has {present.shape[1]} attributes and validation_y {held.shape[1]}")
    means, spread = train.mean(axis=0), train.std(axis=0)
    scales = np.where(spread > 0, spread, 1.0)
    data = Data((train - means) / scales, present, (validation - means) / scales, held)
    state = fit(data, seed, learning_rate, batch_size, max_epochs, patience, progress)
    probabilities = expit(data.held_x @ state.weights + state.biases)
    known = np.isfinite(state.biases) & held.any(axis=0)
    thresholds = np.where(known, best_thresholds(probabilities, held), 0.5)
    return Probe(
        state.weights,
        state.biases,
        means,
        scales,
        thresholds,
        state.epochs,
        state.loss,
        _reasons(present, held),
        seed,
    )


def probe_scores(probe: Probe, activations: ArrayLike, attributes: ArrayLike) -> pd.DataFrame:
    """Return one row an attribute of how the probe does on activations (N, d) with attributes (N, A).

    Columns: attribute (its place), f1 and accuracy (at the probe's threshold), f1_at_half (at 0.5), auc (NaN
    where the images have one class), threshold, n_positive, reason. F1 is 0 where nothing is present nor
    predicted. Raises AssayError for shapes that do not fit.
    """
    probabilities = probe.probabilities(activations)
    present = attribute_matrix(attributes, len(probabilities))
    if present.shape[1] != probabilities.shape[1]:
        raise AssayError(f"there are {present.shape[1]} attributes; the probe has {probabilities.shape[1]}")
    predicted = probabilities >= probe.thresholds
    return pd.DataFrame(
        {
            "attribute": np.arange(present.shape[1]),
            "f1": _f1(predicted, present),
            "f1_at_half": _f1(probabilities >= 0.5, present),
            "auc": auc(probabilities, present),
            "accuracy": (predicted == present).mean(axis=0),
            "threshold": probe.thresholds,
            "n_positive": present.sum(axis=0),
            "reason": list(probe.reasons),
        }
    )


def auc(scores: FloatArray, present: BoolArray) -> FloatArray:
    """Return the area under each column's ROC curve, (A,).

    The chance that a positive scores above a negative; a tie counts one half. NaN for a column with one
    class.
    """
    from scipy.stats import rankdata

    n_positive = present.sum(axis=0).astype(np.float64)
    pairs = n_positive * (len(present) - n_positive)
    ranks = np.where(present, rankdata(scores, axis=0), 0.0).sum(axis=0)
    above = ranks - n_positive * (n_positive + 1) / 2
    return np.asarray(np.divide(above, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0))


def best_thresholds(probabilities: FloatArray, present: BoolArray) -> FloatArray:
    """Return the threshold (A,) of the greatest F1 of `probability >= threshold`, the highest on ties.

    It lies midway between two probabilities (N, A), or at 0 where all images are predicted.
    """
    order = np.argsort(-probabilities, axis=0, kind="stable")
    high = np.take_along_axis(probabilities, order, axis=0)
    low = np.vstack([high[1:], np.zeros_like(high[:1])])
    right = np.cumsum(np.take_along_axis(present, order, axis=0), axis=0, dtype=np.int64)
    f1 = f1_scores(right, np.arange(1, len(high) + 1)[:, None], present.sum(axis=0))
    parted = high > low
    parted[-1] = True
    best = np.where(parted, f1, -1.0).argmax(axis=0)
    columns = np.arange(high.shape[1])
    above, below = high[best, columns], low[best, columns]
    middle = below + (above - below) / 2
    middle = np.where(middle > below, middle, above)
    return np.where(best == len(high) - 1, 0.0, middle)


def _f1(predicted: BoolArray, present: BoolArray) -> FloatArray:
    right = (predicted & present).sum(axis=0)
    return f1_scores(right, predicted.sum(axis=0), present.sum(axis=0))


def _reasons(present: BoolArray, held: BoolArray) -> tuple[str, ...]:
    reasons = np.full(present.shape[1], "", dtype=object)
    reasons[~held.any(axis=0)] = NO_VALIDATION
    reasons[present.all(axis=0)] = NO_NEGATIVE
    reasons[~present.any(axis=0)] = NO_POSITIVE
    return tuple(reasons.tolist())


def _check(**settings: float) -> None:
    for name, value in settings.items():
        if not (np.isfinite(value) and value > 0):
            raise AssayError(f"{name} is {value}; give a number above 0")
