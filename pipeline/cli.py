"""`assay ...`: what a person types."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from pipeline.attribute_command import attributes
from pipeline.completion import Overrides
from pipeline.config_command import config, print_resolved
from pipeline.disk_errors import disk_trouble
from pipeline.errors import AssayError
from pipeline.inspect_command import inspect
from pipeline.mturk_commands import COMMANDS as MTURK_COMMANDS
from pipeline.pair_commands import COMMANDS as PAIR_COMMANDS
from pipeline.plan.bucket import VARIABLE
from pipeline.plan.project import CODE, Project, find_project
from pipeline.plan.store import Store
from pipeline.rater_commands import COMMANDS as RATER_COMMANDS
from pipeline.report_command import report
from pipeline.sync_command import sync


class Assay(click.Group):
    """Prints a user's mistake as a message, without a traceback."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command; an AssayError, and a disk that cannot be written, end it with exit code 2.

        Ctrl-C, where the command has no better answer, ends it with 130.
        """
        try:
            return super().invoke(context)
        except AssayError as error:
            told = str(error)
        except OSError as error:
            trouble = disk_trouble(error, Path.cwd() / "results")
            if trouble is None:
                raise
            told = trouble
        except KeyboardInterrupt:
            click.echo("\nassay: stopped; the same command goes on from here", err=True)
            return context.exit(130)
        click.echo(f"assay: {told}", err=True)
        return context.exit(2)


@click.group(cls=Assay, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="assay")
def cli() -> None:
    """Say whether an explanation of a vision model is any good."""


@cli.command()
@click.argument("overrides", nargs=-1, required=True, type=Overrides())
@click.option(
    "--cores", type=click.IntRange(min=1), default=None, help="Jobs at once (default: the profile's)."
)
@click.option("--dry-run", "-n", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--profile", default="default", show_default=True, help="A folder under profiles/.")
@click.option("--cfg", is_flag=True, help="Print the resolved config and who reads each key; run nothing.")
@click.option("--no-wait", is_flag=True, help="Stop, instead of waiting, where another run is at work.")
def run(
    overrides: tuple[str, ...], cores: int | None, dry_run: bool, profile: str, cfg: bool, no_wait: bool
) -> None:
    """Run a sweep: assay run sweep=NAME [key=value | key=a,b ...]. Only stale stages run.

    What follows -- goes to Snakemake: assay run sweep=demo -- --resources gpu=2
    """
    from pipeline.running import run_sweep
    from pipeline.sweep_reading import prepare_sweep, read_sweep

    overrides, options = split_options(overrides)
    if cfg:
        print_resolved(prepare_sweep(overrides).build)
        return
    project = find_project(Path.cwd())
    sys.exit(run_sweep(project, read_sweep(overrides), cores, dry_run, profile, not no_wait, options))


def split_options(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part overrides from options of Snakemake, which begin with the first word that begins with a dash."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


@cli.command()
@click.argument("overrides", nargs=-1, required=True, type=Overrides())
@click.option("--json", "as_json", is_flag=True, help="Print counts per stage as JSON.")
def plan(overrides: tuple[str, ...], as_json: bool) -> None:
    """Show per stage what is fresh, stale (and why), missing or waiting; run nothing."""
    from pipeline.printing import print_plan
    from pipeline.sweep_reading import prepare_sweep

    prepared = prepare_sweep(overrides)
    if as_json:
        click.echo(json.dumps({"points": len(prepared.build.points), "jobs": prepared.status.counts()}))
    else:
        print_plan(prepared)


@cli.command()
@click.argument("key")
def show(key: str) -> None:
    """Show what a result is and from what it came."""
    from pipeline.printing import print_result

    print_result(find_project(Path.cwd()), key)


@cli.command()
@click.option("--unreachable", is_flag=True, help="Results that no named sweep reaches.")
@click.option("--intermediate", is_flag=True, help="Big results that nothing missing needs.")
@click.option("--yes", is_flag=True, help="Really delete; without it nothing is.")
@click.argument("overrides", nargs=-1)
def clean(unreachable: bool, intermediate: bool, yes: bool, overrides: tuple[str, ...]) -> None:
    """List, and with --yes delete, results that are not needed. Studies are never touched.

    A sweep that was run with overrides is reached by naming it with them:
    assay clean --unreachable sweep=emoji dataset.root=...
    """
    from pipeline.plan.cleaning import find_intermediate, find_unreachable, remove

    if unreachable == intermediate:
        raise AssayError("give one of --unreachable and --intermediate")
    project = find_project(Path.cwd())
    find = find_unreachable if unreachable else find_intermediate
    found = find(project, list(overrides))
    for note in found.notes:
        click.echo(note)
    for (stage, key), size in found.results.items():
        click.echo(f"{size / 1e6:10.1f} MB  {stage}/{key}")
    total = sum(found.results.values()) / 1e6
    if yes:
        remove(project, found)
    done = "deleted" if yes else "(dry run: --yes deletes them)"
    click.echo(f"{len(found.results)} results, {total:.1f} MB {done}")
    if bucket := os.environ.get(VARIABLE):
        click.echo(f"these are copies in {project.results}; nothing in {bucket} is deleted (docs/cluster.md)")


@cli.command()
def verify() -> None:
    """Hash every file of every result in results/; exit code 1 where one is damaged (it is moved aside).

    Of results in a bucket the sizes are compared; the contents are hashed when a run fetches them.
    """
    from pipeline.plan.shared import open_store

    project = find_project(Path.cwd())
    here, everywhere = Store(project), open_store(project)
    damaged = _verify(here, list(here.all()), "checked")
    if far := everywhere.shared():
        damaged += _verify(everywhere, far, f"of {everywhere.home} checked by their sizes")
    sys.exit(1 if damaged else 0)


def _verify(store: Store, results: Sequence[tuple[str, str]], how: str) -> int:
    """Move damaged results aside and say so; return how many there were."""
    damaged = {(s, k): damage for s, k in results if (damage := store.damage(s, k, thorough=True))}
    for (stage, key), damage in damaged.items():
        moved = store.quarantine(stage, key)
        click.echo(f"damaged: {stage}/{key}: {damage}; moved to {moved}; the next run rebuilds it")
    click.echo(f"{len(results)} results {how}, {len(damaged)} damaged")
    return len(damaged)


@cli.command()
@click.argument("kind", type=click.Choice(["code", "library"]))
@click.argument("stage")
@click.option("--undo", is_flag=True, help="Take the acceptance back.")
def accept(kind: str, stage: str, undo: bool) -> None:
    """Say that a change of code or of a library changes no result of STAGE, so nothing reruns."""
    from pipeline.plan.accepting import accept_changes, undo_changes

    project = find_project(Path.cwd())
    entries = undo_changes(project, stage, kind) if undo else accept_changes(project, stage, kind)
    for entry in entries:
        click.echo(
            f"{'undone' if undo else 'accepted'}: {entry.stage}: {entry.component} {entry.old} -> {entry.new}"
        )


for command in (*RATER_COMMANDS, *MTURK_COMMANDS, *PAIR_COMMANDS, attributes, config, inspect, report, sync):
    cli.add_command(command)


def _use_checkout(project: Project) -> None:
    """Run the project's own code, also where another checkout is the installed one."""
    code = project.root / "pipeline" / "cli.py"
    if project.root != CODE and code.is_file() and os.environ.get("ASSAY_CHECKOUT") != str(project.root):
        path = os.pathsep.join(filter(None, [str(project.root), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONPATH": path, "ASSAY_CHECKOUT": str(project.root)}
        os.execve(sys.executable, [sys.executable, "-m", "pipeline.cli", *sys.argv[1:]], environment)


def main() -> None:
    """Start `assay` in the nearest project folder."""
    with suppress(AssayError):  # outside a project, --help still helps
        _use_checkout(find_project(Path.cwd()))
    cli()


if __name__ == "__main__":
    main()
