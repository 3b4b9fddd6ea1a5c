"""`assay pairs ...`: pairs of your own, checked by a classifier and by people."""

from collections import Counter
from pathlib import Path

import click

from pipeline.errors import AssayError

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
STUDY = click.option("--study", "name", required=True, help="A folder under studies/.")


@click.group()
def pairs() -> None:
    """Make pairs of edited images, and check them by a classifier and by people."""


@pairs.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--out", "root", type=FOLDER, required=True, help="A new folder, for pairs=edited pairs.root=..."
)
@click.option("--attributes", type=FILE, help="The attributes that may be named, one a line.  [default: all]")
@click.option("--keep-other-size", is_flag=True, help="Keep pairs whose two images differ in size.")
def make(folder: Path, root: Path, attributes: Path | None, keep_other_size: bool) -> None:
    """Turn edited images into a data set of pairs; the edits themselves are made elsewhere.

    FOLDER has a metadata.csv with the columns before, after, removed and added, or one subfolder a change,
    such as removed=red,added=blue, with the images in before/ and after/ under equal names.
    """
    from pipeline.pairs.editing import LEFT_OUT, make_pairs, read_attributes

    names = read_attributes(attributes) if attributes else []
    found = make_pairs(folder, root, attributes=names, other_size="keep" if keep_other_size else "skip")
    click.echo(f"{len(found.table)} pairs of {len(found.manifest.table)} images: {root}")
    for note in found.notes:
        click.echo(f"note: {note}")
    if len(found.skipped):
        click.echo(f"{len(found.skipped)} pairs were left out: {root / LEFT_OUT}")
    click.echo(f"next: assay pairs check {root} sweep=..., assay pairs ask {root} --study NAME")


@pairs.command()
@click.argument("root", type=FOLDER)
@click.argument("overrides", nargs=-1, required=True)
@click.option(
    "--odds", default=2.0, show_default=True, type=click.FloatRange(1), help="The least change of the odds."
)
def check(root: Path, overrides: tuple[str, ...], odds: float) -> None:
    """Ask the probe of a sweep whether each change shows: assay pairs check ROOT sweep=... [key=value].

    ROOT/pairs.csv gets each change's probability before and after, and classifier: yes where the odds of
    what is added at least double and those of what is removed at least halve.
    """
    from pipeline.pair_studies import check_pairs
    from pipeline.sweep_reading import prepare_sweep

    table = check_pairs(root, prepare_sweep(overrides), odds)
    said = Counter(table["classifier"])
    click.echo(f"the classifier sees the change in {said['yes']} pairs and not in {said['no']}")
    for reason, n in Counter(table.loc[table["reason"] != "", "reason"]).items():
        click.echo(f"note: pairs without a verdict, {reason}: {n}")


@pairs.command()
@click.argument("root", type=FOLDER)
@STUDY
@click.option("--before", is_flag=True, help="Ask about the before images too.")
@click.option("--texts", type=FILE, help="CSV (attribute, text): how people read an attribute.")
@click.option("--raters", default=3, show_default=True, type=click.IntRange(1), help="Answers to a question.")
@click.option("--inputs-per-task", default=15, show_default=True, type=click.IntRange(2, 100))
@click.option(
    "--reward", default=0.06, show_default=True, type=click.FloatRange(0.01), help="US dollars a task."
)
@click.option("--base-url", help="Where people find the images (docs/raters.md); not for the rating page.")
def ask(
    root: Path,
    name: str,
    before: bool,
    texts: Path | None,
    raters: int,
    inputs_per_task: int,
    reward: float,
    base_url: str | None,
) -> None:
    """Write studies/NAME, which asks people whether each changed attribute shows in the images."""
    from pipeline.pair_studies import ask_people
    from pipeline.plan.project import find_project
    from pipeline.study.cost import bill
    from pipeline.study.settings import StudySettings

    settings = StudySettings(inputs_per_task, raters, reward, base_url)
    studies = find_project(Path.cwd()).studies
    study = ask_people(root, studies, name, settings, before=before, texts=_texts(texts))
    cost = bill(len(study.tasks), raters, reward)
    click.echo(f"frozen: {study.folder}: {len(study.inputs)} questions in {len(study.tasks)} tasks")
    click.echo(f"{cost.n_assignments} assignments; on MTurk ${cost.total} with its fee")
    click.echo(
        f"next: assay rate or assay publish, assay ingest, then assay pairs judge {root} --study {name}"
    )


@pairs.command()
@click.argument("root", type=FOLDER)
@STUDY
def judge(root: Path, name: str) -> None:
    """Read what people answered into ROOT/pairs.csv: accepted is yes, no, or blank where they are divided.

    pairs=edited then uses the accepted pairs alone.
    """
    from pipeline.pair_studies import judge_pairs
    from pipeline.rater_commands import open_named

    counts = judge_pairs(root, open_named(name))
    click.echo(", ".join(f"{n} {what}" for what, n in counts.items()))


def _texts(path: Path | None) -> dict[str, str]:
    from pipeline.datasets.rows import read_sheet

    if path is None:
        return {}
    if not path.is_file():
        raise AssayError(f"--texts {path}: no such file")
    rows = read_sheet(path, ("attribute", "text")).rows
    return {row.values["attribute"]: row.values["text"] for row in rows}


COMMANDS = (pairs,)
