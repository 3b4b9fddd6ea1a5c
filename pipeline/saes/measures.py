"""How well an SAE reconstructs, and how sparse its codes are; sums in float64 over blocks of rows."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from torch import Tensor

from pipeline.saes.sae import Sae

BLOCK = 1024


@dataclass(frozen=True)
class Measures:
    """What `measure` finds on N rows; NaN where it is not defined.

    explained_variance: 1 - (sum of squared residuals) / (sum of squared deviations from the features'
    means), in the input's own space: 0 for who predicts the mean, 1 for a perfect reconstruction, NaN
    where the rows do not vary. mse: mean squared residual over rows and features. cosine: the mean over
    rows of the cosine of input and reconstruction (1 where both are 0, 0 where one is). l0: the mean
    number of latents that fire. dead_share: the share of latents that fire on no row.
    """

    n_rows: int
    explained_variance: float
    mse: float
    cosine: float
    l0: float
    dead_share: float

    def facts(self) -> dict[str, Any]:
        """Return the measures with None in place of NaN."""
        return {name: None if np.isnan(value) else value for name, value in asdict(self).items()}


class Spread:
    """The sum of squared deviations from the features' means, over blocks (Chan et al. 1983)."""

    def __init__(self, d: int) -> None:
        self.n = 0
        self.mean = torch.zeros(d, dtype=torch.float64)
        self.total = 0.0

    def add(self, rows: Tensor) -> None:
        """Take in rows (n, d) float64."""
        if not len(rows):
            return
        n = self.n + len(rows)
        mean = rows.mean(dim=0)
        step = mean - self.mean
        self.total += (
            float((rows - mean).square().sum()) + float(step.square().sum()) * self.n * len(rows) / n
        )
        self.mean = self.mean + step * (len(rows) / n)
        self.n = n


class _Fit:
    """Residuals, deviations and cosines of inputs and reconstructions, block by block."""

    def __init__(self, d: int) -> None:
        self.spread, self.residual, self.cosine, self.d = Spread(d), 0.0, 0.0, d

    def add(self, inputs: Tensor, reconstruction: Tensor) -> None:
        self.spread.add(inputs)
        self.residual += float((inputs - reconstruction).square().sum())
        lengths = inputs.norm(dim=1), reconstruction.norm(dim=1)
        product, both_zero = lengths[0] * lengths[1], (lengths[0] == 0) & (lengths[1] == 0)
        cosine = torch.where(product > 0, (inputs * reconstruction).sum(dim=1) / product, both_zero.double())
        self.cosine += float(cosine.sum())

    @property
    def explained_variance(self) -> float:
        return 1 - self.residual / self.spread.total if self.spread.total > 0 else np.nan


def _fit(inputs: ArrayLike, reconstruction: ArrayLike, block: int) -> _Fit:
    pair = np.asarray(inputs), np.asarray(reconstruction)
    fit = _Fit(pair[0].shape[1])
    for start in range(0, len(pair[0]), block):
        fit.add(*(torch.from_numpy(rows[start : start + block].astype(np.float64)) for rows in pair))
    return fit


def explained_variance(inputs: ArrayLike, reconstruction: ArrayLike, block: int = BLOCK) -> float:
    """Return the explained variance of (N, d) by (N, d); see `Measures`. `block` changes no result."""
    return _fit(inputs, reconstruction, block).explained_variance


def mse(inputs: ArrayLike, reconstruction: ArrayLike, block: int = BLOCK) -> float:
    """Return the mean squared residual of (N, d) over rows and features, NaN for no row."""
    fit = _fit(inputs, reconstruction, block)
    return fit.residual / (fit.spread.n * fit.d) if fit.spread.n else np.nan


def cosine(inputs: ArrayLike, reconstruction: ArrayLike, block: int = BLOCK) -> float:
    """Return the mean cosine of the rows of (N, d) and (N, d), NaN for no row; see `Measures`."""
    fit = _fit(inputs, reconstruction, block)
    return fit.cosine / fit.spread.n if fit.spread.n else np.nan


def l0(codes: "ArrayLike | csr_array") -> float:
    """Return the mean number of codes above 0 in a row of (N, D), NaN for no row."""
    n_rows = np.shape(codes)[0]
    return float(_fired(codes).sum()) / n_rows if n_rows else np.nan


def dead_share(codes: "ArrayLike | csr_array") -> float:
    """Return the share of the D latents of (N, D) that are above 0 in no row (1 for no row)."""
    return float((_fired(codes) == 0).mean())


def _fired(codes: Any) -> NDArray[np.int64]:
    """Return how often each latent is above 0, (D,); stored zeros and negatives do not count."""
    if isinstance(codes, csr_array):
        return np.bincount(codes.indices[codes.data > 0], minlength=codes.shape[1]).astype(np.int64)
    fired: NDArray[np.int64] = (np.asarray(codes) > 0).sum(axis=0)
    return fired


def measure(sae: Sae, rows: ArrayLike) -> Measures:
    """Return how an SAE reconstructs rows (N, d), which may be memory-mapped, and how sparse it is.

    Raises AssayError as `Sae.encode`.
    """
    array = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    fit, fired, n = _Fit(sae.d), torch.zeros(sae.dictionary_size, dtype=torch.int64), 0
    for codes, inputs in sae.blocks(array):
        block = torch.from_numpy(np.array(array[n : n + len(codes)], dtype=np.float64))
        fit.add(block, inputs.restore(sae.decode(codes)).cpu().double())
        fired += (codes > 0).sum(dim=0).cpu()
        n += len(codes)
    return Measures(
        n_rows=n,
        explained_variance=fit.explained_variance,
        mse=fit.residual / (n * sae.d) if n else np.nan,
        cosine=fit.cosine / n if n else np.nan,
        l0=float(fired.sum()) / n if n else np.nan,
        dead_share=float((fired == 0).double().mean()),
    )
