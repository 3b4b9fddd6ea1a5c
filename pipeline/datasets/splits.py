"""Which split an image belongs to."""

import hashlib
from collections.abc import Iterable, Mapping

from pipeline.errors import AssayError

SPLITS = ("train", "validation", "test")
ROUNDING = 1e-9


def assign_splits(image_ids: Iterable[str], splits: Mapping[str, float], seed: int) -> list[str]:
    """Return each image's split: "train", "validation", "test", or "" beyond the shares' sum.

    An image's place in [0, 1) is a hash of (seed, image_id), so adding, removing or reordering
    images moves no other. Raises AssayError for an unknown split or shares outside [0, 1].
    """
    edges = _edges(splits)
    return [_at(_place(image_id, seed), edges) for image_id in image_ids]


def _edges(splits: Mapping[str, float]) -> list[tuple[str, float]]:
    if unknown := sorted(set(splits) - set(SPLITS)):
        raise AssayError(f"dataset.splits: unknown split {unknown[0]!r}; the splits are {', '.join(SPLITS)}")
    shares = [float(splits.get(name, 0)) for name in SPLITS]
    total = sum(shares)
    if min(shares) < 0 or not total <= 1 + ROUNDING:
        raise AssayError(f"dataset.splits: {dict(splits)}: shares must be at least 0 and sum to at most 1")
    edges = [sum(shares[: i + 1]) for i in range(len(shares))]
    if total > 1 - ROUNDING:
        edges = [1.0 if edge >= total else edge for edge in edges]
    return list(zip(SPLITS, edges, strict=True))


def _place(image_id: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}\x1fsplit\x1f{image_id}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _at(place: float, edges: list[tuple[str, float]]) -> str:
    return next((name for name, edge in edges if place < edge), "")
