"""Open a frozen study: `studies/<id>/`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from pipeline.errors import AssayError
from pipeline.study.asked import Asked, Input
from pipeline.study.images import StudyImages
from pipeline.study.settings import StudySettings, read_settings


@dataclass(frozen=True)
class FrozenStudy:
    """A frozen study's folder and what lies in it, read when first asked for.

    inputs.csv has a row an input: input_id, image_id, description, answer ("yes" or "no" for
    attention checks, else blank). tasks.csv has a row a task, `input_id{j}` by slot from 0.
    """

    folder: Path

    @property
    def name(self) -> str:
        """The study's id."""
        return self.folder.name

    @cached_property
    def settings(self) -> StudySettings:
        """What its owner chose."""
        return read_settings(self.folder / "settings.json")

    @cached_property
    def inputs(self) -> pd.DataFrame:
        """All inputs, in the order in which they are asked."""
        return read_text_table(self.folder / "inputs.csv")

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """What is uploaded, every cell as text."""
        return read_text_table(self.folder / "tasks.csv")

    @cached_property
    def draws(self) -> pd.DataFrame:
        """Every draw with q, weight, multiplicity, and the part that it belongs to."""
        return pd.read_parquet(self.folder / "study.parquet")

    @cached_property
    def images(self) -> StudyImages:
        """The images that people see."""
        return StudyImages(read_text_table(self.folder / "images.csv"), self.folder / "images")

    @cached_property
    def asked(self) -> Asked:
        """Inputs by id and tasks by id."""
        rows = self.inputs[["input_id", "image_id", "description", "answer"]].itertuples(index=False)
        inputs = {row[0]: Input(row[1], row[2], {"yes": True, "no": False}.get(row[3])) for row in rows}
        slots = self.tasks[slot_columns(self.tasks, "input_id")].itertuples(index=False, name=None)
        return Asked(inputs, dict(zip(self.tasks["task_id"], slots, strict=True)))


def open_study(studies: Path, name: str) -> FrozenStudy:
    """Return the study `studies/<name>`; AssayError where there is none, or one of another making."""
    folder = studies / name
    if not folder.is_dir():
        there = (
            sorted(p.name for p in studies.iterdir() if not p.name.startswith("."))
            if studies.is_dir()
            else []
        )
        raise AssayError(
            f"no study {name!r} in {studies}; there are: {', '.join(there) or 'none'} "
            f"(assay study freeze {name} sweep=... makes one)"
        )
    for file in ("study.parquet", "inputs.csv", "tasks.csv", "images.csv", "settings.json"):
        if not (folder / file).is_file():
            raise AssayError(
                f"{folder} lacks {file}: it is no whole study; freeze it again under another name"
            )
    return FrozenStudy(folder)


def slot_columns(table: pd.DataFrame, stem: str) -> list[str]:
    """Return the columns `<stem>0`, `<stem>1`, ... in the order of their numbers."""
    found = [c for c in table.columns if c.startswith(stem) and c[len(stem) :].isdigit()]
    return sorted(found, key=lambda column: int(column[len(stem) :]))


def read_text_table(path: Path) -> pd.DataFrame:
    """Read a CSV with every cell as text: `nan`, `null` and `NA` are words, blank is "" ."""
    return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
