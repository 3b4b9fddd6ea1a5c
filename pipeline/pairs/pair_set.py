"""Pairs of images, and the one place that decides which pairs can be used."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.datasets.manifest import Found, Manifest, take_stock
from pipeline.datasets.nearest import did_you_mean
from pipeline.errors import AssayError

OtherSize = Literal["skip", "keep"]
COLUMNS = ("pair_id", "before", "after", "added", "removed", "added_name", "removed_name", "family")

TWICE = "pair_id stands twice"
MISSING = "missing image"
UNREADABLE = "unreadable image"
SIZES = "images differ in size"
SAME = "the two images are the same"
OUT_OF_RANGE = "attribute id out of range"
UNCHANGED = "no attribute changed"
TOO_MANY = "too many attributes changed"
CONTRADICTION = "its labels contradict each other"
UNKNOWN = "unknown attribute"
LEFT_OUT = "attribute that the dataset left out"
REJECTED = "not accepted"
UNJUDGED = "not judged yet"


@dataclass(frozen=True)
class PairSet:
    """P pairs of images, before and after one attribute was added, removed, or swapped for another.

    manifest: the distinct images of all pairs. table: one row a pair, columns as COLUMNS; before and
    after are rows of the manifest, added and removed are positions in the dataset's attributes, -1 (and
    the name "") where there is none. present: (P, A) uint8, what the before image has, as far as the
    source tells. skipped: pair_id, reason (one of this module's), detail.
    """

    manifest: Manifest
    table: pd.DataFrame
    present: np.ndarray
    skipped: pd.DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Why a pair cannot be used: a reason that is counted, and what is told of this pair."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Candidate:
    """A pair as its source tells of it; names of attributes are "" where there is none.

    place: what messages call it, such as a file and line. problem: what the source found wrong itself.
    """

    pair_id: str
    place: str
    before: Found
    after: Found
    added: str = ""
    removed: str = ""
    present: tuple[str, ...] = ()
    family: str = ""
    problem: Problem | None = None


@dataclass(frozen=True)
class _Usable:
    candidate: Candidate
    before: int
    after: int


def assemble(
    candidates: Iterable[Candidate],
    attributes: Sequence[str],
    *,
    vocabulary: Sequence[str] = (),
    other_size: OtherSize = "skip",
    notes: Sequence[str] = (),
) -> PairSet:
    """Return the pairs that can be used, and every other one with its reason.

    attributes: the dataset's, in the order of its columns. vocabulary: all attributes that the source
    knows, so that one the dataset left out as rare is told from one that nobody knows. A pair whose
    images differ in size is skipped, or with `other_size="keep"` kept and counted. Raises AssayError
    where no pair is left, with the count of every reason.
    """
    skipped: list[tuple[str, Problem]] = []
    sound = list(_sound(candidates, attributes, vocabulary, skipped))
    manifest = _stock(sound, skipped)
    usable = list(_usable(sound, manifest, other_size, skipped))
    if not usable:
        raise AssayError(
            f"pairs: none of {len(skipped)} pairs can be used: {'; '.join(_skip_notes(skipped))}"
        )
    manifest, usable = _used_images(manifest, usable)
    column = {name: i for i, name in enumerate(attributes)}
    return PairSet(
        manifest=manifest,
        table=_table(usable, column),
        present=_present(usable, column),
        skipped=_skipped_table(skipped),
        notes=(*notes, *_size_note(usable, manifest), *_skip_notes(skipped)),
    )


def _sound(
    candidates: Iterable[Candidate],
    attributes: Sequence[str],
    vocabulary: Sequence[str],
    skipped: list[tuple[str, Problem]],
) -> Iterator[Candidate]:
    """Yield the pairs whose labels can be used; the others go to `skipped`."""
    places: dict[str, str] = {}
    kept, known = set(attributes), {*attributes, *vocabulary}
    for pair in candidates:
        if not pair.pair_id:
            raise AssayError(f"pairs: {pair.place}: its pair_id is blank; give each pair one of its own")
        problem = pair.problem or _label_problem(pair, kept, known)
        if (first := places.setdefault(pair.pair_id, pair.place)) != pair.place:
            problem = Problem(TWICE, f"{first} and {pair.place}")
        if problem:
            skipped.append((pair.pair_id, problem))
        else:
            yield pair


def _label_problem(pair: Candidate, kept: set[str], known: set[str]) -> Problem | None:
    changed = [name for name in (pair.removed, pair.added) if name]
    if not changed:
        return Problem(UNCHANGED, f"{pair.place}: neither an added nor a removed attribute")
    for name in changed:
        if name not in known:
            return Problem(UNKNOWN, f"{pair.place}: {name!r}{did_you_mean(name, sorted(known))}")
        if name not in kept:
            return Problem(LEFT_OUT, f"{pair.place}: {name!r}")
    return _contradiction(pair)


def _contradiction(pair: Candidate) -> Problem | None:
    if pair.added == pair.removed:
        return Problem(CONTRADICTION, f"{pair.place}: {pair.added!r} is both added and removed")
    if pair.present and pair.removed and pair.removed not in pair.present:
        return Problem(CONTRADICTION, f"{pair.place}: removed {pair.removed!r}, which was not present")
    if pair.added in pair.present:
        return Problem(CONTRADICTION, f"{pair.place}: added {pair.added!r}, which was present before")
    return None


def _stock(sound: list[Candidate], skipped: list[tuple[str, Problem]]) -> Manifest:
    found = {image.image_id: image for pair in sound for image in (pair.before, pair.after)}
    nothing = f"pairs: none of {len(skipped)} pairs can be used: {'; '.join(_skip_notes(skipped))}"
    return take_stock(found.values(), "skip", nothing=nothing)


def _usable(
    sound: list[Candidate], manifest: Manifest, other_size: OtherSize, skipped: list[tuple[str, Problem]]
) -> Iterator[_Usable]:
    """Yield the pairs whose two images can be used; the others go to `skipped`."""
    row = {image_id: i for i, image_id in enumerate(manifest.table["image_id"])}
    broken = dict(zip(manifest.skipped["image_id"], manifest.skipped["reason"], strict=True))
    sizes = list(zip(manifest.table["width"], manifest.table["height"], strict=True))
    checksums = manifest.table["checksum"].tolist()
    for pair in sound:
        unread = [image.image_id for image in (pair.before, pair.after) if image.image_id in broken]
        if unread:
            skipped.append((pair.pair_id, Problem(UNREADABLE, broken[unread[0]])))
            continue
        before, after = row[pair.before.image_id], row[pair.after.image_id]
        if checksums[before] == checksums[after]:
            skipped.append((pair.pair_id, Problem(SAME, f"{pair.place}: {pair.after.place}")))
        elif other_size == "skip" and sizes[before] != sizes[after]:
            told = f"{_told(sizes[before])} and {_told(sizes[after])} pixels"
            skipped.append((pair.pair_id, Problem(SIZES, f"{pair.place}: {told}")))
        else:
            yield _Usable(pair, before, after)


def _told(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _used_images(manifest: Manifest, usable: list[_Usable]) -> tuple[Manifest, list[_Usable]]:
    """Return the manifest without images of skipped pairs, and the pairs with its rows."""
    used = sorted({row for pair in usable for row in (pair.before, pair.after)})
    new = {row: i for i, row in enumerate(used)}
    table = manifest.table.iloc[used].reset_index(drop=True)
    moved = [_Usable(pair.candidate, new[pair.before], new[pair.after]) for pair in usable]
    return Manifest(table, (), manifest.skipped), moved


def _table(usable: list[_Usable], column: dict[str, int]) -> pd.DataFrame:
    rows = [
        (
            pair.candidate.pair_id,
            pair.before,
            pair.after,
            column.get(pair.candidate.added, -1),
            column.get(pair.candidate.removed, -1),
            pair.candidate.added,
            pair.candidate.removed,
            pair.candidate.family,
        )
        for pair in usable
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _present(usable: list[_Usable], column: dict[str, int]) -> np.ndarray:
    present = np.zeros((len(usable), len(column)), dtype=np.uint8)
    for i, pair in enumerate(usable):
        for name in (*pair.candidate.present, pair.candidate.removed):
            if name in column:
                present[i, column[name]] = 1
    return present


def _skipped_table(skipped: list[tuple[str, Problem]]) -> pd.DataFrame:
    rows = [(pair_id, problem.reason, problem.detail) for pair_id, problem in skipped]
    return pd.DataFrame(rows, columns=["pair_id", "reason", "detail"], dtype=str)


def _skip_notes(skipped: list[tuple[str, Problem]]) -> tuple[str, ...]:
    counts = Counter(problem.reason for _, problem in skipped)
    first: dict[str, tuple[str, Problem]] = {}
    for pair_id, problem in skipped:
        first.setdefault(problem.reason, (pair_id, problem))
    return tuple(
        f"pairs left out, {reason}: {n}; the first: {first[reason][0]} ({first[reason][1].detail})"
        for reason, n in counts.items()
    )


def _size_note(usable: list[_Usable], manifest: Manifest) -> tuple[str, ...]:
    sizes = list(zip(manifest.table["width"], manifest.table["height"], strict=True))
    n = sum(sizes[pair.before] != sizes[pair.after] for pair in usable)
    return (f"pairs kept though their images differ in size: {n}",) if n else ()
