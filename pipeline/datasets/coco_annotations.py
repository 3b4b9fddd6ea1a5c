"""COCO's annotation files: which images there are, and which categories each has."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets.coco_masks import Box, has_pixel
from pipeline.datasets.inside import inside
from pipeline.errors import AssayError


@dataclass(frozen=True)
class Category:
    """A category: its name, and its supercategory as family."""

    name: str
    family: str


@dataclass(frozen=True)
class Part:
    """One of COCO's two parts, such as val2017.

    folder: where its images lie, from the root; image_ids: sorted by number; n_annotations (N,): how
    many each image has; rows, columns (L,): positions in image_ids and categories of the labels, sorted,
    none twice; n_flat: labels that an annotation names and none carries.
    """

    name: str
    folder: str
    image_ids: list[str]
    n_annotations: np.ndarray
    categories: list[Category]
    rows: np.ndarray
    columns: np.ndarray
    n_flat: int


def part_of(root: Path, name: str, masks: bool) -> Part:
    """Read annotations/instances_<name>.json; with `masks` an annotation needs a pixel in its mask.

    Categories are in the order of their ids. Raises AssayError naming the file, and the image or
    annotation in it, for what is not in COCO's format, and where the part's images are not there.
    """
    path = root / "annotations" / f"instances_{name}.json"
    content = _content(path, masks)
    try:
        numbers = sorted(content["images"], key=lambda image: int(image["id"]))
        kinds = sorted(content["categories"], key=lambda kind: int(kind["id"]))
        categories = [Category(str(kind["name"]), str(kind["supercategory"])) for kind in kinds]
        image_ids = [f"{name}/{inside(str(image['file_name']), str(path))}" for image in numbers]
        row = {image["id"]: i for i, image in enumerate(numbers)}
        column = {kind["id"]: i for i, kind in enumerate(kinds)}
        sizes = [(image["height"], image["width"]) for image in numbers] if masks else []
    except (KeyError, TypeError, ValueError) as error:
        raise AssayError(f"{path} is not COCO's: an image or a category of it lacks {error}") from error
    _check_unique(path, image_ids, categories, row, column)
    cells, n_annotations, n_flat = _labels(path, content["annotations"], row, column, sizes)
    rows, columns = np.divmod(np.array(sorted(cells), dtype=np.int64), max(1, len(categories)))
    folder = _image_folder(root, name)
    return Part(name, folder, image_ids, n_annotations, categories, rows, columns, n_flat)


def captions_of(root: Path, part: Part) -> list[tuple[str, str]]:
    """Return (image id, caption) pairs of annotations/captions_<name>.json, none where it is not there."""
    path = root / "annotations" / f"captions_{part.name}.json"
    if not path.is_file():
        return []
    content = _content(path, masks=False)
    try:
        files = {image["id"]: f"{part.name}/{image['file_name']}" for image in content["images"]}
        told = [(files[each["image_id"]], str(each["caption"])) for each in content["annotations"]]
    except (KeyError, TypeError) as error:
        raise AssayError(f"{path} is not COCO's: an image or a caption of it lacks {error}") from error
    return [(image_id, " ".join(caption.split())) for image_id, caption in told]


def _content(path: Path, masks: bool) -> dict[str, Any]:
    """Return a file's JSON; polygons, nine tenths of it, are dropped or packed as it is read."""

    def dropped(node: dict[str, Any]) -> dict[str, Any]:
        node.pop("segmentation", None)
        return node

    def packed(node: dict[str, Any]) -> dict[str, Any]:
        polygons = node.get("segmentation")
        if isinstance(polygons, list) and all(isinstance(each, list) for each in polygons):
            node["segmentation"] = [np.array(each, dtype=np.float64) for each in polygons]
        return node

    try:
        with path.open(encoding="utf-8") as stream:
            content = json.load(stream, object_hook=packed if masks else dropped)
    except ValueError as error:
        raise AssayError(f"{path} is no JSON file: {error}; unpack it again") from error
    lists = ("images", "annotations") + (("categories",) if path.name.startswith("instances") else ())
    for name in lists:
        if not isinstance(content, dict) or not isinstance(content.get(name), list):
            raise AssayError(f"{path} is not COCO's: it has no list {name!r}")
    return dict(content)


def _check_unique(
    path: Path,
    image_ids: list[str],
    categories: list[Category],
    row: dict[Any, int],
    column: dict[Any, int],
) -> None:
    names = {category.name for category in categories}
    if min(len(set(image_ids)), len(row)) < len(image_ids):
        raise AssayError(f"{path}: two images have one id or one file_name")
    if min(len(names), len(column)) < len(categories):
        raise AssayError(f"{path}: two categories have one id or one name")


def _labels(
    path: Path,
    annotations: list[dict[str, Any]],
    row: dict[Any, int],
    column: dict[Any, int],
    sizes: list[tuple[int, int]],
) -> tuple[set[int], np.ndarray, int]:
    """Return the labels as row x categories + column, annotations per image, and labels that none carries."""
    cells: set[int] = set()
    told: set[int] = set()
    n_annotations = np.zeros(len(row), dtype=np.int64)
    for i, annotation in enumerate(annotations):
        place = f"{path}, annotations[{i}]"
        image, kind, box = _fields(annotation, row, column, place)
        cell = image * len(column) + kind
        n_annotations[image] += 1
        told.add(cell)
        if cell in cells or box[2] <= 0 or box[3] <= 0:
            continue
        if not sizes or has_pixel(annotation.get("segmentation"), box, *sizes[image], place):
            cells.add(cell)
    return cells, n_annotations, len(told - cells)


def _fields(
    annotation: dict[str, Any], row: dict[Any, int], column: dict[Any, int], place: str
) -> tuple[int, int, Box]:
    try:
        x, y, width, height = map(float, annotation["bbox"])
        return row[annotation["image_id"]], column[annotation["category_id"]], (x, y, width, height)
    except (KeyError, TypeError, ValueError) as error:
        raise AssayError(
            f"{place}: image_id, category_id or bbox is not there or not known: {error}"
        ) from error


def _image_folder(root: Path, name: str) -> str:
    places = [place for place in (name, f"images/{name}") if (root / place).is_dir()]
    if not places:
        raise AssayError(
            f"dataset.root: annotations/instances_{name}.json is there, but neither {root / name} nor "
            f"{root / 'images' / name}; unpack {name}.zip, or move that file away to go on without this part"
        )
    return places[0]
