"""Any Parquet files with an image column; label columns are named in the config.

A cell of the image column is bytes, a struct with bytes or a path, base64 text, or a path from the
root or from the Parquet file's folder. An id comes from the id column, or is `<file>:<row>`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.listing import existing_root
from pipeline.datasets.manifest import Found, Manifest, OnBadImage, take_stock
from pipeline.datasets.parquet_rows import (
    Cell,
    check_column,
    encoded_in,
    member_of,
    opened,
    parquet_files,
    path_in,
    values,
)
from pipeline.errors import AssayError


@dataclass(frozen=True)
class Kind:
    """How a label column tells its attributes; classes: the names that whole numbers stand for."""

    form: Literal["flag", "class", "word", "words"]
    classes: tuple[str, ...] = ()


def images(
    folder: Path,
    *,
    root: Path,
    image_column: str = "image",
    id_column: str | None = None,
    on_bad_image: OnBadImage = "stop",
) -> Manifest:
    """Return the manifest of every row of every Parquet file below `root`, in order of file and row.

    Raises AssayError for a missing root, file or column, no row, an id that is missing or stands
    twice, and an unreadable image unless it is skipped.
    """
    root = existing_root(root)
    files = parquet_files(root)
    for name in files:
        _check(root / name, {"dataset.image_column": image_column, "dataset.id_column": id_column})
    nothing = f"dataset.root: the {len(files)} *.parquet files below {root} have no row"
    return take_stock(_found(root, files, image_column, id_column), on_bad_image, nothing=nothing)


def labels(
    images: pd.DataFrame,
    folder: Path,
    *,
    root: Path,
    columns: tuple[str, ...],
    id_column: str | None = None,
    caption_column: str | None = None,
    min_count: int = 1,
) -> Labels:
    """Return attributes from label columns, and captions from the caption column.

    A column of booleans or of 0 and 1 is one attribute of its own name (family "column"); whole
    numbers with class names in the file's metadata, words, and lists of words give one attribute a
    value (family = column). Empty cells are no label. Raises AssayError for a missing column and
    one of another kind.
    """
    root = existing_root(root)
    files = parquet_files(root)
    kinds = _kinds(root, files, columns)
    index = {image_id: i for i, image_id in enumerate(images["image_id"])}
    held: dict[str, list[tuple[int, str]]] = {column: [] for column in kinds}
    captions: list[tuple[str, str]] = []
    for image_id, caption, told in _told(root, files, kinds, id_column, caption_column):
        if image_id in index:
            captions.append((image_id, caption))
            for column, names in told.items():
                held[column] += [(index[image_id], name) for name in names]
    return assemble(len(images), _families(kinds, held), captions_table(captions), min_count)


def _check(path: Path, wanted: dict[str, str | None]) -> None:
    schema = opened(path).schema_arrow
    for key, column in wanted.items():
        if column is not None:
            check_column(path, schema, column, key)


def _found(root: Path, files: tuple[str, ...], column: str, id_column: str | None) -> Iterator[Found]:
    for name in files:
        for row, cells in enumerate(values(root / name, [column, id_column] if id_column else [column])):
            image_id = _id(root, name, row, cells[-1], id_column)
            yield _image(root, name, row, column, image_id, cells[0])


def _id(root: Path, name: str, row: int, own: object, id_column: str | None) -> str:
    if id_column is None:
        return f"{name}:{row}"
    if own is None or str(own) == "":
        raise AssayError(f"dataset.id_column={id_column!r}: {root / name}, row {row} has no id")
    return str(own)


def _image(root: Path, name: str, row: int, column: str, image_id: str, cell: Cell) -> Found:
    place = f"{root / name}, row {row}"
    file = path_in(cell, [root, (root / name).parent])
    if file is None:
        member = member_of(row, column)
        return Found(image_id, "root", name, place, lambda: encoded_in(cell), member)
    if not file.resolve().is_relative_to(root.resolve()):
        raise AssayError(f"{place}: the image {file} lies outside dataset.root={root}")
    return Found(image_id, "root", file.relative_to(root).as_posix(), f"{place} ({file})", file.read_bytes)


def _kinds(root: Path, files: tuple[str, ...], columns: tuple[str, ...]) -> dict[str, Kind]:
    if not columns:
        raise AssayError("dataset.labels.columns is empty; name the columns that hold labels")
    kinds: dict[str, Kind] = {}
    for name in files:
        schema = opened(root / name).schema_arrow
        for column in columns:
            check_column(root / name, schema, column, "dataset.labels.columns")
            kind = _kind(root / name, schema, column)
            if kinds.setdefault(column, kind) != kind:
                raise AssayError(
                    f"{root / name}: column {column!r} is of another kind or has other class names than in "
                    f"{root / files[0]}"
                )
    return kinds


def _kind(path: Path, schema: pa.Schema, column: str) -> Kind:
    held = schema.field(column).type
    if classes := _class_names(schema, column):
        return Kind("class", classes)
    if pa.types.is_boolean(held) or pa.types.is_integer(held):
        return Kind("flag")
    if _is_text(held):
        return Kind("word")
    if (pa.types.is_list(held) or pa.types.is_large_list(held)) and _is_text(held.value_type):
        return Kind("words")
    raise AssayError(
        f"dataset.labels.columns: {path}: column {column!r} holds {held}; a label column holds booleans, "
        "0 and 1, words or lists of words"
    )


def _is_text(held: pa.DataType) -> bool:
    text = held.value_type if pa.types.is_dictionary(held) else held
    return bool(pa.types.is_string(text) or pa.types.is_large_string(text))


def _class_names(schema: pa.Schema, column: str) -> tuple[str, ...]:
    """Return the class names that the `datasets` library writes into a file's metadata, if there are any."""
    try:
        told: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    except ValueError:
        return ()
    for key in ("info", "features", column, "names"):
        told = told.get(key) if isinstance(told, dict) else None
    return tuple(map(str, told)) if isinstance(told, list) else ()


