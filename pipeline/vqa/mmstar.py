"""MMStar (Chen et al. 2024, "Are We on the Right Way for Evaluating LVLMs?"): Parquet or TSV."""

from collections.abc import Iterator
from pathlib import Path

from pipeline.datasets.listing import existing_root, listed
from pipeline.errors import AssayError
from pipeline.vqa.sample import VqaSample
from pipeline.vqa.tables import Row, asked, parquet_rows, unique
from pipeline.vqa.tsv import tsv_rows

COLUMNS = ("index", "question", "answer", "category", "l2_category")
LETTERS = ("A", "B", "C", "D")


def read(root: Path, *, suffix: str = "") -> list[VqaSample]:
    """Return the samples of the Parquet files below `root`, or of the TSV files where there is no Parquet.

    The published folder holds the same samples in both. No image is decoded. sample_id: the index; question:
    as published, with the options in it, and `suffix` on a line of its own; answer: the letter; category: the
    first of the two levels; meta_info is not read. Raises AssayError naming file, row and column for a
    missing folder, file, column or value, an answer that is not A to D, and an index that stands twice.
    """
    root = existing_root(root)
    return unique((row.place, _sample(row, suffix)) for row in _rows(root))


def _rows(root: Path) -> Iterator[Row]:
    if files := listed(root, (".parquet",)).files:
        for name in files:
            yield from parquet_rows(root, root / name, COLUMNS)
    elif files := listed(root, (".tsv",)).files:
        for name in files:
            yield from tsv_rows(root, root / name, COLUMNS)
    else:
        raise AssayError(f"dataset.root: no *.parquet and no *.tsv file below {root}; mmstar.parquet is one")


def _sample(row: Row, suffix: str) -> VqaSample:
    return VqaSample(
        sample_id=row.text("index"),
        question=asked(row.text("question"), suffix),
        answer=row.one_of("answer", LETTERS),
        category=row.text("category"),
        image=row.image,
    )
