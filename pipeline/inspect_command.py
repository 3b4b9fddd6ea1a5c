"""`assay inspect`: what a unit responds to, what methods say of it, and how they score."""

from collections.abc import Sequence
from pathlib import Path

import click

from pipeline.files import replacing
from pipeline.plan.project import Project, find_project

FOLDER = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)
UNIT = click.IntRange(min=0)


@click.command()
@click.argument("key")
@click.option("--unit", "units", multiple=True, type=UNIT, metavar="K", help="From 0; may be repeated.")
@click.option("--out", type=FOLDER, help="Where to write.  [default: results/pages/units-KEY]")
@click.option("--root", type=EXISTING, help="The dataset's folder.  [default: dataset.root of the last run]")
@click.option("--png", is_flag=True, help="One picture a unit instead of a page.")
def inspect(key: str, units: tuple[int, ...], out: Path | None, root: Path | None, png: bool) -> None:
    """Write a page for each unit: its images, its texts by method, and their scores.

    KEY is the key, or its beginning, of a result of units, explanations or scoring: the columns units_key,
    explanations_key and scoring_key of a sweep's points.csv. Texts and scores are those of all results in
    the store that come of the same units.
    """
    written = write_units(find_project(Path.cwd()), key, units, out, root, png=png)
    for path in written[:1] if written[0].name == "index.html" else written:
        click.echo(path)


def write_units(
    project: Project,
    key: str,
    units: Sequence[int],
    out: Path | None = None,
    root: Path | None = None,
    *,
    png: bool = False,
) -> list[Path]:
    """Write a page for each of the units, and before them index.html where they are several; or pictures.

    Returns the files. Raises AssayError without a unit, naming judged ones, for a unit that the layer does
    not have, a key of which no units come, and images that are gone or changed.
    """
    from tqdm import tqdm

    from pipeline.inspect_results import UnitsResult
    from pipeline.inspect_views import UnitViews
    from pipeline.report.unit_page import index_page, page_name, unit_page
    from pipeline.report.unit_sheet import unit_sheet

    result = UnitsResult(project, key, root)
    views = UnitViews(result)
    distinct = list(dict.fromkeys(units))
    views.require(distinct)
    folder = out or project.results / "pages" / f"units-{result.key}"
    about = views.about(index=len(distinct) > 1 and not png)
    written, made = [], []
    for unit in tqdm(distinct, desc="units", unit="unit", disable=None):
        view = views.view(unit)
        made.append(view)
        path = folder / page_name(unit, ".png" if png else ".html")
        if png:
            unit_sheet(view, about, views.images(view), path)
        else:
            _write(path, unit_page(view, about))
        written.append(path)
    if about.index:
        _write(folder / "index.html", index_page(made, about))
        written.insert(0, folder / "index.html")
    return written


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
