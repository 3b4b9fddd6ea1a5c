"""A folder of images: with images.csv and concepts.csv, or with one subfolder a class.

Images lie under `images/` where the root has such a folder, else under the root itself. An image's
id is its path from there; ids that differ only in case are two images, and a CSV file must write
each as the disk does. Top folders that are all named train, val, validation or test are splits.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from pipeline.datasets.inside import inside
from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.listing import LOOKED_FOR, existing_root, link_note, listed
from pipeline.datasets.manifest import Found, Manifest, OnBadImage, take_stock
from pipeline.datasets.nearest import did_you_mean
from pipeline.datasets.rows import Row, Sheet, read_sheet
from pipeline.errors import AssayError

IMAGES, CONCEPTS = "images.csv", "concepts.csv"
FAMILIES = ("subcategory", "category")
SPLIT_FOLDERS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}


def images(folder: Path, *, root: Path, on_bad_image: OnBadImage = "stop") -> Manifest:
    """Return the manifest of the image files on disk, sorted by path; nothing is written.

    Raises AssayError for a missing root, no image, and an unreadable one unless it is skipped.
    """
    root = existing_root(root)
    base = _base(root)
    listing = listed(root / base)
    splits = _own_splits(listing.files)
    notes = (*link_note(listing), *_beside_note(root, base), *_case_note(listing.files))
    nothing = f"dataset.root: no image ({LOOKED_FOR}) below {root / base}"
    return take_stock(_found(root, base, splits), on_bad_image, nothing=nothing, notes=notes)


def labels(images: pd.DataFrame, folder: Path, *, root: Path, min_count: int = 1) -> Labels:
    """Return captions and attributes from images.csv and concepts.csv, else from class subfolders.

    concepts.csv (image, concept) gives the family "concept"; the columns subcategory and category
    of images.csv are families of their own; of one name in several families the first in this
    order is kept. In class subfolders the class is the attribute and the caption. Raises AssayError
    naming file and line for an image that is not on disk or stands twice in images.csv, and if
    there are no labels.
    """
    root = existing_root(root)
    if (root / IMAGES).is_file() or (root / CONCEPTS).is_file():
        return _from_sheets(images, root, min_count)
    return _from_subfolders(images, root, min_count)


def _base(root: Path) -> str:
    return "images" if (root / "images").is_dir() else ""


def _found(root: Path, base: str, splits: dict[str, str]) -> Iterator[Found]:
    for image_id, split in splits.items():
        file = root / base / image_id
        path = file.relative_to(root).as_posix()
        yield Found(image_id, "root", path, place=str(file), read=file.read_bytes, split=split)


def _own_splits(image_ids: Iterable[str]) -> dict[str, str]:
    """Return each image's split, "" for all unless every top folder is named after a split."""
    tops = {image_id: image_id.partition("/")[0].casefold() for image_id in image_ids if "/" in image_id}
    ids = list(image_ids)
    if len(tops) < len(ids) or not set(tops.values()) <= set(SPLIT_FOLDERS):
        return dict.fromkeys(ids, "")
    return {image_id: SPLIT_FOLDERS[top] for image_id, top in tops.items()}


def _beside_note(root: Path, base: str) -> tuple[str, ...]:
    if not base:
        return ()
    beside = [path for path in listed(root).files if not path.startswith(f"{base}/")]
    return (f"images beside {base}/ not read: {len(beside)}; the first: {beside[0]}",) if beside else ()


def _case_note(image_ids: Iterable[str]) -> tuple[str, ...]:
    first: dict[str, str] = {}
    twins = [(first[key], i) for i in image_ids if first.setdefault(key := i.casefold(), i) != i]
    if not twins:
        return ()
    return (f"names that differ only in case: {len(twins)}; the first: {twins[0][0]} and {twins[0][1]}",)


