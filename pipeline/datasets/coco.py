"""COCO 2017 (Lin et al. 2014) as its archives unpack: train2017/, val2017/ and annotations/.

The image folders may also lie in images/. An image's id is its folder and file, such as
val2017/000000000139.jpg. One of the two parts may be absent.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.datasets.coco_annotations import Category, Part, captions_of, part_of
from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.listing import existing_root
from pipeline.datasets.manifest import Found, Manifest, OnBadImage, take_stock
from pipeline.datasets.stratified import held_out
from pipeline.errors import AssayError

PARTS = ("train2017", "val2017")


def images(
    folder: Path,
    *,
    root: Path,
    validation_seed: int = 42,
    on_bad_image: OnBadImage = "stop",
) -> Manifest:
    """Return the manifest of the images that have an annotation, by part and number.

    train2017 is the training split; half of val2017, by a hash of (validation_seed, id), is validation
    and the other half test. Images without any annotation are left out and counted. Raises AssayError for
    a missing root, part or file, and an unreadable image unless it is skipped.
    """
    root = existing_root(root)
    parts = _parts(root, masks=False)
    return take_stock(
        _found(root, parts, validation_seed),
        on_bad_image,
        nothing=f"dataset.root: no image in {root} has an annotation",
        notes=(*_absent_note(parts), *_bare_note(parts)),
    )


def labels(
    images: pd.DataFrame,
    folder: Path,
    *,
    root: Path,
    min_count: int = 1,
    masks: Literal["ignored", "non_empty"] = "ignored",
) -> Labels:
    """Return the categories in the order of their ids (family: the supercategory), and captions.

    An image has a category where an annotation of it, crowds included, has a box of positive width and
    height; with `masks="non_empty"` its mask must have a pixel as well, as in the reference of the
    metrics. What is not counted is told in a note. Captions come from captions_*.json where there are any.
    Raises AssayError where the parts name their categories differently, and naming the annotation file
    for one that is not of this format.
    """
    root = existing_root(root)
    parts = _parts(root, masks=masks == "non_empty")
    categories = _categories(parts)
    held = _held(images["image_id"].tolist(), parts)
    names = set(images["image_id"])
    captions = captions_table(
        [pair for part in parts for pair in captions_of(root, part) if pair[0] in names]
    )
    families = _families(categories, held)
    return assemble(len(images), families, captions, min_count, _flat_note(parts, masks))


def _parts(root: Path, masks: bool) -> list[Part]:
    parts = [part_of(root, name, masks) for name in PARTS if _annotations(root, name).is_file()]
    if not parts:
        raise AssayError(
            f"dataset.root: neither {_annotations(root, PARTS[0])} nor {_annotations(root, PARTS[1])} is "
            "there; unpack annotations_trainval2017.zip, train2017.zip and val2017.zip into the root"
        )
    return parts


def _annotations(root: Path, name: str) -> Path:
    return root / "annotations" / f"instances_{name}.json"


def _found(root: Path, parts: list[Part], seed: int) -> Iterator[Found]:
    for part in parts:
        splits = _splits(part, seed)
        for image_id, split in splits.items():
            path = f"{part.folder}/{image_id.partition('/')[2]}"
            yield Found(image_id, "root", path, str(root / path), (root / path).read_bytes, split=split)


def _splits(part: Part, seed: int) -> dict[str, str]:
    image_ids = [image_id for image_id, n in zip(part.image_ids, part.n_annotations, strict=True) if n]
    if part.name == PARTS[0]:
        return dict.fromkeys(image_ids, "train")
    validation = held_out(image_ids, [""] * len(image_ids), 0.5, seed)
    return {image_id: "validation" if image_id in validation else "test" for image_id in image_ids}


def _absent_note(parts: list[Part]) -> tuple[str, ...]:
    absent = [name for name in PARTS if name not in [part.name for part in parts]]
    return (f"no annotations/instances_{absent[0]}.json: {absent[0]} is not read",) if absent else ()


def _bare_note(parts: list[Part]) -> tuple[str, ...]:
    return tuple(
        f"{part.name}: images without annotations left out: {bare} of {len(part.image_ids)}"
        for part in parts
        if (bare := int((part.n_annotations == 0).sum()))
    )


def _flat_note(parts: list[Part], masks: str) -> tuple[str, ...]:
    what = "without positive width and height"
    what += " or with an empty mask" if masks == "non_empty" else ""
    return tuple(
        f"{part.name}: labels whose annotations are all {what}, not counted: {part.n_flat}"
        for part in parts
        if part.n_flat
    )


def _categories(parts: list[Part]) -> list[Category]:
    if any(part.categories != parts[0].categories for part in parts):
        raise AssayError(
            f"instances_{PARTS[0]}.json and instances_{PARTS[1]}.json name their categories differently; "
            "take both from one archive"
        )
    return parts[0].categories


def _held(image_ids: list[str], parts: list[Part]) -> list[tuple[int, int]]:
    """Return (position in image_ids, position in categories) of every label."""
    row = {image_id: i for i, image_id in enumerate(image_ids)}
    told: list[tuple[int, int]] = []
    for part in parts:
        rows = np.array([row.get(image_id, -1) for image_id in part.image_ids], dtype=np.int64)[part.rows]
        known = rows >= 0
        told += zip(rows[known].tolist(), part.columns[known].tolist(), strict=True)
    return told


def _families(categories: list[Category], held: list[tuple[int, int]]) -> list[Family]:
    """Return a family for each supercategory, in the order of the first id of each."""
    told: dict[str, list[tuple[int, str]]] = {category.family: [] for category in categories}
    for row, column in held:
        told[categories[column].family].append((row, categories[column].name))
    return [
        Family(
            family,
            [row for row, _ in pairs],
            [name for _, name in pairs],
            tuple(category.name for category in categories if category.family == family),
        )
        for family, pairs in told.items()
    ]
