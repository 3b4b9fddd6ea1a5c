"""`assay report`: the page of a finished sweep."""

from pathlib import Path

import click

from pipeline.completion import Overrides
from pipeline.errors import AssayError
from pipeline.plan.project import find_project

BEFORE = ("report", "tracking")
"""Stages that may be missing when a report is asked for."""


@click.command()
@click.argument("overrides", nargs=-1, required=True, type=Overrides())
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
def report(overrides: tuple[str, ...], open_it: bool) -> None:
    """Say where the report of a finished sweep is: assay report sweep=NAME [key=value ...]."""
    from pipeline.running import run_sweep
    from pipeline.sweep_reading import prepare_sweep, read_sweep

    project = find_project(Path.cwd())
    prepared = prepare_sweep(overrides)
    if lacking := [stage for stage, _ in prepared.status.to_run if stage not in BEFORE]:
        raise AssayError(
            f"{len(lacking)} results of this sweep are not there (first: {lacking[0]}); "
            f"assay run {' '.join(overrides)} makes them, and the report with them"
        )
    if prepared.status.to_run and (code := run_sweep(project, read_sweep(overrides), None, False, "default")):
        raise SystemExit(code)
    page = prepared.store.folder("report", prepared.build.sweep_keys["report"]) / "report.html"
    click.echo(page)
    if open_it:
        click.launch(page.as_uri())
