"""RePOPE (Neuhaus and Hein 2025): POPE's questions about COCO val2014, labelled again.

JSON lines in coco_repope_<subset>.json beside a folder of images, or Parquet with the images inside.
"""

from collections.abc import Iterator
from pathlib import Path

from pipeline.datasets.inside import inside
from pipeline.datasets.listing import existing_root, listed
from pipeline.errors import AssayError
from pipeline.vqa.cells import FileImage
from pipeline.vqa.sample import VqaSample
from pipeline.vqa.tables import Row, asked, json_lines, parquet_rows, unique

COLUMNS = ("question_id", "text", "label")
SUBSETS = ("random", "popular", "adversarial")
LABELS = ("yes", "no")
PREFIX = "coco_repope_"
IMAGE_FOLDERS = ("val2014", "images/val2014", "images", ".")


def read(root: Path, *, suffix: str = "", images: Path | None = None) -> list[VqaSample]:
    """Return the samples of coco_repope_*.json below `root`, or of Parquet files where there is none.

    images: the folder of COCO val2014; by default val2014, images/val2014 or images in the root, or the root.
    sample_id: subset and question_id ("popular-17"), as the subsets count alike; question: the published
    text, and `suffix` on a line of its own; answer: "yes" or "no"; category: the subset, which the file's
    name tells. Raises AssayError naming file, line and column for a missing folder, file, column, value or
    image, a label that is neither yes nor no, and an id that stands twice.
    """
    root = existing_root(root)
    return unique(
        (row.place, _sample(subset, row, suffix)) for subset, row in _rows(root, _folders(root, images))
    )


def _folders(root: Path, images: Path | None) -> tuple[Path, ...]:
    if images is None:
        return tuple(root / name for name in IMAGE_FOLDERS if (root / name).is_dir())
    if not Path(images).is_dir():
        raise AssayError(f"repope: images={images} is no folder; name the folder of COCO val2014")
    return (Path(images).absolute(),)


def _rows(root: Path, folders: tuple[Path, ...]) -> Iterator[tuple[str, Row]]:
    names = [name for name in listed(root, (".json",)).files if Path(name).name.startswith(PREFIX)]
    parquet = listed(root, (".parquet",)).files
    if not names and not parquet:
        raise AssayError(f"dataset.root: no {PREFIX}<subset>.json and no *.parquet file below {root}")
    for name in names or parquet:
        subset = _subset(root / name)
        rows = _json_rows(root / name, folders) if names else parquet_rows(root, root / name, COLUMNS)
        yield from ((subset, row) for row in rows)


def _subset(path: Path) -> str:
    found = [subset for subset in SUBSETS if subset in path.stem]
    if len(found) != 1:
        raise AssayError(f"{path}: the file's name must tell one of the subsets {', '.join(SUBSETS)}")
    return found[0]


def _json_rows(path: Path, folders: tuple[Path, ...]) -> list[Row]:
    found: dict[str, Path | None] = {}
    rows = []
    for place, values in json_lines(path, (*COLUMNS, "image")):
        name = str(values["image"])
        if name not in found:
            found[name] = _file(name, folders, place)
        image = found[name]
        if image is None:
            raise AssayError(
                f"{place}, column 'image': no file {name!r} in {', '.join(map(str, folders))}; put COCO's "
                "val2014 there, or set images"
            )
        rows.append(Row(place, values, FileImage(image, f"{place}, column 'image'")))
    return rows


def _file(name: str, folders: tuple[Path, ...], place: str) -> Path | None:
    inside(name, f"{place}, column 'image'")
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _sample(subset: str, row: Row, suffix: str) -> VqaSample:
    return VqaSample(
        sample_id=f"{subset}-{row.text('question_id')}",
        question=asked(row.text("text"), suffix),
        answer=row.one_of("label", LABELS),
        category=subset,
        image=row.image,
    )
