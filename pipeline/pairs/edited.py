"""Pairs of your own: images and their edits, as `assay pairs make` writes them.

pairs.csv has a row a pair: pair_id, before and after (paths below the root), removed and added
(attributes of the dataset, blank for none), and, if known, present: all attributes of the before image,
as "red; striped". With a column `accepted` only its rows with `yes` are used.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.datasets.rows import Row, read_sheet
from pipeline.errors import AssayError
from pipeline.pairs.files import existing_folder, image_at, missing
from pipeline.pairs.pair_set import (
    REJECTED,
    TOO_MANY,
    UNJUDGED,
    Candidate,
    OtherSize,
    PairSet,
    Problem,
    assemble,
)

SHEET = "pairs.csv"
COLUMNS = ("pair_id", "before", "after", "removed", "added")
ACCEPTED = {"yes": True, "no": False, "": None}


def pairs(folder: Path, *, attributes: Sequence[str], root: Path, other_size: OtherSize = "skip") -> PairSet:
    """Return the accepted pairs that add, remove or swap one attribute.

    All others are skipped by reason. Raises AssayError, naming file and line, for a missing root, file
    or column, a path out of the root, and an `accepted` that is neither yes, no nor blank.
    """
    root = existing_folder(root)
    sheet = read_sheet(root / SHEET, COLUMNS)
    untold = () if "present" in sheet.columns else (f"{SHEET} has no column 'present': dstay is not defined",)
    candidates = [candidate(root, root / SHEET, row) for row in sheet.rows]
    return assemble(candidates, attributes, other_size=other_size, notes=untold)


def candidate(root: Path, sheet: Path, row: Row, place: str = "") -> Candidate:
    """Return the pair of a row, with what is wrong with it; its attributes may be unknown ones.

    place: what messages call it, the file and line by default. Raises AssayError for a path out of the
    root, and for an `accepted` that is neither yes, no nor blank.
    """
    before, after = (image_at(root, sheet, row, column) for column in ("before", "after"))
    place = place or f"{sheet.name}, line {row.line}"
    problem = _verdict(sheet, row, place) or _problem(row, place) or missing(root, place, before, after)
    added, removed = row.values["added"], row.values["removed"]
    held = tuple(listed_names(row.values.get("present", "")))
    return Candidate(row.values["pair_id"], place, before, after, added, removed, held, "", problem)


def listed_names(text: str) -> list[str]:
    """Return the names of a text such as "red; striped"."""
    return [name.strip() for name in text.split(";") if name.strip()]


def _verdict(sheet: Path, row: Row, place: str) -> Problem | None:
    said = row.values.get("accepted", "yes").casefold()
    if said not in ACCEPTED:
        raise AssayError(f"{sheet}, line {row.line}: accepted is {said!r}; write yes, no, or leave it blank")
    if ACCEPTED[said] is None:
        return Problem(UNJUDGED, place)
    return None if ACCEPTED[said] else Problem(REJECTED, place)


def _problem(row: Row, place: str) -> Problem | None:
    for column in ("removed", "added"):
        names = listed_names(row.values[column])
        if len(names) > 1:
            return Problem(TOO_MANY, f"{place}: {column} names {len(names)} attributes, not one")
    return None
