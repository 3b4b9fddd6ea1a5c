"""Open a frozen study: `studies/<id>/`."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import canonical, read_json, sha256
from pipeline.study.asked import Asked, Input
from pipeline.study.images import StudyImages
from pipeline.study.settings import StudySettings, read_settings

STUDY_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"


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
        images = read_text_table(self.folder / "images.csv")
        urls = dict(zip(images["image_id"], images["url"], strict=True))
        inputs = {
            key: Input(image, text, {"yes": True, "no": False}.get(answer), urls.get(image, ""))
            for key, image, text, answer in rows
        }
        slots = self.tasks[slot_columns(self.tasks, "input_id")].itertuples(index=False, name=None)
        return Asked(inputs, dict(zip(self.tasks["task_id"], slots, strict=True)))


def fingerprints(study: FrozenStudy) -> dict[str, str]:
    """Return a checksum of each table of a study; image addresses, which may change, do not count."""
    tables = {"inputs.csv": study.inputs, "tasks.csv": study.tasks, "images.csv": study.images.table}
    kept = {
        name: table[[c for c in table.columns if not c.startswith(("url", "image_url"))]]
        for name, table in tables.items()
    }
    texts = {name: canonical([[*table.columns], table.to_numpy().tolist()]) for name, table in kept.items()}
    found = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    held = [name for name in ("study.parquet", "population.parquet") if (study.folder / name).is_file()]
    return found | {name: sha256(study.folder / name) for name in held}


def require_as_frozen(study: FrozenStudy) -> None:
    """Raise AssayError where a table of the study is not what was frozen."""
    frozen = read_json(study.folder / "facts.json").get("frozen", {})
    now = fingerprints(study)
    changed = [name for name in {**now, **frozen} if frozen.get(name) != now.get(name)]
    if changed:
        raise AssayError(
            f"{study.folder / changed[0]} was edited after the study was frozen, so people would be "
            "asked, or their ratings read, for something else: put the old file back, or freeze another study"
        )


def open_study(studies: Path, name: str) -> FrozenStudy:
    """Return the study `studies/<name>`; AssayError where there is none, or one of another making."""
    require_study_name(name)
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
    return study_in(folder)


def study_in(folder: Path) -> FrozenStudy:
    """Return the study that a folder holds; AssayError where a file of it is not there."""
    for file in ("study.parquet", "inputs.csv", "tasks.csv", "images.csv", "settings.json"):
        if not (folder / file).is_file():
            raise AssayError(
                f"{folder} lacks {file}: it is no whole study; freeze it again under another name"
            )
    return FrozenStudy(folder)


def require_study_name(name: str) -> None:
    """Raise AssayError for a name that is no plain folder name."""
    if not re.fullmatch(STUDY_NAME, name) or name.lower().endswith(".csv"):
        raise AssayError(
            f"{name!r} is no name for a study: take letters, digits, '.', '_' and '-', a letter or digit "
            "first, and no ending .csv"
        )


def slot_columns(table: pd.DataFrame, stem: str) -> list[str]:
    """Return the columns `<stem>0`, `<stem>1`, ... in the order of their numbers."""
    found = [c for c in table.columns if c.startswith(stem) and c[len(stem) :].isdigit()]
    return sorted(found, key=lambda column: int(column[len(stem) :]))


def read_text_table(path: Path) -> pd.DataFrame:
    """Read a CSV with every cell as text: `nan`, `null` and `NA` are words, blank is "".

    Raises AssayError for a file that is no such table.
    """
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise AssayError(f"{path} is no CSV table in UTF-8: {error}") from None
