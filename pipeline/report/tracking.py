"""Weights & Biases runs of a sweep: one a point and one for the comparison, all from one process."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pipeline.errors import AssayError
from pipeline.report.wandb_artifacts import log_files, log_references

Mode = Literal["offline", "online"]
MAX_TABLE_ROWS = 10_000
MAX_TAG = 64
MAX_PROJECT = 128
FORBIDDEN = frozenset("/\\#?%:")


@dataclass(frozen=True)
class PointRecord:
    """What is logged of one point.

    key: names its run. config: plain data (what JSON can hold). summary: its numbers. history: a row a
    step, drawn as curves over its first column. results: the key of each stage's result. images: picture
    files by name. references: folders results/<stage>/<key> that the run points at.
    """

    key: str
    name: str
    config: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    summary: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    history: pd.DataFrame | None = None
    images: Mapping[str, Path] = field(default_factory=dict)
    references: tuple[Path, ...] = ()


@dataclass(frozen=True)
class SweepRecord:
    """What is logged of the whole sweep: key is its comparison key, figures are PNG files.

    files: the report and the tables by their names in the artifact. references: as in PointRecord.
    """

    name: str
    key: str
    tables: Mapping[str, pd.DataFrame]
    figures: Mapping[str, Path]
    summary: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    references: tuple[Path, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """A run as it was written: its id and name at W&B and its local folder."""

    id: str
    name: str
    directory: Path


def log_sweep(
    points: Sequence[PointRecord],
    sweep: SweepRecord,
    *,
    project: str,
    entity: str | None = None,
    mode: Mode = "offline",
    directory: Path,
) -> list[RunRecord]:
    """Log one run a point and one for the sweep under `directory`/wandb; return them in that order.

    A run's id depends on project, sweep name and key alone: logging again replaces the run, at W&B
    and here. Points with the same key are one run. Offline opens no connection at all; `wandb sync`,
    started in `directory`, uploads the folders later, wherever that was moved to. Ends the process's W&B
    session.
    Raises AssayError for names that W&B refuses, and where online has no login or no connection.
    """
    _check_names(project, points, sweep)
    distinct = {point.key: point for point in points}
    with _session(project, entity, mode, sweep.name, directory) as session:
        runs = [_log_point(session, point) for point in distinct.values()]
        return [*runs, _log_comparison(session, sweep)]


def run_id(project: str, sweep: str, kind: str, key: str) -> str:
    """Return the id of a run: 16 hex digits of sha256 over project, sweep name, kind and key."""
    return hashlib.sha256("\x1f".join((project, sweep, kind, key)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Session:
    settings: Any
    sweep: str

    @contextmanager
    def run(
        self, kind: str, key: str, name: str, config: Mapping[str, Any], tags: Sequence[str]
    ) -> Iterator[tuple[Any, RunRecord]]:
        """Open a run in a fresh folder; on leaving, what only debugs W&B itself is removed."""
        import wandb

        settings = self.settings.model_copy()
        identity = run_id(str(settings.project), self.sweep, kind, key)
        for stale in Path(settings.wandb_dir).glob(f"*run-*-{identity}"):
            shutil.rmtree(stale)
        run = wandb.init(
            id=identity,
            name=name,
            group=self.sweep,
            job_type=kind,
            tags=list(tags),
            config=dict(config),
            settings=settings,
        )
        folder = Path(run.settings.sync_dir)
        with run:
            yield run, RunRecord(identity, name, folder)
        for leftover in ("logs", "tmp"):
            shutil.rmtree(folder / leftover, ignore_errors=True)


@contextmanager
def _session(project: str, entity: str | None, mode: Mode, sweep: str, directory: Path) -> Iterator[_Session]:
    """Start W&B's service with settings that record our data and nothing of the machine."""
    import wandb

    directory.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(
        mode=mode,
        project=project,
        entity=entity,
        root_dir=str(directory.resolve()),
        host="",
        reinit="create_new",
        console="off",
        silent=True,
        symlink=False,
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        save_code=False,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_viewer=mode == "offline",
        x_save_requirements=False,
    )
    try:
        # Without this the process-wide mode stays online, and an offline run still sends telemetry.
        wandb.setup(settings=settings)
        yield _Session(settings, sweep)
    except wandb.Error as error:
        raise AssayError(
            f"tracking.mode={mode}: W&B says '{error}'. Log in with `wandb login`, or set "
            "tracking.mode=offline and upload later with `wandb sync`"
        ) from error
    finally:
        wandb.teardown()
        for leftover in (directory / "wandb").glob("debug*.log"):
            leftover.unlink(missing_ok=True)


