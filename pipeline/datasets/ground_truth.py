"""ImageNet's classes, and the files that say which validation image has which."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from pipeline.datasets.listing import listed
from pipeline.datasets.nearest import did_you_mean
from pipeline.datasets.rows import read_sheet
from pipeline.errors import AssayError

SYNSET = re.compile(r"n\d{8}")
ENDING_IN_SYNSET = re.compile(r"_(n\d{8})$")
NUMBER = re.compile(r"(\d{8})(?:_n\d{8})?$")
KAGGLE = "LOC_val_solution.csv"
DEVKIT = "ILSVRC2012_validation_ground_truth.txt"
SYNSET_LIST = "imagenet_2012_validation_synset_labels.txt"
META = "meta.mat"
PAIRED = ("val.txt", "val_map.txt", "validation.txt")
LOOKED_FOR = (KAGGLE, *PAIRED, DEVKIT, SYNSET_LIST)


@dataclass(frozen=True)
class Classes:
    """The 1,000 classes: synsets in sorted order, and one name each."""

    synsets: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def known(cls) -> Self:
        """Return the classes with timm's names, made unique."""
        from timm.data.imagenet_info import ImageNetInfo

        info = ImageNetInfo("imagenet-1k")
        synsets: tuple[str, ...] = tuple(info.label_names())  # type: ignore[no-untyped-call]
        lemmas = [info.index_to_description(i).split(", ") for i in range(len(synsets))]
        definitions = [
            info.index_to_description(i, detailed=True).partition(": ")[2] for i in range(len(synsets))
        ]
        return cls(synsets, unique_names(lemmas, definitions))

    def index_of(self, value: object, place: str) -> int:
        """Return the class that a label means: a synset, or an index from 0; AssayError if none."""
        if isinstance(value, str) and value in self.synsets:
            return self.synsets.index(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.synsets):
            return value
        raise AssayError(
            f"{place}: {value!r} is no ImageNet class: neither a synset of the {len(self.synsets)} nor an "
            f"index from 0 to {len(self.synsets) - 1} into the sorted synsets"
        )


@dataclass(frozen=True)
class Truth:
    """What a ground truth file says: the class index of each image, by file stem."""

    path: Path
    index: Callable[[str], int | None]
    known: tuple[str, ...]

    def index_of(self, stem: str) -> int:
        """Return the class index of an image; AssayError if the file does not have it."""
        index = self.index(stem)
        if index is None:
            raise AssayError(
                f"{self.path} says nothing of the image {stem!r}{did_you_mean(stem, self.known)}"
            )
        return index


def unique_names(lemmas: list[list[str]], definitions: list[str]) -> tuple[str, ...]:
    """Return each class's first lemma that no other class begins with, else lemma and definition.

    So the two cranes are told apart by their definitions, and the second maillot is a "tank suit".
    """
    firsts = Counter(words[0] for words in lemmas)
    return tuple(
        words[0] if firsts[words[0]] == 1 else _told_apart(words, definition, firsts)
        for words, definition in zip(lemmas, definitions, strict=True)
    )


def _told_apart(words: list[str], definition: str, firsts: Counter[str]) -> str:
    return next((word for word in words[1:] if word not in firsts), f"{words[0]}: {definition}")


def synset_in(path: str) -> str | None:
    """Return the synset that a path names: its folder, or the end of its stem."""
    pure = PurePosixPath(path)
    if SYNSET.fullmatch(pure.parent.name):
        return pure.parent.name
    ending = ENDING_IN_SYNSET.search(pure.stem)
    return ending[1] if ending else None


def ground_truth(root: Path, classes: Classes) -> Truth:
    """Read the first ground truth file of LOOKED_FOR below `root`; AssayError if there is none."""
    files = {Path(name).name: root / name for name in reversed(listed(root, (".txt", ".csv")).files)}
    name = next((name for name in LOOKED_FOR if name in files), None)
    if name is None:
        raise AssayError(
            f"dataset.root: the images in {root} lie in no synset folders (n01440764/...), and there is no "
            f"ground truth file; looked for {', '.join(LOOKED_FOR)}"
        )
    path = files[name]
    if name == KAGGLE:
        return _kaggle(path, classes)
    if name in PAIRED:
        return _paired(path, classes)
    return _devkit(path, root, classes) if name == DEVKIT else _synset_list(path, classes)


def _lines(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8-sig")
    return [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if line.strip()]


def _by_stem(path: Path, index: dict[str, int]) -> Truth:
    return Truth(path, index.get, tuple(index))


def _by_number(path: Path, indices: list[int]) -> Truth:
    def index(stem: str) -> int | None:
        number = NUMBER.search(stem)
        at = int(number[1]) if number else 0
        return indices[at - 1] if 1 <= at <= len(indices) else None

    return Truth(path, index, (f"ILSVRC2012_val_{len(indices):08d}",))


def _kaggle(path: Path, classes: Classes) -> Truth:
    rows = read_sheet(path, required=("ImageId", "PredictionString")).rows
    return _by_stem(
        path,
        {
            row.values["ImageId"]: classes.index_of(
                row.values["PredictionString"].partition(" ")[0], f"{path}, line {row.line}"
            )
            for row in rows
        },
    )


def _paired(path: Path, classes: Classes) -> Truth:
    index = {}
    for number, line in _lines(path):
        words = line.replace(",", " ").split()
        if len(words) != 2:
            raise AssayError(f"{path}, line {number}: {line!r} is not `<file> <class>`")
        label = int(words[1]) if words[1].isdecimal() else words[1]
        index[PurePosixPath(words[0]).stem] = classes.index_of(label, f"{path}, line {number}")
    return _by_stem(path, index)


def _synset_list(path: Path, classes: Classes) -> Truth:
    return _by_number(
        path, [classes.index_of(line, f"{path}, line {number}") for number, line in _lines(path)]
    )


def _devkit(path: Path, root: Path, classes: Classes) -> Truth:
    synsets = _devkit_synsets(path, root)
    indices = []
    for number, line in _lines(path):
        if not line.isdecimal() or int(line) not in synsets:
            raise AssayError(f"{path}, line {number}: {line!r} is no ILSVRC2012_ID of {META}")
        indices.append(classes.index_of(synsets[int(line)], f"{path}, line {number}"))
    return _by_number(path, indices)


def _devkit_synsets(path: Path, root: Path) -> dict[int, str]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    meta = next((root / name for name in listed(root, (".mat",)).files if Path(name).name == META), None)
    if meta is None:
        raise AssayError(
            f"{path} numbers the classes in the devkit's own order, which is not the order of the synsets; "
            f"put the devkit's {META} (data/{META}) below {root}, or a val.txt of `<file> <synset>` lines"
        )
    try:
        table = loadmat(meta, squeeze_me=True)["synsets"]
        pairs = zip(table["ILSVRC2012_ID"], table["WNID"], strict=True)
        return {int(number): str(synset) for number, synset in pairs}
    except (KeyError, ValueError, TypeError, OSError, NotImplementedError, MatReadError) as error:
        raise AssayError(f"{meta} is not the devkit's {META}: {error}") from error
