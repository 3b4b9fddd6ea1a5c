"""Rendered pairs that differ in exactly one factor and share all else: place, noise, light."""

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.datasets import shapes
from pipeline.datasets.manifest import Found
from pipeline.files import replacing
from pipeline.pairs.pair_set import Candidate, PairSet, assemble
from pipeline.seeds import generator

ARCHIVE = "images.zip"
EPOCH = (1980, 1, 1, 0, 0, 0)
VOCABULARY = tuple(value for _, value in shapes.ATTRIBUTES)


def pairs(folder: Path, *, attributes: Sequence[str], n_pairs: int, size: int, seed: int) -> PairSet:
    """Render `n_pairs` pairs of `size` x `size` pixels into `folder`/images.zip.

    Each pair swaps one value of a factor for another, the factors taking turns. The scenes and noise come
    from streams of their own, so no image is one of dataset=shapes, whatever its seed: a combination of
    factors may well come up in both, its noise never. Equal arguments give equal bytes. Raises
    AssayError where the dataset has none of the swapped attributes.
    """
    rendered = shapes.pairs(n_pairs, size=size, seed=_own_seed(seed))
    with replacing(folder / ARCHIVE) as temporary:
        _write(temporary, rendered)
    with zipfile.ZipFile(folder / ARCHIVE) as archive:
        return assemble(_candidates(archive, rendered), attributes, vocabulary=VOCABULARY)


def _own_seed(seed: int) -> int:
    return int(generator(seed, "pairs", "shapes").integers(2**62))


def _candidates(archive: zipfile.ZipFile, rendered: shapes.Pairs) -> Iterator[Candidate]:
    changes = rendered.table[["factor", "old", "new"]].itertuples(index=False, name=None)
    for i, (factor, old, new) in enumerate(changes):
        pair_id = f"{i:06d}"
        held = np.flatnonzero(rendered.before_attributes[i]).tolist()
        yield Candidate(
            pair_id=pair_id,
            place=f"pair {pair_id}",
            before=_found(archive, f"{pair_id}_before"),
            after=_found(archive, f"{pair_id}_after"),
            added=new,
            removed=old,
            present=tuple(VOCABULARY[column] for column in held),
            family=factor,
        )


def _found(archive: zipfile.ZipFile, name: str) -> Found:
    member = f"{name}.png"
    return Found(name, "result", ARCHIVE, f"{ARCHIVE}, {member}", lambda: archive.read(member), member)


def _write(path: Path, rendered: shapes.Pairs) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for i, both in enumerate(zip(rendered.before, rendered.after, strict=True)):
            for name, pixels in zip(("before", "after"), both, strict=True):
                entry = zipfile.ZipInfo(f"{i:06d}_{name}.png", EPOCH)
                entry.create_system, entry.external_attr = 3, 0o644 << 16
                archive.writestr(entry, _png(pixels))


def _png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
