"""The normalised rows that SAEs train on, read and normalised once for all of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes.measures import Spread
from pipeline.saes.normalisation import Normalised, normalise
from pipeline.saes.sae import check_finite

CACHED = 4 << 30
"""Bytes of normalised rows that stay in memory; of a larger array each batch is read when needed."""
BLOCK = 1024


class Inputs:
    """Rows (N, d) of one split, normalised as SAEs of our own see them.

    `centre` (d,) is the mean of the normalised rows, `spread` the sum of squared deviations of the rows
    themselves. Raises AssayError for no row, or one with NaN or infinity.
    """

    def __init__(self, rows: ArrayLike, split: str, device: torch.device, cached: int = CACHED) -> None:
        self.rows = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
        if self.rows.ndim != 2 or not self.rows.size:
            raise AssayError(
                f"SAE training: the {split} activations are {self.rows.shape}; at least one row of (N, d) is "
                f"needed: raise dataset.splits.{split}"
            )
        self.device = device
        self.kept: Tensor | None = None
        spread, total, kept = Spread(self.d), torch.zeros(self.d, dtype=torch.float64), []
        for start in range(0, len(self), BLOCK):
            block = np.array(self.rows[start : start + BLOCK], dtype=np.float32)
            check_finite(block, start)
            spread.add(torch.from_numpy(block).double())
            normalised = normalise(torch.from_numpy(block), "standardise").values
            total += normalised.double().sum(dim=0)
            if self.rows.size * 4 <= cached:
                kept.append(normalised)
        self.kept = torch.cat(kept).to(device) if kept else None
        self.centre = (total / len(self)).float()
        self.spread = spread.total

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.rows.shape[1])

    def batch(self, which: np.ndarray[Any, np.dtype[np.intp]]) -> Tensor:
        """Return normalised rows (S, B, d) for row numbers (S, B)."""
        if self.kept is not None:
            return self.kept[torch.from_numpy(which).to(self.device)]
        rows = np.array(self.rows[which.ravel()], dtype=np.float32)
        values = normalise(torch.from_numpy(rows), "standardise").values
        return values.view(*which.shape, self.d).to(self.device)

    def blocks(self) -> Iterator[Normalised]:
        """Yield all rows in order, normalised, in blocks of at most BLOCK rows."""
        for start in range(0, len(self), BLOCK):
            rows = np.array(self.rows[start : start + BLOCK], dtype=np.float32)
            block = normalise(torch.from_numpy(rows), "standardise")
            yield Normalised(*(part.to(self.device) for part in block))
