"""`assay sync`: push the offline W&B runs of sweeps."""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipeline.errors import AssayError
from pipeline.files import read_json, sha256, write_json
from pipeline.plan.project import Project, find_project

OFFLINE = "offline-run-"


@dataclass(frozen=True)
class TrackedSweep:
    """The runs of a sweep's last run: folder results/tracking/<key>, and runs.json."""

    name: str
    folder: Path
    runs: Sequence[Mapping[str, str]]

    @property
    def offline(self) -> list[Mapping[str, str]]:
        """Those that wait to be pushed, or were; the others were logged online."""
        return [run for run in self.runs if Path(run["folder"]).name.startswith(OFFLINE)]

    def log(self, run: Mapping[str, str]) -> Path:
        """Return the file that holds an offline run."""
        return self.folder / run["folder"] / f"run-{run['id']}.wandb"


@click.command()
@click.argument("words", nargs=-1, metavar="[sweep=NAME]")
@click.option("--again", is_flag=True, help="Push also what was pushed before; W&B replaces it.")
def sync(words: tuple[str, ...], again: bool) -> None:
    """Push the offline W&B runs of a sweep's last run, or of every sweep's.

    What was pushed to a server is not pushed there again. Results are not touched: results/.synced/ says
    what is where. Exit code 1 where a run did not arrive.
    """
    project = find_project(Path.cwd())
    sweeps = [tracked_sweep(project, name) for name in _named(project, words)]
    sys.exit(1 if any([not push_sweep(project, sweep, again) for sweep in sweeps if sweep]) else 0)


def tracked_sweep(project: Project, name: str) -> TrackedSweep | None:
    """Return the runs that a sweep's last run logged, None where it was run with tracking=none.

    Raises AssayError where the result is gone or damaged.
    """
    from pipeline.plan.store import Store

    with (project.results / "sweeps" / name / "latest" / "points.csv").open(
        newline="", encoding="utf-8"
    ) as stream:
        key = next(csv.DictReader(stream), {}).get("tracking_key")
    if not key:
        click.echo(f"{name}: no runs; its last run had tracking=none")
        return None
    store, folder = Store(project), project.result("tracking", key)
    damage = store.damage("tracking", key, thorough=True) if store.exists("tracking", key) else "not there"
    if damage:
        raise AssayError(f"results/tracking/{key}: {damage}; `assay run sweep={name}` makes it again")
    return TrackedSweep(name, folder, read_json(folder / "runs.json"))


def push_sweep(project: Project, sweep: TrackedSweep, again: bool = False) -> bool:
    """Push the runs of a sweep that the server does not have yet; say what was pushed; True where all is there."""
    from pipeline.report.wandb_sync import push, server_address

    if online := len(sweep.runs) - len(sweep.offline):
        click.echo(f"{sweep.name}: {_count(online)} logged online")
    if not sweep.offline:
        return True
    server = server_address()
    known = _read_state(project, sweep)
    there = {} if again else known.get(server, {})
    waiting = {run["id"]: run for run in sweep.offline if there.get(run["id"]) != sha256(sweep.log(run))}
    if not waiting:
        click.echo(f"{sweep.name}: nothing to push; {_count(len(sweep.offline))} at {server} already")
        return True
    click.echo(f"{sweep.name}: pushing {_count(len(waiting))} to {server} ...")
    folders = {run: sweep.folder / row["folder"] for run, row in waiting.items()}
    pushed = push(folders, sweep.folder, server)
    there = known.get(server, {}) | {run: sha256(sweep.log(waiting[run])) for run in pushed.arrived}
    write_json(_state(project, sweep), {**known, server: there})
    for run, address in pushed.arrived.items():
        click.echo(f"pushed: {waiting[run]['name']}  {address}")
    for run, reason in pushed.failed.items():
        click.echo(f"not pushed: {waiting[run]['name']} ({run}): {reason}", err=True)
    if pushed.failed:
        click.echo(
            f"{sweep.name}: {_count(len(pushed.failed))} of {len(waiting)} did not arrive whole; if W&B asks "
            "for a login or a permission, see `wandb login` and tracking.entity; `assay sync` goes on from here",
            err=True,
        )
    return not pushed.failed


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


def _state(project: Project, sweep: TrackedSweep) -> Path:
    """Return the file with what was pushed: server to run id to the SHA-256 of its log."""
    return project.results / ".synced" / f"{sweep.folder.name}.json"


def _read_state(project: Project, sweep: TrackedSweep) -> dict[str, Any]:
    path = _state(project, sweep)
    return dict(read_json(path)) if path.is_file() else {}


def _count(n: int) -> str:
    return f"{n} run" if n == 1 else f"{n} runs"
