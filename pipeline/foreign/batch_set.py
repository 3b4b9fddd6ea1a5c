"""A folder of other people's MTurk batches: `inputs/` with tasks, `outputs/` with results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from pipeline.delimited import DELIMITERS, first_record
from pipeline.errors import AssayError
from pipeline.foreign.renaming import with_standard_names
from pipeline.foreign.tasks import Foreign, read_foreign
from pipeline.ingest.ingesting import LONGEST_NAME, Ingested, ingest
from pipeline.ingest.sheets import File
from pipeline.ingest.text import decode
from pipeline.study.asked import Asked

PAIR = ["image_id", "description"]
N_RATERS = 3
TABLES = (".csv", ".tsv", ".txt")
COMMON_WORDS = re.compile(r"batch|inputs?|outputs?|results?|tasks?|[\W_]+")


@dataclass(frozen=True)
class BatchSet:
    """What is in a batch set.

    tasks: by the file's path below inputs/. ingested: the ratings in all outputs together, None
    where there are no tasks or no results. files: folder, file and what became of it, every file.
    """

    name: str
    tasks: Mapping[str, Foreign]
    ingested: Ingested | None
    files: pd.DataFrame


def read_batch_set(folder: Path, mapping: Path | Mapping[str, Any] | None = None) -> BatchSet:
    """Read a folder with inputs/ and outputs/; what cannot be read is in `files` with the reason.

    All results are read together, so that a file that is there twice counts once. Column names of
    an output are those of the tasks file of the same name, or of one whose columns it has.
    """
    inputs, outputs = _listed(folder / "inputs"), _listed(folder / "outputs")
    tasks, fates = _tasks(inputs, mapping)
    read = {name: path for name, path in outputs.items() if not _hidden(name)}
    ingested, refused = _ingest(read, tasks) if tasks and read else (None, {})
    asked_by = _asked_by(tasks)
    rated = _pairs(ingested.ratings if ingested else None)
    lines = [
        ("inputs", name, fates.get(name) or _fate_of_tasks(name, tasks, asked_by, rated)) for name in inputs
    ]
    for name in outputs:
        fate = "not read: hidden" if _hidden(name) else refused.get(name) or _fate(name, ingested, asked_by)
        lines.append(("outputs", name, fate))
    return BatchSet(folder.name, tasks, ingested, pd.DataFrame(lines, columns=["folder", "file", "fate"]))


def _listed(folder: Path) -> dict[str, Path]:
    """Return all files below a folder by their path in it."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _tasks(
    inputs: Mapping[str, Path], mapping: Path | Mapping[str, Any] | None
) -> tuple[dict[str, Foreign], dict[str, str]]:
    """Return the tasks by file, and why any other file is none."""
    tasks: dict[str, Foreign] = {}
    reasons: dict[str, str] = {}
    for name, path in inputs.items():
        if _hidden(name) or path.suffix.lower() not in TABLES:
            reasons[name] = "not read: no table of tasks"
            continue
        try:
            tasks[name] = read_foreign(path, mapping)
        except AssayError as error:
            reasons[name] = f"not read: {error}"
    return tasks, reasons


def _ingest(outputs: Mapping[str, Path], tasks: Mapping[str, Foreign]) -> tuple[Ingested, dict[str, str]]:
    """Return the ratings of all outputs that can be read, and why the others cannot."""
    inputs = {key: given for foreign in tasks.values() for key, given in foreign.asked.inputs.items()}
    slots = {key: task for foreign in tasks.values() for key, task in foreign.asked.tasks.items()}
    hits = {hit: task for foreign in tasks.values() for hit, task in foreign.hit_ids.items()}
    asked = Asked(inputs, slots)
    with TemporaryDirectory() as temporary:
        known = {name: _prepared(name, path, tasks, Path(temporary)) for name, path in outputs.items()}
        try:
            return ingest(list(known.values()), asked, n_raters=N_RATERS, keep_hit_ids=hits), {}
        except AssayError:
            refused = _refused(known, asked)
        readable = [path for name, path in known.items() if name not in refused]
        return ingest(readable, asked, n_raters=N_RATERS, keep_hit_ids=hits), refused


def _refused(outputs: Mapping[str, Path], asked: Asked) -> dict[str, str]:
    """Return why a file cannot be read at all."""
    refused = {}
    for name, path in outputs.items():
        try:
            ingest([path], asked, n_raters=N_RATERS)
        except AssayError as error:
            refused[name] = f"not read: {error}"
    return refused


def _prepared(name: str, path: Path, tasks: Mapping[str, Foreign], folder: Path) -> Path:
    """Return an output under a name that no other has, and with standard column names."""
    link = folder / _flat(name)
    link.symlink_to(path.resolve())
    foreign = _of_same_names(name, path, tasks)
    (known,) = with_standard_names([link], foreign.columns, foreign.answer, folder / f"{_flat(name)} renamed")
    return known


def _of_same_names(name: str, path: Path, tasks: Mapping[str, Foreign]) -> Foreign:
    """Return the tasks whose column names an output has: of the same name, else with all columns."""
    for other, foreign in tasks.items():
        if _essence(other) == _essence(name):
            return foreign
    try:
        text = decode(File(path.name, path.read_bytes()))
    except AssayError:
        text = ""
    header = {column for delimiter in DELIMITERS for column in first_record(text, delimiter)}
    fitting = (f for f in tasks.values() if all(f"Input.{column}" in header for column in f.header))
    return next(fitting, next(iter(tasks.values())))


def _essence(name: str) -> str:
    stem = Path(name).stem.casefold()
    return COMMON_WORDS.sub("", stem) or stem


def _flat(name: str) -> str:
    return name.replace("/", "__")[-LONGEST_NAME:]


def _asked_by(tasks: Mapping[str, Foreign]) -> pd.DataFrame:
    """Return the files that ask about each pair: image_id, description, tasks."""
    rows = [(g.image_id, g.description, name) for name, f in tasks.items() for g in f.asked.inputs.values()]
    return pd.DataFrame(rows, columns=[*PAIR, "tasks"])


def _pairs(table: pd.DataFrame | None) -> pd.DataFrame:
    return pd.DataFrame(columns=PAIR) if table is None else table[PAIR].drop_duplicates()


def _fate_of_tasks(
    name: str, tasks: Mapping[str, Foreign], asked_by: pd.DataFrame, rated: pd.DataFrame
) -> str:
    foreign = tasks[name]
    own = asked_by[asked_by["tasks"] == name]
    n_rated = len(own.merge(rated, on=PAIR))
    n_tasks, n_draws = len(foreign.asked.tasks), len(foreign.draws)
    return f"{n_tasks} tasks, {n_draws} draws, {len(own)} inputs, {n_rated} of them rated"


def _fate(name: str, ingested: Ingested | None, asked_by: pd.DataFrame) -> str:
    if ingested is None:
        return "results, and no tasks to read them by"
    source = _flat(name)
    facts = next((facts for facts in ingested.files if facts.source == source), None)
    if facts is None:
        return "the same bytes as another file: read once"
    used = ingested.ratings[ingested.ratings["source"] == source]
    out = ingested.rejected[ingested.rejected["file"] == source]
    pairs = _pairs(pd.concat([used[PAIR], out[PAIR]]))
    answered = asked_by.merge(pairs, on=PAIR)["tasks"].value_counts()
    listed = ", ".join(f"{file} ({n} inputs)" for file, n in answered.items())
    return (
        f"{facts.format}: {facts.n_rows} rows, {len(used)} ratings used, {len(out)} rejected; answers "
        f"{listed or 'none of these tasks'}"
    )
