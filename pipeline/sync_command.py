"""`assay sync`: push the offline W&B runs of sweeps."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipeline.errors import AssayError
from pipeline.files import read_json, write_json
from pipeline.plan.points_table import read_points
from pipeline.plan.project import Project, find_project
from pipeline.report.wandb_log import read_log
from pipeline.report.wandb_sync import Pushed, push, server_address

OFFLINE = "offline-run-"
STATE = "results/.synced.json"


@dataclass(frozen=True)
class TrackedSweep:
    """What a sweep's last run logged: the folder results/tracking/<key> and the rows of its runs.json."""

    name: str
    folder: Path
    runs: Sequence[Mapping[str, str]]

    @property
    def offline(self) -> dict[str, Path]:
        """The folders of the runs that wait to be pushed, or were, by id; the others were logged online."""
        folders = {run["id"]: self.folder / run["folder"] for run in self.runs}
        return {run: folder for run, folder in folders.items() if folder.name.startswith(OFFLINE)}

    @property
    def titles(self) -> dict[str, str]:
        """The names of the runs by id."""
        return {run["id"]: run["name"] for run in self.runs}


@dataclass(frozen=True)
class State:
    """What was pushed: place to run id to `digest`, null where it did not arrive whole, and `lines`.

    A place is a server's address, and the entity there where the sweep names one.
    """

    path: Path

    def at(self, place: str) -> dict[str, Any]:
        """Return what was pushed to a place."""
        return dict(self._all().get(place, {}))

    def note(self, place: str, pushed: Mapping[str, Any]) -> None:
        """Add what was pushed now."""
        write_json(self.path, {**self._all(), place: self.at(place) | dict(pushed)})

    def _all(self) -> dict[str, Any]:
        try:
            return dict(read_json(self.path)) if self.path.is_file() else {}
        except (ValueError, TypeError) as error:
            raise AssayError(
                f"{self.path} cannot be read ({error}): delete it and sync again; nothing doubles"
            ) from None


@click.command()
@click.argument("words", nargs=-1, metavar="[sweep=NAME]")
@click.option("--again", is_flag=True, help="Push also what was pushed before; nothing doubles.")
def sync(words: tuple[str, ...], again: bool) -> None:
    """Push the offline W&B runs of a sweep's last run, or of every sweep's.

    What was pushed to a server is not pushed there again: results/.synced.json says what is where, and
    results stay as they are. Exit code 1 where a run did not arrive.
    """
    project = find_project(Path.cwd())
    found = [_found(project, name, stop=bool(words)) for name in _named(project, words)]
    arrived = [push_sweep(project, sweep, again) for sweep in found if isinstance(sweep, TrackedSweep)]
    sys.exit(0 if all(arrived) and False not in found else 1)


def tracked_sweep(project: Project, name: str) -> TrackedSweep | None:
    """Return the runs that a sweep's last run logged, None where it was run with tracking=none.

    Raises AssayError where the result is gone or damaged.
    """
    from pipeline.plan.shared import open_store

    path = project.results / "sweeps" / name / "latest" / "points.csv"
    key = next(read_points(path), {}).get("tracking_key")
    if not key:
        return None
    store = open_store(project)
    damage = store.fetch("tracking", key) if store.exists("tracking", key) else "not there"
    if damage:
        raise AssayError(f"results/tracking/{key}: {damage}; `assay run sweep={name}` makes it again")
    folder = store.folder("tracking", key)
    return TrackedSweep(name, folder, read_json(folder / "runs.json"))


def push_sweep(project: Project, sweep: TrackedSweep, again: bool = False) -> bool:
    """Push the runs of a sweep that the server does not have as they are; True where all are there.

    Says what was pushed. Raises AssayError without a login and without a connection.
    """
    if online := len(sweep.runs) - len(sweep.offline):
        click.echo(f"{sweep.name}: {_count(online)} logged online")
    if not sweep.offline:
        return True
    logs = {run: read_log(folder / f"run-{run}.wandb") for run, folder in sweep.offline.items()}
    server, state = server_address(), State(project.root / STATE)
    place = "/".join(filter(None, (server, *{log.entity for log in logs.values()})))
    there = state.at(place)
    same = {run for run, log in logs.items() if there.get(run, {}).get("digest") == log.digest and not again}
    waiting = {run: log for run, log in logs.items() if run not in same}
    if not waiting:
        click.echo(f"{sweep.name}: nothing to push; {_count(len(logs))} pushed to {place} before")
        return True
    click.echo(f"{sweep.name}: pushing {_count(len(waiting))} to {place} ...")
    folders = {run: sweep.offline[run] for run in waiting}
    lines = {run: facts["lines"] for run, facts in there.items() if run in waiting}
    pushed = push(folders, waiting, lines, sweep.folder, server)
    digests = {run: waiting[run].digest for run in pushed.arrived}
    state.note(place, {run: {"digest": digests.get(run), "lines": n} for run, n in pushed.lines.items()})
    return _say(sweep, pushed)


def _say(sweep: TrackedSweep, pushed: Pushed) -> bool:
    """Say what was pushed, and what was not and why; return whether all was."""
    for run, address in pushed.arrived.items():
        click.echo(f"pushed: {sweep.titles[run]}  {address}")
    for run, reason in pushed.failed.items():
        click.echo(f"not pushed: {sweep.titles[run]} ({run}): W&B says '{reason}'", err=True)
    if pushed.failed:
        click.echo(
            f"{sweep.name}: {_count(len(pushed.failed))} did not arrive whole. Check `wandb login`, "
            "tracking.entity and tracking.project; `assay sync` then pushes these alone",
            err=True,
        )
    if pushed.silent:
        click.echo(f"note: which runs are there is from {STATE} alone; the server does not say it", err=True)
    return not pushed.failed


def _found(project: Project, name: str, stop: bool) -> TrackedSweep | bool:
    """Return a sweep's runs, True where it has none; where its result is gone, stop, or say so: False."""
    try:
        if sweep := tracked_sweep(project, name):
            return sweep
    except AssayError as error:
        if stop:
            raise
        click.echo(f"{name}: {error}", err=True)
        return False
    click.echo(f"{name}: no runs; it was last run with tracking=none")
    return True


def _named(project: Project, words: Sequence[str]) -> list[str]:
    """Return the sweeps that the words name, all that were run where there are none."""
    from pipeline.datasets.nearest import did_you_mean

    known = sorted(path.parent.parent.name for path in project.results.glob("sweeps/*/latest/points.csv"))
    if not known:
        raise AssayError(f"no sweep was run in {project.root} yet: `assay run sweep=NAME` logs its runs")
    names = [word.removeprefix("sweep=") for word in words]
    for word, name in zip(words, names, strict=True):
        if not word.startswith("sweep="):
            raise AssayError(f"{word!r}: give a sweep as sweep=NAME, or nothing for all sweeps that were run")
        if name not in known:
            raise AssayError(
                f"sweep={name} was not run here{did_you_mean(name, known)}; `assay run sweep={name}` logs "
                f"its runs. Run were: {', '.join(known)}"
            )
    return names or known


def _count(n: int) -> str:
    return f"{n} run" if n == 1 else f"{n} runs"
