"""From cosines to probabilities, and the two numbers that this takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from pipeline.errors import AssayError

Array = np.ndarray[Any, Any]
CHUNK = 4096
SMALLEST, LARGEST = 1e-3, 1e3


@dataclass(frozen=True)
class Calibration:
    """P(text is true of image) = sigmoid(a (cos + b)), and what it was fitted to.

    `log_loss` is the mean negative log-likelihood of a pair in nats. Flags: `separable` (the
    labels are told apart without error, so a stops at its bound), `no_signal` (cosines do not
    rise with the labels, so a stops at its lower bound and every probability is nearly the
    share of positives).
    """

    a: float
    b: float
    n_images: int
    n_pairs: int
    n_positive: int
    log_loss: float
    flags: tuple[str, ...] = ()


def probabilities(
    image_embeddings: Array, text_embeddings: Array, a: float, b: float, out: Array | None = None
) -> Array:
    """Return sigmoid(a (cos + b)) of every image and text, (N, T) float32.

    `image_embeddings` (N, d) and `text_embeddings` (T, d) have rows of length 1; sums are
    float64. `out` (for instance a memory-mapped file) is filled and returned where it is given;
    memory is bounded by it and one chunk of rows. Source: Oikarinen et al., "Beyond Top
    Activations", CVPR 2026, whose (a, b) come from a grid search.
    """
    texts = np.asarray(text_embeddings, dtype=np.float64).T
    if out is None:
        out = np.empty((len(image_embeddings), texts.shape[1]), dtype=np.float32)
    for start in range(0, len(image_embeddings), CHUNK):
        rows = slice(start, start + CHUNK)
        cosines = np.asarray(image_embeddings[rows], dtype=np.float64) @ texts
        out[rows] = expit(a * (cosines + b))
    return out


def fit_calibration(cosines: Array, labels: Array) -> Calibration:
    """Fit (a, b) by maximum likelihood to (image, attribute) pairs, all pooled.

    `cosines` and `labels` (0 or 1) are (N, A) or (n,): rows are images. a is kept within
    [0.001, 1000]; a fit that stops there is flagged. Raises AssayError where the shapes differ,
    a value is not finite, or one of the two classes is empty.
    """
    x, y = _checked(cosines, labels)
    centre = float(x.mean())
    varies = bool(np.ptp(x) > 0)
    spread = float(x.std()) if varies else 1.0
    z = (x - centre) / spread if varies else np.zeros_like(x)

    def loss(parameters: Array) -> tuple[float, Array]:
        logits = parameters[0] * z + parameters[1]
        excess = expit(logits) - y
        value = float(np.mean(np.logaddexp(0.0, logits) - y * logits))
        return value, np.array([np.mean(excess * z), np.mean(excess)])

    start = np.array([1.0 if varies else SMALLEST, np.log(y.mean() / (1 - y.mean()))])
    bounds: Any = [(SMALLEST * spread, LARGEST * spread), (None, None)]
    options: Any = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    found: Any = minimize(loss, start, (), "L-BFGS-B", jac=True, bounds=bounds, options=options)
    a = float(found.x[0]) / spread
    return Calibration(
        a=a,
        b=float(found.x[1]) / a - centre,
        n_images=len(labels),
        n_pairs=len(y),
        n_positive=int(y.sum()),
        log_loss=float(found.fun),
        flags=_flags(a, x, y),
    )


def _checked(cosines: Array, labels: Array) -> tuple[Array, Array]:
    if cosines.shape != labels.shape:
        raise AssayError(f"calibration: cosines {cosines.shape} and labels {labels.shape} differ in shape")
    x, y = np.asarray(cosines, dtype=np.float64).ravel(), np.asarray(labels, dtype=np.float64).ravel()
    if not np.isfinite(x).all():
        raise AssayError("calibration: a cosine is not finite; check the scorer's weights")
    if not 0 < y.sum() < len(y):
        kind = "positive" if y.sum() == 0 else "negative"
        raise AssayError(
            f"calibration: no {kind} label among {len(y)} pairs; calibrate on a split that has some "
            "(scorer.calibration.split), or give a and b (scorer.calibration.source=fixed)"
        )
    return x, y


def _flags(a: float, x: Array, y: Array) -> tuple[str, ...]:
    if a <= SMALLEST * 1.001:
        return ("no_signal",)
    separable = x[y == 1].min() >= x[y == 0].max()
    return ("separable",) if separable or a >= LARGEST * 0.999 else ()