def _log_point(session: _Session, point: PointRecord) -> RunRecord:
    with session.run("point", point.key, point.name, point.config, point.tags) as (run, record):
        if point.history is not None and len(point.history):
            _log_history(run, point.history)
        tables = {name: _table(run, name, table) for name, table in point.tables.items()}
        run.log(tables | _images(point.images))
        log_references(run, f"results-{point.key}", point.references)
        results = {f"results/{stage}": key for stage, key in point.results.items()}
        run.summary.update({**_known(point.summary), "key": point.key, **results})
    return record


def _log_comparison(session: _Session, sweep: SweepRecord) -> RunRecord:
    with session.run("sweep", sweep.key, sweep.name, sweep.config, sweep.tags) as (run, record):
        tables = {name: _table(run, name, table) for name, table in sweep.tables.items() if len(table)}
        run.log(tables | _images(sweep.figures))
        log_files(run, f"{sweep.name}-report", sweep.files)
        log_references(run, f"{sweep.name}-results", sweep.references)
        run.summary.update({**_known(sweep.summary), "key": sweep.key})
    return record


def _log_history(run: Any, history: pd.DataFrame) -> None:
    """Log a row a step; a curve has no point where its value is null."""
    steps, *curves = history.columns
    for name in curves:
        run.define_metric(name, step_metric=steps)
    for row in history.to_dict("records"):
        run.log(_known(row))


def _images(pictures: Mapping[str, Path]) -> dict[str, Any]:
    """Return each file as a picture, which copies it into the run."""
    import wandb

    return {name: wandb.Image(str(path)) for name, path in pictures.items()}


def _known(summary: Mapping[Any, Any]) -> dict[str, Any]:
    """Leave nulls out: W&B would plot them as values."""
    return {name: value for name, value in summary.items() if not pd.isna(value)}


def _table(run: Any, name: str, table: pd.DataFrame) -> Any:
    """Return a wandb.Table of the first 10,000 rows; what was left out is counted in the summary."""
    import wandb

    if (left_out := len(table) - MAX_TABLE_ROWS) > 0:
        run.summary[f"{name}_rows_left_out"] = left_out
    shown = table.head(MAX_TABLE_ROWS).astype(object)
    rows = shown.where(shown.notna(), None).to_numpy()
    logged: Any = wandb.Table(columns=list(table.columns), data=rows, allow_mixed_types=True)
    # Bound now, the table is a file of the run; else W&B would stage a copy in the user's home and
    # note that absolute path, so that a moved folder could not be synced.
    logged.bind_to_run(run, name, 0)
    return logged


def _check_names(project: str, points: Sequence[PointRecord], sweep: SweepRecord) -> None:
    if not project or len(project) > MAX_PROJECT or FORBIDDEN & set(project):
        raise AssayError(
            f"tracking.project={project!r}: W&B takes 1 to {MAX_PROJECT} characters, none of "
            + " ".join(sorted(FORBIDDEN))
        )
    for tag in [*sweep.tags, *(tag for point in points for tag in point.tags)]:
        if not 1 <= len(tag) <= MAX_TAG:
            raise AssayError(f"the tag {tag!r} has {len(tag)} characters; W&B takes 1 to {MAX_TAG}")
