"""CV-Bench (Tong et al. 2024, "Cambrian-1"): test_2d.parquet and test_3d.parquet, or one test.parquet."""

import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.datasets.listing import existing_root
from pipeline.datasets.parquet_rows import parquet_files
from pipeline.vqa.sample import VqaSample
from pipeline.vqa.tables import Row, asked, parquet_rows, unique

COLUMNS = ("idx", "type", "task", "question", "choices", "answer", "prompt")
TYPES = ("2D", "3D")
TASKS = ("Count", "Relation", "Depth", "Distance")
LETTER = re.compile(r"\(([A-Z])\)")


def read(root: Path, *, suffix: str = "") -> list[VqaSample]:
    """Return the samples of every Parquet file below `root`, by file and row; no image is read.

    sample_id: type and idx ("2D-17"); question: the published prompt, which lists the choices, and `suffix`
    on a line of its own; answer: the letter without brackets; category: the task. Raises AssayError naming
    file, row and column for a missing folder, file, column or value, a type, task or answer that there is
    not, and an id that stands twice.
    """
    root = existing_root(root)
    return unique(_samples(root, suffix))


def _samples(root: Path, suffix: str) -> Iterator[tuple[str, VqaSample]]:
    for name in parquet_files(root):
        for row in parquet_rows(root, root / name, COLUMNS):
            yield row.place, _sample(row, suffix)


def _sample(row: Row, suffix: str) -> VqaSample:
    choices = _choices(row)
    return VqaSample(
        sample_id=f"{row.one_of('type', TYPES)}-{row.text('idx')}",
        question=asked(row.text("prompt"), suffix),
        answer=_letter(row, len(choices)),
        category=row.one_of("task", TASKS),
        image=row.image,
        choices=choices,
    )


def _choices(row: Row) -> tuple[str, ...]:
    choices = row.values["choices"]
    if not isinstance(choices, list) or not choices:
        raise row.refused("choices", "is not a list of choices")
    return tuple(map(str, choices))


def _letter(row: Row, n_choices: int) -> str:
    match = LETTER.fullmatch(row.text("answer"))
    if match is None or ord(match[1]) - ord("A") >= n_choices:
        raise row.refused("answer", f"is not the letter of one of {n_choices} choices, such as (A)")
    return match[1]