def _from_sheets(images: pd.DataFrame, root: Path, min_count: int) -> Labels:
    places = _Places(images["image_id"].tolist(), root)
    families: list[Family] = []
    captions: list[tuple[str, str]] = []
    notes: list[str] = []
    if (path := root / CONCEPTS).is_file():
        families.append(_concepts(path, places, notes))
    if (path := root / IMAGES).is_file():
        sheet = read_sheet(path, required=("image",))
        named = _once(path, sheet, places)
        captions = [(row.values["image"], row.values.get("caption", "")) for row, _ in named]
        families += [_column(column, named) for column in FAMILIES if column in sheet.columns]
        notes += [*_unread_note(path, sheet), *_unnamed_note(path, len(named), len(images))]
    notes += places.note()
    return assemble(len(images), families, captions_table(captions), min_count, notes)


class _Places:
    """Where the manifest has the images that a sheet names; remembers those it left out."""

    def __init__(self, image_ids: list[str], root: Path) -> None:
        self._index = {image_id: i for i, image_id in enumerate(image_ids)}
        self._base = root / _base(root)
        self._left_out: set[str] = set()

    def of(self, path: Path, row: Row) -> int | None:
        """Return the row's image as a position in the manifest, None if it was left out as unreadable."""
        name = row.values["image"]
        if name in self._index:
            return self._index[name]
        if name and (self._base / inside(name, f"{path}, line {row.line}")).is_file():
            self._left_out.add(name)
            return None
        raise AssayError(
            f"{path}, line {row.line}: there is no image {name!r} in {self._base}"
            f"{did_you_mean(name, self._index)}"
        )

    def note(self) -> tuple[str, ...]:
        """Return a note on labelled images that the manifest left out, if there are any."""
        n = len(self._left_out)
        return (f"labelled images left out as unreadable: {n}",) if n else ()


def _concepts(path: Path, places: _Places, notes: list[str]) -> Family:
    first: dict[tuple[int, str], int] = {}
    doubled: list[int] = []
    for row in read_sheet(path, required=("image", "concept")).rows:
        if not row.values["concept"]:
            raise AssayError(f"{path}, line {row.line}: the concept is blank; name one or remove the line")
        place = places.of(path, row)
        if place is not None and first.setdefault((place, row.values["concept"]), row.line) != row.line:
            doubled.append(row.line)
    if doubled:
        notes.append(
            f"{path.name}: rows that repeat an earlier one: {len(doubled)}; first: line {doubled[0]}"
        )
    return Family("concept", [place for place, _ in first], [concept for _, concept in first])


def _once(path: Path, sheet: Sheet, places: _Places) -> list[tuple[Row, int]]:
    first: dict[str, int] = {}
    named: list[tuple[Row, int]] = []
    for row in sheet.rows:
        name = row.values["image"]
        if first.setdefault(name, row.line) != row.line:
            raise AssayError(
                f"{path}: the image {name!r} stands twice, in lines {first[name]} and {row.line}; remove one"
            )
        place = places.of(path, row)
        if place is not None:
            named.append((row, place))
    return named


def _column(column: str, named: list[tuple[Row, int]]) -> Family:
    held = [(place, row.values[column]) for row, place in named if row.values[column]]
    return Family(column, [place for place, _ in held], [value for _, value in held])


def _unread_note(path: Path, sheet: Sheet) -> list[str]:
    unread = [name for name in sheet.columns if name not in ("image", "caption", *FAMILIES)]
    return [f"{path.name}: columns not used: {', '.join(unread)}"] if unread else []


def _unnamed_note(path: Path, n_named: int, n_images: int) -> list[str]:
    missing = n_images - n_named
    return [f"{path.name} says nothing of {missing} of {n_images} images"] if missing else []


def _from_subfolders(images: pd.DataFrame, root: Path, min_count: int) -> Labels:
    image_ids: list[str] = images["image_id"].tolist()
    splits = _own_splits(image_ids)
    classes = [_class(image_id, split) for image_id, split in splits.items()]
    if "" in classes:
        raise AssayError(
            f"dataset.root: {root} has no labels: looked for {IMAGES} (image, caption, category), "
            f"{CONCEPTS} (image, concept) and one subfolder a class; {image_ids[classes.index('')]!r} lies "
            "in no subfolder"
        )
    captions = captions_table(list(zip(image_ids, classes, strict=True)))
    return assemble(len(images), [Family("class", range(len(images)), classes)], captions, min_count)


def _class(image_id: str, split: str) -> str:
    folders = image_id.split("/")[:-1]
    return next(iter(folders[1:] if split else folders), "")
