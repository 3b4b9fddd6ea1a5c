"""Rendered shapes: every factor is known, and pairs differ in exactly one."""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pipeline.datasets.drawing import render
from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.manifest import Found, Manifest, take_stock
from pipeline.datasets.scene import FACTORS, Scene, captions, nuisance_of, scene_of
from pipeline.files import replacing
from pipeline.seeds import generator

ARCHIVE = "images.zip"
EPOCH = (1980, 1, 1, 0, 0, 0)
ATTRIBUTES = tuple((factor, value) for factor, values in FACTORS.items() for value in values)


@dataclass(frozen=True)
class Pairs:
    """P pairs of images that differ in one factor alone.

    table: pair_id, factor, old, new; before, after: (P, size, size, 3) uint8;
    before_attributes, after_attributes: (P, A) uint8, columns as ATTRIBUTES.
    """

    table: pd.DataFrame
    before: np.ndarray
    after: np.ndarray
    before_attributes: np.ndarray
    after_attributes: np.ndarray


def images(folder: Path, *, n_images: int, size: int, seed: int) -> Manifest:
    """Render `n_images` of `size` x `size` pixels into `folder`/images.zip; return their manifest.

    Image i depends on (seed, size, i) alone, so more images never change earlier ones, and equal
    arguments give equal bytes.
    """
    with replacing(folder / ARCHIVE) as temporary:
        _write(temporary, n_images, size, seed)
    nothing = f"dataset.n_images={n_images}: there is no image to render"
    with zipfile.ZipFile(folder / ARCHIVE) as archive:
        return take_stock(_found(archive), "stop", nothing=nothing)


def labels(images: pd.DataFrame, folder: Path, *, seed: int, min_count: int = 1) -> Labels:
    """Return the factors of every image as attributes (family = factor), and two captions an image."""
    scenes = [scene_of(seed, int(image_id)) for image_id in images["image_id"]]
    told = [
        (image_id, caption)
        for image_id, scene in zip(images["image_id"], scenes, strict=True)
        for caption in captions(seed, int(image_id), scene)
    ]
    families = [
        Family(factor, range(len(scenes)), [scene.values()[factor] for scene in scenes], order)
        for factor, order in FACTORS.items()
    ]
    return assemble(len(scenes), families, captions_table(told), min_count)


def pairs(n_pairs: int, *, size: int, seed: int) -> Pairs:
    """Render pairs that differ in exactly one factor and share all else: place, noise, light.

    The factor takes turns, so that each changes equally often; the new value is drawn uniformly
    from the factor's other values. Pair i depends on (seed, size, i) alone.
    """
    changes = [_change(seed, i) for i in range(n_pairs)]
    rows = [
        (i, factor, before.values()[factor], after.values()[factor])
        for i, (factor, before, after) in enumerate(changes)
    ]
    before, after = [change[1] for change in changes], [change[2] for change in changes]
    return Pairs(
        table=pd.DataFrame(rows, columns=["pair_id", "factor", "old", "new"]),
        before=_rendered(before, size, seed),
        after=_rendered(after, size, seed),
        before_attributes=_attributes(before),
        after_attributes=_attributes(after),
    )


def _write(path: Path, n_images: int, size: int, seed: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for i in range(n_images):
            entry = zipfile.ZipInfo(f"{i:06d}.png", EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, _png(render(scene_of(seed, i), nuisance_of(seed, i, size), size)))


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _found(archive: zipfile.ZipFile) -> Iterator[Found]:
    for name in archive.namelist():
        yield Found(
            image_id=name.removesuffix(".png"),
            source="result",
            path=ARCHIVE,
            member=name,
            place=f"{ARCHIVE}, {name}",
            read=lambda name=name: archive.read(name),  # type: ignore[misc]
        )


def _change(seed: int, i: int) -> tuple[str, Scene, Scene]:
    rng = generator(seed, "shapes", "pair", i)
    before = Scene.drawn(rng)
    factor = list(FACTORS)[i % len(FACTORS)]
    others = [value for value in FACTORS[factor] if value != before.values()[factor]]
    return factor, before, before.changed(factor, others[rng.integers(len(others))])


def _rendered(scenes: list[Scene], size: int, seed: int) -> np.ndarray:
    pixels = np.empty((len(scenes), size, size, 3), dtype=np.uint8)
    for i, scene in enumerate(scenes):
        nuisance = nuisance_of(seed, i, size)
        pixels[i] = np.asarray(render(scene, nuisance, size))
    return pixels


def _attributes(scenes: list[Scene]) -> np.ndarray:
    held = [[scene.values()[factor] == value for factor, value in ATTRIBUTES] for scene in scenes]
    return np.array(held, dtype=np.uint8).reshape(len(scenes), len(ATTRIBUTES))
