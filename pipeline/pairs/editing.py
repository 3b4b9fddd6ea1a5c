"""From a folder of edited images to a data set of pairs that pairs=edited reads.

The folder has a metadata.csv with the columns before, after, removed, added (and, if known, pair_id and
present), or one subfolder a change, named `removed=red`, `added=hat` or `removed=red,added=blue`, with
the images in its subfolders before/ and after/, two of one name a pair. Making the edits is not ours.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.datasets.listing import listed
from pipeline.datasets.rows import Row, read_sheet
from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.formulas import neutral_table
from pipeline.pairs.edited import SHEET, candidate, listed_names
from pipeline.pairs.files import existing_folder
from pipeline.pairs.pair_set import Candidate, OtherSize, PairSet, assemble

METADATA = "metadata.csv"
CHANGES = ("before", "after", "removed", "added")
CHANGE = re.compile(r"(?:removed=(?P<removed>.+?))?(?:(?:^|,)added=(?P<added>.+))?")
LEFT_OUT = "left_out.csv"


@dataclass(frozen=True)
class Edits:
    """What a folder holds: pairs, whether it says what the before images have, and what was passed over."""

    candidates: list[Candidate]
    tells_present: bool
    notes: tuple[str, ...]


def make_pairs(
    folder: Path, root: Path, *, attributes: Sequence[str] = (), other_size: OtherSize = "skip"
) -> PairSet:
    """Write `root`/pairs.csv, the images it names, and left_out.csv; return what was written.

    Images keep their bytes and are named by them, one file however many pairs share it. attributes:
    those that may be named, all where it is empty. Raises AssayError for a `root` that holds
    something, a folder without pairs, and where no pair can be used.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise AssayError(f"--out {root} exists and is not empty; give a new folder")
    edits = read_edits(existing_folder(folder))
    named = {name for pair in edits.candidates for name in (pair.added, pair.removed, *pair.present) if name}
    known = list(attributes) or sorted(named)
    found = assemble(edits.candidates, known, other_size=other_size, notes=edits.notes)
    with replacing(root) as temporary:
        files = _write_images(found, folder, temporary)
        _write_pairs(found, files, known if edits.tells_present else [], temporary / SHEET)
        if len(found.skipped):
            neutral_table(found.skipped).to_csv(temporary / LEFT_OUT, index=False, lineterminator="\n")
    return found


def read_edits(folder: Path) -> Edits:
    """Return the pairs of a folder in either layout; AssayError where it has neither."""
    if (folder / METADATA).is_file():
        return _from_metadata(folder)
    changes = [(each, change) for each in sorted(folder.iterdir()) if (change := _change(each))]
    if not changes:
        raise AssayError(
            f"{folder} has no {METADATA} ({', '.join(CHANGES)}) and no subfolder named after a change, "
            "such as removed=red,added=blue"
        )
    others = [each.name for each in sorted(folder.iterdir()) if each.is_dir() and not _change(each)]
    notes = []
    if others:
        notes.append(f"subfolders whose name is no change, not read: {len(others)}; the first: {others[0]}")
    candidates: list[Candidate] = []
    for each, change in changes:
        found, alone = _from_subfolder(folder, each, change)
        candidates += found
        if alone:
            notes.append(f"{each.name}: images in only one of before/ and after/: {len(alone)}: {alone[0]}")
    return Edits(candidates, False, tuple(notes))


def _from_metadata(folder: Path) -> Edits:
    path = folder / METADATA
    sheet = read_sheet(path, CHANGES)
    numbered = "pair_id" in sheet.columns
    rows = [
        row if numbered else Row(row.line, {**row.values, "pair_id": f"{i:06d}"})
        for i, row in enumerate(sheet.rows)
    ]
    unused = [name for name in sheet.columns if name not in (*CHANGES, "pair_id", "present", "accepted")]
    notes = (f"{METADATA}: columns not used: {', '.join(unused)}",) if unused else ()
    return Edits([candidate(folder, path, row) for row in rows], "present" in sheet.columns, notes)


def _change(path: Path) -> dict[str, str] | None:
    """Return the attributes that a subfolder's name says are removed and added, None if it names none."""
    match = CHANGE.fullmatch(path.name) if path.is_dir() else None
    named = {} if match is None else {key: (value or "").strip() for key, value in match.groupdict().items()}
    return named if any(named.values()) else None


def _from_subfolder(folder: Path, path: Path, change: dict[str, str]) -> tuple[list[Candidate], list[str]]:
    sides = [
        {str(Path(name).with_suffix("")): name for name in listed(path / side).files}
        for side in ("before", "after")
    ]
    shared = [stem for stem in sides[0] if stem in sides[1]]
    found = []
    for stem in shared:
        before, after = (
            f"{path.name}/{side}/{names[stem]}"
            for side, names in zip(("before", "after"), sides, strict=True)
        )
        values = {"pair_id": f"{path.name}/{stem}", "before": before, "after": after, **change}
        found.append(candidate(folder, path, Row(0, values), f"{path.name}, {stem}"))
    return found, sorted(sides[0].keys() ^ sides[1].keys())


def _write_images(found: PairSet, folder: Path, root: Path) -> list[str]:
    """Copy each image once; return by row of the manifest where it lies below `root`."""
    (root / "images").mkdir(parents=True)
    files = []
    for path, checksum in zip(found.manifest.table["path"], found.manifest.table["checksum"], strict=True):
        name = f"images/{checksum[:16]}{Path(path).suffix.lower()}"
        (root / name).write_bytes((folder / path).read_bytes())
        files.append(name)
    return files


def _write_pairs(found: PairSet, files: Sequence[str], told: Sequence[str], path: Path) -> None:
    """Write pairs.csv, with `present` where `told` names the columns of the present attributes."""
    header = ["pair_id", "before", "after", "removed", "added", *(["present"] if told else [])]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        for cells, present in zip(_cells(found, files), found.present, strict=True):
            held = "; ".join(told[i] for i in np.flatnonzero(present).tolist()) if told else ""
            writer.writerow([*cells, held] if told else cells)


def _cells(found: PairSet, files: Sequence[str]) -> Iterator[list[str]]:
    columns = found.table[["pair_id", "before", "after", "removed_name", "added_name"]]
    for pair_id, before, after, removed, added in columns.itertuples(index=False, name=None):
        yield [pair_id, files[before], files[after], removed, added]


def read_attributes(path: Path) -> list[str]:
    """Return attribute names from a text file, one a line; AssayError if it names none."""
    names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not names or any(len(listed_names(name)) != 1 for name in names):
        raise AssayError(f"{path}: give attribute names, one a line, without ';'")
    return names
