"""ImageNet's validation images in the layouts that people have.

One folder a synset; flat files with the devkit's ground truth, a val.txt, Kaggle's
LOC_val_solution.csv or a list of synsets; or Parquet shards with an image and a label column.
Class i is the i-th synset in sorted order, as everywhere but in the devkit, whose own numbers
are translated with its meta.mat. Class names are timm's.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pipeline.datasets.ground_truth import Classes, Truth, ground_truth, synset_in
from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.listing import LOOKED_FOR, existing_root, link_note, listed
from pipeline.datasets.manifest import Found, Manifest, OnBadImage, take_stock
from pipeline.datasets.parquet_rows import Cell, encoded_in, member_of, opened, row_of, values
from pipeline.errors import AssayError

VALIDATION_FOLDERS = ("val", "validation")
LABEL_COLUMNS = ("label", "labels", "cls")


def images(folder: Path, *, root: Path, on_bad_image: OnBadImage = "stop") -> Manifest:
    """Return the manifest; an id is the file's stem, or `<file>:<row>` for a nameless row.

    Image files below val/ or validation/, where there is one, else below the root; where there is
    no image file, Parquet shards (those with "val" in their name, if any has). Raises AssayError
    for a missing root, no image, two images of one stem, and an unreadable one unless skipped.
    """
    root = existing_root(root)
    base = next((name for name in VALIDATION_FOLDERS if (root / name).is_dir()), "")
    listing = listed(root / base)
    shards = () if listing.files else _shards(root)
    found = _in_shards(root, shards) if shards else _files(root, base, listing.files)
    nothing = f"dataset.root: no image ({LOOKED_FOR}) below {root / base} and no *.parquet file below {root}"
    return take_stock(found, on_bad_image, nothing=nothing, notes=link_note(listing))


def labels(images: pd.DataFrame, folder: Path, *, root: Path, min_count: int = 1) -> Labels:
    """Return the class of every image as attribute (family "class") and caption.

    Raises AssayError where an image's class cannot be known, and says what was looked for.
    """
    classes = Classes.known()
    indices, notes = _indices(images, existing_root(root), classes)
    names = [classes.names[i] for i in indices]
    captions = captions_table(list(zip(images["image_id"], names, strict=True)))
    family = Family("class", range(len(images)), names, classes.names)
    return assemble(len(images), [family], captions, min_count, notes)


def synsets(images: pd.DataFrame, *, root: Path) -> list[str]:
    """Return each image's synset, such as n01440764; AssayError where an image's class cannot be known."""
    classes = Classes.known()
    return [classes.synsets[i] for i in _indices(images, existing_root(root), classes)[0]]


def _indices(images: pd.DataFrame, root: Path, classes: Classes) -> tuple[list[int], tuple[str, ...]]:
    return (_from_shards if images["member"].ne("").all() else _from_files)(images, root, classes)


def _files(root: Path, base: str, files: tuple[str, ...]) -> Iterator[Found]:
    for name in files:
        file = root / base / name
        yield Found(file.stem, "root", file.relative_to(root).as_posix(), str(file), file.read_bytes)


def _shards(root: Path) -> tuple[str, ...]:
    shards = listed(root, (".parquet",)).files
    return tuple(name for name in shards if "val" in Path(name).name.casefold()) or shards


def _image_column(path: Path) -> str:
    schema = opened(path).schema_arrow
    fits = [field.name for field in schema if _holds_bytes(field.type)]
    if not fits:
        raise AssayError(
            f"{path}: no column holds images (bytes, or a struct with bytes): {', '.join(schema.names)}"
        )
    return "image" if "image" in fits else fits[0]


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _in_shards(root: Path, shards: tuple[str, ...]) -> Iterator[Found]:
    for name in shards:
        column = _image_column(root / name)
        for row, (cell,) in enumerate(values(root / name, [column])):
            yield _found(root, name, row, column, cell)


def _found(root: Path, name: str, row: int, column: str, cell: Cell) -> Found:
    own = cell.get("path") if isinstance(cell, dict) else None
    return Found(
        image_id=Path(own).stem if own else f"{name}:{row}",
        source="root",
        path=name,
        member=member_of(row, column),
        place=f"{root / name}, row {row}",
        read=lambda: encoded_in(cell),
    )


def _from_shards(images: pd.DataFrame, root: Path, classes: Classes) -> tuple[list[int], tuple[str, ...]]:
    told: dict[tuple[str, int], int] = {}
    for name in images["path"].unique():
        column = _label_column(root / name)
        for row, (value,) in enumerate(values(root / name, [column])):
            told[name, row] = classes.index_of(value, f"{root / name}, row {row}, column {column!r}")
    rows = zip(images["path"], images["member"], strict=True)
    return [told[name, row_of(member)] for name, member in rows], ()


def _label_column(path: Path) -> str:
    names = opened(path).schema_arrow.names
    column = next((name for name in LABEL_COLUMNS if name in names), None)
    if column is None:
        raise AssayError(
            f"{path}: no label column ({', '.join(LABEL_COLUMNS)}); the columns are {', '.join(names)}"
        )
    return column


def _from_files(images: pd.DataFrame, root: Path, classes: Classes) -> tuple[list[int], tuple[str, ...]]:
    synsets = [synset_in(path) for path in images["path"]]
    truth = None if all(synsets) else ground_truth(root, classes)
    indices = [
        _class(image_id, synset, root / path, truth, classes)
        for image_id, synset, path in zip(images["image_id"], synsets, images["path"], strict=True)
    ]
    counts = Counter(synset is not None for synset in synsets)
    notes = [f"classes from the names of folders or files: {counts[True]}"] if counts[True] else []
    notes += [f"classes from {truth.path}: {counts[False]}"] if truth else []
    return indices, tuple(notes)


def _class(image_id: str, synset: str | None, path: Path, truth: Truth | None, classes: Classes) -> int:
    if synset is not None or truth is None:
        return classes.index_of(synset, str(path))
    return truth.index_of(image_id)