def _told(
    root: Path,
    files: tuple[str, ...],
    kinds: dict[str, Kind],
    id_column: str | None,
    caption_column: str | None,
) -> Iterator[tuple[str, str, dict[str, list[str]]]]:
    """Yield each row's id, its caption ("" if there is none), and its attributes by column."""
    own = {"dataset.labels.caption_column": caption_column, "dataset.id_column": id_column}
    read = [*kinds, *(column for column in own.values() if column)]
    for name in files:
        _check(root / name, own)
        for row, cells in enumerate(values(root / name, read)):
            cell = dict(zip(read, cells, strict=True))
            place = f"{root / name}, row {row}"
            told = {column: _names(kind, column, cell[column], place) for column, kind in kinds.items()}
            caption = cell[caption_column] if caption_column else None
            image_id = _id(root, name, row, cell[id_column] if id_column else None, id_column)
            yield image_id, "" if caption is None else str(caption), told


def _names(kind: Kind, column: str, value: Any, place: str) -> list[str]:
    if value is None:
        return []
    if kind.form == "words":
        return [word.strip() for word in value if word and word.strip()]
    if kind.form == "word":
        return [value.strip()] if value.strip() else []
    if kind.form == "flag" and value in (0, 1):
        return [column] if value else []
    if kind.form == "class" and -1 <= value < len(kind.classes):
        return [kind.classes[value]] if value >= 0 else []
    expected = "0 nor 1" if kind.form == "flag" else f"-1 nor below {len(kind.classes)}"
    raise AssayError(
        f"{place}: column {column!r} has {value!r}, which is neither {expected}; write classes as words"
    )


def _families(kinds: dict[str, Kind], held: dict[str, list[tuple[int, str]]]) -> list[Family]:
    flags = [column for column, kind in kinds.items() if kind.form == "flag"]
    joined = [pair for column in flags for pair in held[column]]
    families = [_family("column", joined, tuple(flags))] if flags else []
    families += [
        _family(column, held[column], kind.classes or None)
        for column, kind in kinds.items()
        if kind.form != "flag"
    ]
    return families


def _family(name: str, held: list[tuple[int, str]], order: tuple[str, ...] | None) -> Family:
    return Family(name, [row for row, _ in held], [attribute for _, attribute in held], order)
