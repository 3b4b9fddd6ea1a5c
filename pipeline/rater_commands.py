"""`assay ...` for studies that people rate: freeze, cost, ingest, rate, host, reproduce."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.plan.project import find_project

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipeline.study.frozen import FrozenStudy

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
STUDY = click.option("--study", "name", required=True, help="A folder under studies/.")


def open_named(name: str) -> "FrozenStudy":
    """Open `studies/<name>` of the project that we are in; AssayError where it is not as it was frozen."""
    from pipeline.study.frozen import open_study, require_as_frozen

    study = open_study(find_project(Path.cwd()).studies, name)
    require_as_frozen(study)
    return study


def report_ingested(study: "FrozenStudy", files: Sequence[Path]) -> None:
    """Ingest files, and what the rating page holds; print the summary."""
    from pipeline.ingest.ingesting import ingest_into
    from pipeline.rating.export import STORE, export_ratings
    from pipeline.studies import PAGE_RATINGS

    kept = study.folder / "ingested"
    if (study.folder / STORE).is_file():
        kept.mkdir(exist_ok=True)
        export_ratings(study.folder, kept / PAGE_RATINGS)
    if not files and not kept.is_dir():
        raise AssayError(f"give the files to read: assay ingest FILE... --study {study.name}")
    result = ingest_into(study.folder, files)
    click.echo(result.summary, nl=False)
    notes = [*result.notes]
    if (study.folder / STORE).is_file():
        notes.append("a rating page that is running counts ratings from elsewhere once it is started anew")
    for note in notes:
        click.echo(f"note: {note}")


@click.group()
def study() -> None:
    """Freeze what people are asked to rate, or add to it."""


@study.command()
@click.argument("name")
@click.argument("overrides", nargs=-1, required=True)
def freeze(name: str, overrides: tuple[str, ...]) -> None:
    """Copy a sweep's draws to studies/NAME: assay study freeze NAME sweep=... [key=value ...]."""
    from pipeline.studies import freeze_study
    from pipeline.sweep_reading import prepare_sweep

    _say_frozen(freeze_study(prepare_sweep(overrides), name))


@study.command()
@click.argument("name")
@click.argument("overrides", nargs=-1, required=True)
@click.option("--from", "old", required=True, help="The study that is extended; it stays as it is.")
def extend(name: str, overrides: tuple[str, ...], old: str) -> None:
    """Write studies/NAME: the study OLD whole, and the methods or units that the sweep adds to it."""
    from pipeline.studies import extend_study
    from pipeline.sweep_reading import prepare_sweep

    _say_frozen(extend_study(prepare_sweep(overrides), old, name))


def _say_frozen(folder: Path) -> None:
    from pipeline.study.frozen import FrozenStudy

    frozen = FrozenStudy(folder)
    click.echo(f"frozen: {folder}: {len(frozen.inputs)} inputs in {len(frozen.tasks)} tasks")
    click.echo(f"next: assay cost --study {frozen.name}, then assay rate or assay publish, or upload")
    click.echo(f"tasks.csv with task.html; then assay ingest FILE... --study {frozen.name}")


@click.command()
@STUDY
@click.option("--plan", is_flag=True, help="From its ratings: what other designs and budgets would give.")
@click.option(
    "--width", type=click.FloatRange(min=0, min_open=True), help="With --plan: the interval wanted."
)
def cost(name: str, plan: bool, width: float | None) -> None:
    """Print what a study will cost on MTurk, fees included, and what other budgets would give.

    With --plan the study is taken as a pilot: from what its raters said, the error and the interval to
    expect of other samplers, aggregations, numbers of images and raters, with their cost.
    """
    from pipeline.report.cost_text import cost_text
    from pipeline.report.plan_text import plan_text
    from pipeline.study.tasks import EDITS

    frozen = open_named(name)
    if plan or width is not None:
        if (frozen.draws["part"] == EDITS).all():
            raise AssayError(f"{name} asks about edited images: it has no scores to plan; leave out --plan")
        click.echo(plan_text(frozen.draws, _ratings_of(frozen), frozen.settings, width), nl=False)
        return
    click.echo(cost_text(frozen.draws, frozen.inputs, len(frozen.tasks), frozen.settings))


def _ratings_of(frozen: "FrozenStudy") -> "DataFrame":
    import pandas as pd

    path = frozen.folder / "ratings.parquet"
    if not path.is_file():
        raise AssayError(
            f"{path} is not there: a plan needs ratings; assay ingest FILE --study {frozen.name}"
        )
    return pd.read_parquet(path)


@click.command()
@click.argument("files", nargs=-1, type=FILE)
@click.option("--study", "name", required=True, help="A folder under studies/, or a tasks CSV of others.")
@click.option("--mapping", type=FILE, help="YAML: the names of that CSV's columns (docs/raters.md).")
def ingest(files: tuple[Path, ...], name: str, mapping: Path | None) -> None:
    """Read what raters answered: MTurk, Turkle or Label Studio exports, or a table of ratings.

    Every file is kept in studies/NAME/ingested/, and ratings are made anew from all of them and from
    what the rating page holds: giving a file twice changes nothing. For a tasks CSV of others, ratings
    go into a folder beside it.
    """
    if name.lower().endswith(".csv"):
        _ingest_foreign(files, Path(name), mapping)
    else:
        report_ingested(open_named(name), files)


