"""Which results may go: those that no named sweep reaches, and big ones that nothing missing needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.errors import AssayError
from pipeline.plan.points_table import read_points
from pipeline.plan.project import Project
from pipeline.plan.stages import STAGES
from pipeline.plan.state import JobId
from pipeline.plan.store import Store, folder_size
from pipeline.plan.sweep import expand_sweep, sweep_names
from pipeline.plan.workflow import Prepared, prepare


@dataclass(frozen=True)
class Found:
    """Results that may be deleted, with their bytes, and what could not be judged."""

    results: dict[JobId, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_unreachable(project: Project, overrides: Sequence[str]) -> Found:
    """Return the results that no named sweep reaches, as planned now and as each was last run.

    A sweep that cannot be planned here (its data are elsewhere) is a note; what its last run reached
    stays.
    """
    prepared, notes = _named_sweeps(project, overrides)
    reached = {job for sweep in prepared for job in sweep.build.jobs} | _last_run(project)
    store = Store(project)
    return Found({job: _size(project, job) for job in store.all() if job not in reached}, tuple(notes))


def find_intermediate(project: Project, overrides: Sequence[str]) -> Found:
    """Return big results that nothing missing needs: of the sweeps named in `overrides`, else of all."""
    prepared, notes = _named_sweeps(project, overrides)
    if chosen := sum(text.startswith("sweep=") for text in overrides):
        prepared, notes = prepared[:chosen], []
    needed: set[JobId] = set()
    big: set[JobId] = set()
    for sweep in prepared:
        running = set(sweep.status.to_run) | {
            job for job, state in sweep.status.states.items() if state == "waiting"
        }
        needed |= {up for job in running for up in sweep.build.jobs[job].upstream}
        big |= {job for job in sweep.build.jobs if STAGES[job[0]][0].big}
    store = Store(project)
    return Found(
        {job: _size(project, job) for job in sorted(big - needed) if store.exists(*job)}, tuple(notes)
    )


def _named_sweeps(project: Project, overrides: Sequence[str]) -> tuple[list[Prepared], list[str]]:
    wanted = [text.split("=", 1)[1] for text in overrides if text.startswith("sweep=")]
    extra = [text for text in overrides if not text.startswith("sweep=")]
    prepared = [prepare(project, expand_sweep(project.conf, name, extra)) for name in wanted]
    notes: list[str] = []
    for name in sweep_names(project.conf):
        try:
            prepared.append(prepare(project, expand_sweep(project.conf, name, [])))
        except AssayError as error:
            first = str(error).splitlines()[0]
            notes.append(f"sweep {name} cannot be planned here, so its results are not known: {first}")
    return prepared, notes


def _last_run(project: Project) -> set[JobId]:
    """Return the results that points.csv of each sweep's `latest` names."""
    reached: set[JobId] = set()
    for path in (project.results / "sweeps").glob("*/latest/points.csv"):
        for row in read_points(path):
            cells = ((name.removesuffix("_key"), key) for name, key in row.items() if name.endswith("_key"))
            reached |= {(stage, key) for stage, key in cells if key}
    return reached


def _size(project: Project, job: JobId) -> int:
    return folder_size(project.result(*job))


def remove(project: Project, found: Found) -> None:
    """Delete what was found."""
    store = Store(project)
    for stage, key in found.results:
        store.remove(stage, key)
