"""Attributes and captions of a dataset's images."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.errors import AssayError

SHOWN = 5


@dataclass(frozen=True)
class Labels:
    """What is known of N images.

    attributes: (N, A) uint8, 1 where the attribute holds; table: name, family, count (positive
    images), one row an attribute; captions: image_id, caption, any number of rows an image.
    """

    attributes: np.ndarray
    table: pd.DataFrame
    captions: pd.DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Attributes of one kind: image `rows[i]` has the attribute `names[i]`.

    order: the attributes' order in the table, those without a positive image included;
    by name where it is None.
    """

    name: str
    rows: Sequence[int]
    names: Sequence[str]
    order: tuple[str, ...] | None = None


def captions_table(pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Return (image_id, caption) pairs as the captions table, blank captions left out."""
    kept = [(image_id, caption) for image_id, caption in pairs if caption.strip()]
    return pd.DataFrame(kept, columns=["image_id", "caption"], dtype=str)


def assemble(
    n_images: int,
    families: Sequence[Family],
    captions: pd.DataFrame,
    min_count: int,
    notes: Sequence[str] = (),
) -> Labels:
    """Return the labels of `n_images` images from families of attributes.

    A name stands once in the table: of two families with names that read alike (case, hyphens,
    underscores and spaces apart) the earlier family's is kept and a note tells of the other.
    Attributes with fewer than `min_count` positive images are left out, with a note; AssayError
    if none remains.
    """
    pairs = {family.name: set(zip(family.rows, family.names, strict=True)) for family in families}
    counts = {name: Counter(attribute for _, attribute in held) for name, held in pairs.items()}
    columns, shadowed = _distinct(families, counts)
    kept = [(family, name) for family, name in columns if counts[family][name] >= min_count]
    if not kept:
        raise AssayError(_none_left(columns, counts, min_count))
    return Labels(
        attributes=_matrix(n_images, kept, pairs),
        table=_table(kept, counts),
        captions=captions,
        notes=(*notes, *_shadow_note(shadowed), *_rare_note(len(columns) - len(kept), min_count)),
    )


def _distinct(
    families: Sequence[Family], counts: dict[str, Counter[str]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    owner: dict[str, str] = {}
    columns: list[tuple[str, str]] = []
    shadowed: list[tuple[str, str]] = []
    for family in families:
        for name in family.order or sorted(counts[family.name], key=lambda n: (n.casefold(), n)):
            mine = owner.setdefault(_reading(name), family.name) == family.name
            (columns if mine else shadowed).append((family.name, name))
    return columns, shadowed


def _reading(name: str) -> str:
    return " ".join(name.casefold().replace("-", " ").replace("_", " ").split())


def _matrix(n_images: int, kept: list[tuple[str, str]], pairs: dict[str, set[tuple[int, str]]]) -> np.ndarray:
    column = {key: i for i, key in enumerate(kept)}
    attributes = np.zeros((n_images, len(kept)), dtype=np.uint8)
    for family, held in pairs.items():
        for row, name in held:
            if (family, name) in column:
                attributes[row, column[family, name]] = 1
    return attributes


def _table(kept: list[tuple[str, str]], counts: dict[str, Counter[str]]) -> pd.DataFrame:
    rows = [(name, family, counts[family][name]) for family, name in kept]
    return pd.DataFrame(rows, columns=["name", "family", "count"])


def _none_left(columns: list[tuple[str, str]], counts: dict[str, Counter[str]], min_count: int) -> str:
    if not columns:
        return "the dataset's labels name no attribute at all"
    family, name = max(columns, key=lambda column: counts[column[0]][column[1]])
    return (
        f"dataset.labels.min_count={min_count}: no attribute has that many positive images; the most "
        f"frequent of {len(columns)} is {name!r} with {counts[family][name]}"
    )


def _shadow_note(shadowed: list[tuple[str, str]]) -> tuple[str, ...]:
    if not shadowed:
        return ()
    shown = ", ".join(f"{name!r} ({family})" for family, name in shadowed[:SHOWN])
    more = ", ..." if len(shadowed) > SHOWN else ""
    return (f"attributes left out for another family's of the same name: {len(shadowed)}: {shown}{more}",)


def _rare_note(n_rare: int, min_count: int) -> tuple[str, ...]:
    return (f"attributes left out, on fewer than {min_count} images: {n_rare}",) if n_rare else ()