def _ingest_foreign(files: tuple[Path, ...], tasks: Path, mapping: Path | None) -> None:
    from pipeline.crowd.analysis import ingest_foreign
    from pipeline.foreign.tasks import read_foreign

    result = ingest_foreign(files, read_foreign(tasks, mapping))
    folder = tasks.with_name(f"{tasks.stem}-ratings")
    for name, table in (("ratings", result.ratings), ("rejected", result.rejected)):
        with replacing(folder / f"{name}.parquet") as temporary:
            table.to_parquet(temporary, index=False)
    with replacing(folder / "summary.txt") as temporary:
        temporary.write_text(result.summary, encoding="utf-8")
    click.echo(result.summary, nl=False)
    click.echo(f"ratings.parquet, rejected.parquet and summary.txt: {folder}")


@click.command()
@STUDY
@click.option("--port", default=8765, show_default=True, type=click.IntRange(1, 65535))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--raters", default=3, show_default=True, type=click.IntRange(1, 10_000), help="Links to have.")
@click.option("--address", help="What links begin with, where a proxy stands in front (https://...).")
@click.option("--export", type=FILE, help="Write the ratings to this CSV and end.")
def rate(name: str, port: int, host: str, raters: int, address: str | None, export: Path | None) -> None:
    """Serve the rating page: one link per rater, and one for the owner."""
    from pipeline.rating.export import export_ratings
    from pipeline.rating.server import serve

    folder = open_named(name).folder
    if export is not None:
        click.echo(f"{export_ratings(folder, export)} ratings: {export}")
        return
    serve(folder, host=host, port=port, raters=raters, address=address)


@click.command()
@STUDY
@click.option("--export", "folder", type=FOLDER, help="Write the images here, as they must be uploaded.")
@click.option("--check", is_flag=True, help="Ask every address; exit code 1 where one does not answer.")
@click.option("--base-url", help="New addresses: https://.../{file}; also {path}, {synset}, {image_id}.")
def host(name: str, folder: Path | None, check: bool, base_url: str | None) -> None:
    """Put a study's images on the web: what to upload, and whether every address answers."""
    if folder is None and not check and base_url is None:
        raise AssayError("say what to do: --export DIR, --check or --base-url TEMPLATE")
    if base_url is not None:
        from pipeline.study.writing import write_urls

        write_urls(open_named(name), base_url)
        click.echo(
            "images.csv, tasks.csv and label_studio.json have the new addresses; tasks that are at MTurk"
        )
        click.echo("keep the old ones")
    if folder is not None:
        from pipeline.study.image_export import export_images

        n_files = export_images(open_named(name), folder)
        click.echo(
            f"{n_files} images and images.csv in {folder}: upload them, then "
            f"assay host --study {name} --check"
        )
    if check:
        _check_addresses(open_named(name))


def _check_addresses(study: "FrozenStudy") -> None:
    from pipeline.study.hosting_check import check_urls

    bad = check_urls(study)
    for one in bad:
        click.echo(f"{one.url}: {one.reason} (image {one.image_id})")
    click.echo(f"{study.images.table['url'].nunique()} addresses, {len(bad)} without their image")
    if bad:
        sys.exit(1)


@click.group()
def reproduce() -> None:
    """Score other people's shipped ratings anew."""


@reproduce.command()
@click.option("--root", type=FOLDER, required=True, help="The authors' folder, which has mturk/.")
@click.option(
    "--activations",
    multiple=True,
    metavar="[PATTERN=]PATH",
    help="A .npy (images x units) or results/activations/KEY; several by PATTERN of the tasks' file names.",
)
@click.option("--probabilities", multiple=True, type=FOLDER, help="results/probabilities/KEY; repeatable.")
@click.option("--images", type=click.Path(path_type=Path), help="images.parquet or results/images/KEY.")
@click.option("--mapping", type=FILE, help="YAML: the names of the tasks' columns (docs/raters.md).")
@click.option("--aggregation", "aggregations", multiple=True, help="Repeatable.  [default: the paper's four]")
@click.option("--scores", type=FILE, help="Write the score of every unit to this CSV.")
def crowd(
    root: Path,
    activations: tuple[str, ...],
    probabilities: tuple[Path, ...],
    images: Path | None,
    mapping: Path | None,
    aggregations: tuple[str, ...],
    scores: Path | None,
) -> None:
    """Rescore the mturk/{test,large_scale}/{inputs,outputs} of "Beyond Top Activations"."""
    from pipeline.crowd.aggregation import PAPER_METHODS
    from pipeline.formulas import neutral_table
    from pipeline.reproduce import reproduce as rescore

    parted = (text.rpartition("=") for text in activations)
    result = rescore(
        root,
        activations={pattern or "*": Path(path) for pattern, _, path in parted},
        probabilities=probabilities,
        images=images,
        mapping=mapping,
        aggregations=aggregations or PAPER_METHODS,
    )
    click.echo(result.text(), nl=False)
    if scores is not None:
        with replacing(scores) as temporary:
            neutral_table(result.scores).to_csv(temporary, index=False)


COMMANDS = (study, cost, ingest, rate, host, reproduce)
