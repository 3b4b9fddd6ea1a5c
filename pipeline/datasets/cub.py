"""CUB-200-2011 (Wah et al. 2011) as its archive unpacks: birds with 312 attributes.

The root is the folder CUB_200_2011 or the one that holds it. attributes.txt lies beside
image_attribute_labels.txt, in CUB_200_2011, or, as in the official archive, beside CUB_200_2011.
An image's id is its path in images.txt.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.datasets.inside import inside
from pipeline.datasets.labels import Family, Labels, assemble, captions_table
from pipeline.datasets.listing import existing_root, listed
from pipeline.datasets.manifest import Found, Manifest, OnBadImage, take_stock
from pipeline.datasets.numbered import numbered_names, numbered_values
from pipeline.datasets.stratified import held_out
from pipeline.errors import AssayError

FOLDER = "CUB_200_2011"
ANSWERS = "attributes/image_attribute_labels.txt"
CERTAINTIES = (1, 2, 3, 4)
"""Not visible, guessing, probably, definitely."""


def images(
    folder: Path,
    *,
    root: Path,
    validation_share: float = 0.15,
    validation_seed: int = 42,
    on_bad_image: OnBadImage = "stop",
) -> Manifest:
    """Return the manifest in the order of images.txt, with the official split.

    Of the official training images `validation_share` are validation, by class in proportion, drawn by
    a hash of (validation_seed, id): the share and the strata of the literature, not its draw. Raises
    AssayError for a missing root or list, a line that is no pair, an image without class or split, and an
    unreadable image unless it is skipped.
    """
    base = _base(existing_root(root))
    names = numbered_names(base / "images.txt")
    splits = _splits(base, names, validation_share, validation_seed)
    return take_stock(
        _found(base, existing_root(root), splits),
        on_bad_image,
        nothing=f"dataset.root: {base / 'images.txt'} names no image",
        notes=_unlisted_note(base, names),
    )


def labels(
    images: pd.DataFrame, folder: Path, *, root: Path, min_count: int = 1, min_certainty: int = 1
) -> Labels:
    """Return the attributes in official order (family: the part before "::"), the class as caption.

    Lines of image_attribute_labels.txt with other than 5 fields are dropped, of several lines on one
    image and attribute the last counts, an attribute on which nothing is said is 0, and so is one
    whose certainty is below `min_certainty` (1 not visible, 2 guessing, 3 probably, 4 definitely); each
    is counted in a note. Raises AssayError, naming file and line, for a value that cannot be.
    """
    if min_certainty not in CERTAINTIES:
        raise AssayError(f"dataset.labels.min_certainty={min_certainty}: certainties are 1, 2, 3 and 4")
    base = _base(existing_root(root))
    vocabulary, notes = _vocabulary(base)
    answers = _Answers(numbered_names(base / "images.txt"), vocabulary, min_certainty)
    answers.read(base / ANSWERS)
    held = answers.of(images["image_id"].tolist())
    families = _families(list(vocabulary.values()), held)
    captions = captions_table(_captions(base, images["image_id"].tolist()))
    return assemble(len(images), families, captions, min_count, (*notes, *answers.notes()))


def _base(root: Path) -> Path:
    base = next((path for path in (root, root / FOLDER) if (path / "images.txt").is_file()), None)
    if base is None:
        raise AssayError(
            f"dataset.root: no images.txt in {root} or {root / FOLDER}; unpack CUB_200_2011.tgz there"
        )
    return base


def _classes(base: Path, names: dict[int, str]) -> dict[str, str]:
    """Return each image's class, such as 001.Black_footed_Albatross, by image id."""
    classes = numbered_names(base / "classes.txt")
    return numbered_values(base / "image_class_labels.txt", names, classes)


def _splits(base: Path, names: dict[int, str], share: float, seed: int) -> dict[str, str]:
    classes = _classes(base, names)
    splits = numbered_values(base / "train_test_split.txt", names, {0: "test", 1: "train"})
    train = [image_id for image_id, split in splits.items() if split == "train"]
    validation = held_out(train, [classes[image_id] for image_id in train], share, seed)
    return {
        image_id: "validation" if image_id in validation else splits[image_id] for image_id in names.values()
    }


def _found(base: Path, root: Path, splits: dict[str, str]) -> Iterator[Found]:
    for image_id, split in splits.items():
        file = base / "images" / inside(image_id, str(base / "images.txt"))
        path = file.relative_to(root).as_posix()
        yield Found(image_id, "root", path, str(file), file.read_bytes, split=split)


