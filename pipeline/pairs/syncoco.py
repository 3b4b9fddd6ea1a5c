"""synCOCO (Klotz et al. 2026) in its hub layout: photographs with one category removed.

metadata.csv names the images below the root, and categories by their place, from 0, among COCO's 80 in
the order of their ids.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.datasets.coco_categories import CATEGORIES
from pipeline.datasets.rows import Row, read_sheet
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
    "removed_cls_idx",
    "removed_class",
    "orig_labels",
    "syn_labels",
)
VOCABULARY = tuple(name for names in CATEGORIES.values() for name in names)
FAMILY = {name: family for family, names in CATEGORIES.items() for name in names}


def pairs(folder: Path, *, attributes: Sequence[str], root: Path, other_size: OtherSize = "skip") -> PairSet:
    """Return the pairs whose labels differ in exactly the removed category; nothing is added.

    All others are skipped by reason. Raises AssayError, naming file and line, for a missing root, file
    or column and a cell that is no number.
    """
    root = existing_folder(root)
    sheet = read_sheet(root / SHEET, COLUMNS)
    candidates = _candidates(root, sheet.rows)
    return assemble(candidates, attributes, vocabulary=VOCABULARY, other_size=other_size)


def _candidates(root: Path, rows: Sequence[Row]) -> Iterator[Candidate]:
    sheet = root / SHEET
    for row in rows:
        before, after = (image_at(root, sheet, row, column) for column in ("orig_image", "syn_image"))
        place = f"{SHEET}, line {row.line}"
        problem = _problem(sheet, row, place) or missing(root, place, before, after)
        held = () if problem else tuple(VOCABULARY[i] for i in numbers_in(sheet, row, "orig_labels"))
        removed = row.values["removed_class"]
        family = FAMILY.get(removed, "")
        yield Candidate(row.values["pair_id"], place, before, after, "", removed, held, family, problem)


def _problem(sheet: Path, row: Row, place: str) -> Problem | None:
    removed = number_in(sheet, row, "removed_cls_idx")
    had, has = (set(numbers_in(sheet, row, column)) for column in ("orig_labels", "syn_labels"))
    outside = sorted(i for i in {removed, *had, *has} if not 0 <= i < len(VOCABULARY))
    if outside:
        return Problem(OUT_OF_RANGE, f"{place}: {outside[0]} is not from 0 to {len(VOCABULARY) - 1}")
    if not had ^ has:
        return Problem(UNCHANGED, f"{place}: orig_labels and syn_labels are the same")
    if len(had ^ has) > 1:
        return Problem(TOO_MANY, f"{place}: {len(had ^ has)} labels differ, not 1")
    if had - has != {removed}:
        return Problem(CONTRADICTION, f"{place}: the lists do not lose {removed}")
    if VOCABULARY[removed] != row.values["removed_class"]:
        told = f"{removed} is {VOCABULARY[removed]!r}, not {row.values['removed_class']!r}"
        return Problem(CONTRADICTION, f"{place}: {told}")
    return None
