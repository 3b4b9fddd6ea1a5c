"""What every scorer can do."""

from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np

from pipeline.errors import AssayError
from pipeline.models.batch_size import BatchSize
from pipeline.models.images import Images

Embeddings = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Numerics(TypedDict, total=False):
    """How exactly numbers are computed, as `pipeline.models.device.inference` takes it."""

    precision: str
    tf32: bool
    threads: int | None


class Scorer(Protocol):
    """A text-image model: the cosine of two embeddings says how well a text fits an image."""

    def embed_images(
        self,
        images: Images,
        *,
        batch_size: BatchSize,
        workers: int,
        device: str,
        progress: bool = False,
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (N, d) float32, each row of length 1."""
        ...

    def embed_texts(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 256,
        device: str = "cpu",
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (T, d) float32, each row of length 1."""
        ...


def unit_rows(values: np.ndarray[Any, Any], what: str) -> Embeddings:
    """Scale the rows of (n, d) to length 1, in float64, stored as float32.

    Raises AssayError for a row that is zero or not finite; `what` says what a row is.
    """
    exact = np.asarray(values, dtype=np.float64)
    lengths = np.sqrt(np.square(exact).sum(axis=1))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise AssayError(
            f"the embedding of {what} {bad[0]} is zero or not finite; check the scorer's weights"
        )
    scaled: Embeddings = (exact / lengths[:, None]).astype(np.float32)
    return scaled