def _unlisted_note(base: Path, names: dict[int, str]) -> tuple[str, ...]:
    unlisted = sorted(set(listed(base / "images").files) - set(names.values()))
    if not unlisted:
        return ()
    return (f"images that images.txt does not name, not read: {len(unlisted)}; the first: {unlisted[0]}",)


def _vocabulary(base: Path) -> tuple[dict[int, str], tuple[str, ...]]:
    places = [base / "attributes" / "attributes.txt", base / "attributes.txt", base.parent / "attributes.txt"]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise AssayError(f"dataset.root: no attributes.txt; looked for {', '.join(map(str, places))}")
    return numbered_names(path), (f"attributes from {path.name} in {path.parent.name}/",)


def _families(names: list[str], held: list[tuple[int, str]]) -> list[Family]:
    """Return a family for each "has_...", attributes in official order."""
    orders: dict[str, list[str]] = {}
    for name in names:
        orders.setdefault(name.partition("::")[0], []).append(name)
    told: dict[str, list[tuple[int, str]]] = {family: [] for family in orders}
    for row, name in held:
        told[name.partition("::")[0]].append((row, name))
    return [
        Family(family, [row for row, _ in told[family]], [name for _, name in told[family]], tuple(order))
        for family, order in orders.items()
    ]


def _captions(base: Path, image_ids: list[str]) -> list[tuple[str, str]]:
    classes = _classes(base, numbered_names(base / "images.txt"))
    words = {image_id: name.partition(".")[2].replace("_", " ") for image_id, name in classes.items()}
    return [(image_id, words[image_id]) for image_id in image_ids]


@dataclass
class _Answers:
    """What image_attribute_labels.txt says of each image and attribute, and what was odd in it.

    names and vocabulary: image ids and attribute names by their numbers in the files.
    """

    names: dict[int, str]
    vocabulary: dict[int, str]
    min_certainty: int
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._row = {number: i for i, number in enumerate(self.names)}
        self._column = {number: i for i, number in enumerate(self.vocabulary)}
        self._present = bytearray(len(self.names) * len(self.vocabulary))
        self._said = bytearray(len(self._present))

    def read(self, path: Path) -> None:
        """Take every line; AssayError naming the first whose values cannot be."""
        if not path.is_file():
            raise AssayError(f"dataset.root: no file {path}")
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.split()
                if len(fields) == 5:
                    self._take(fields, path, number)
                elif fields:
                    self._count("lines with other than 5 fields, dropped", number)

    def _take(self, fields: list[bytes], path: Path, number: int) -> None:
        try:
            cell = self._row[int(fields[0])] * len(self._column) + self._column[int(fields[1])]
            present, certainty = int(fields[2]), int(fields[3])
        except (ValueError, KeyError):
            present, certainty, cell = -1, 0, 0
        if present not in (0, 1) or certainty not in CERTAINTIES:
            raise AssayError(
                f"{path}, line {number}: {b' '.join(fields).decode(errors='replace')!r} is not an image and "
                "an attribute of images.txt and attributes.txt, 0 or 1, and a certainty from 1 to 4"
            )
        if self._said[cell]:
            self._count(
                "lines on an image and attribute that an earlier line has, which they replace", number
            )
        if present and certainty < self.min_certainty:
            self._count(f"attributes with a certainty below {self.min_certainty}, counted as absent", number)
            present = 0
        self._said[cell], self._present[cell] = 1, present

    def _count(self, what: str, number: int) -> None:
        self.counts[what] += 1
        self.first.setdefault(what, number)

    def of(self, image_ids: list[str]) -> list[tuple[int, str]]:
        """Return (position in image_ids, attribute) of every attribute that holds."""
        names = np.array(list(self.vocabulary.values()), dtype=object)
        present = np.frombuffer(self._present, dtype=np.uint8).reshape(len(self.names), len(names))
        row = {image_id: i for i, image_id in enumerate(self.names.values())}
        rows, columns = np.nonzero(present[[row[image_id] for image_id in image_ids]])
        return list(zip(rows.tolist(), names[columns].tolist(), strict=True))

    def notes(self) -> tuple[str, ...]:
        """Return a note on each kind of odd line, and one on what no line says."""
        said = [f"{ANSWERS}: {what}: {n}; first: line {self.first[what]}" for what, n in self.counts.items()]
        silent = len(self._said) - sum(self._said)
        if silent:
            said.append(f"{ANSWERS}: image and attribute of which no line tells, counted as absent: {silent}")
        return tuple(said)
