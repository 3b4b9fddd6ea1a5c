"""synCUB (Klotz et al. 2026) in its hub layout: birds with one attribute swapped for another.

metadata.csv names the images below the root, and attributes by their place in attributes.txt counted
from 0; attributes.txt itself counts from 1.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.datasets.numbered import numbered_names
from pipeline.datasets.rows import Row, read_sheet
from pipeline.errors import AssayError
from pipeline.pairs.files import existing_folder, image_at, missing, number_in, numbers_in
from pipeline.pairs.pair_set import (
    CONTRADICTION,
    OUT_OF_RANGE,
    TOO_MANY,
    UNCHANGED,
    Candidate,
    OtherSize,
    PairSet,
    Problem,
    assemble,
)

SHEET = "metadata.csv"
COLUMNS = (
    "pair_id",
    "orig_image",
    "syn_image",
    "old_attr",
    "new_attr",
    "old_attr_idx",
    "new_attr_idx",
    "orig_attr_idx",
    "syn_attr_idx",
)


def pairs(folder: Path, *, attributes: Sequence[str], root: Path, other_size: OtherSize = "skip") -> PairSet:
    """Return the pairs whose labels differ in exactly the old and the new attribute.

    All others are skipped by reason. Raises AssayError, naming file and line, for a missing root, file
    or column and a cell that is no number.
    """
    root = existing_folder(root)
    vocabulary = _vocabulary(root)
    sheet = read_sheet(root / SHEET, COLUMNS)
    candidates = _candidates(root, sheet.rows, vocabulary)
    return assemble(candidates, attributes, vocabulary=vocabulary, other_size=other_size)


def _vocabulary(root: Path) -> list[str]:
    names = numbered_names(root / "attributes.txt")
    if sorted(names) != list(range(1, len(names) + 1)):
        raise AssayError(f"{root / 'attributes.txt'}: its {len(names)} attributes are not numbered from 1 on")
    return [names[number] for number in sorted(names)]


def _candidates(root: Path, rows: Sequence[Row], vocabulary: list[str]) -> Iterator[Candidate]:
    sheet = root / SHEET
    for row in rows:
        before, after = (image_at(root, sheet, row, column) for column in ("orig_image", "syn_image"))
        place = f"{SHEET}, line {row.line}"
        problem = _problem(sheet, row, vocabulary, place) or missing(root, place, before, after)
        held = () if problem else tuple(vocabulary[i] for i in numbers_in(sheet, row, "orig_attr_idx"))
        old, new = row.values["old_attr"], row.values["new_attr"]
        family = old.partition("::")[0]
        yield Candidate(row.values["pair_id"], place, before, after, new, old, held, family, problem)


def _problem(sheet: Path, row: Row, vocabulary: list[str], place: str) -> Problem | None:
    old, new = (number_in(sheet, row, column) for column in ("old_attr_idx", "new_attr_idx"))
    had, has = (set(numbers_in(sheet, row, column)) for column in ("orig_attr_idx", "syn_attr_idx"))
    outside = sorted(i for i in {old, new, *had, *has} if not 0 <= i < len(vocabulary))
    if outside:
        return Problem(OUT_OF_RANGE, f"{place}: {outside[0]} is not from 0 to {len(vocabulary) - 1}")
    if not had ^ has:
        return Problem(UNCHANGED, f"{place}: orig_attr_idx and syn_attr_idx are the same")
    if len(had ^ has) > 2:
        return Problem(TOO_MANY, f"{place}: {len(had ^ has)} bits differ, not 2")
    if had - has != {old} or has - had != {new}:
        return Problem(CONTRADICTION, f"{place}: the lists do not lose {old} and gain {new}")
    if (vocabulary[old], vocabulary[new]) != (row.values["old_attr"], row.values["new_attr"]):
        return Problem(CONTRADICTION, f"{place}: {old} and {new} have other names in attributes.txt")
    return None
