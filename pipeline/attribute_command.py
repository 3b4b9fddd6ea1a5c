"""`assay attributes`: pages that show what the latents of each attribute fire on."""

from collections.abc import Sequence
from pathlib import Path

import click

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.plan.project import Project, find_project

FOLDER = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command()
@click.argument("key")
@click.option(
    "--attribute", "names", multiple=True, metavar="NAME", help="Only this one's page; may be repeated."
)
@click.option("--out", type=FOLDER, help="Where to write.  [default: results/pages/matching-KEY]")
@click.option("--root", type=EXISTING, help="The dataset's folder.  [default: dataset.root of the last run]")
@click.option("--pairs-root", type=EXISTING, help="The pairs' folder.  [default: pairs.root of the last run]")
def attributes(
    key: str, names: tuple[str, ...], out: Path | None, root: Path | None, pairs_root: Path | None
) -> None:
    """Write a page for each attribute of a matching result, and index.html.

    KEY is the result's key, or its beginning: the column matching_key of a sweep's points.csv.
    """
    project = find_project(Path.cwd())
    folder, n_pages = write_pages(project, key, names, out, root, pairs_root)
    click.echo(f"{n_pages} {'page' if n_pages == 1 else 'pages'}: {folder / 'index.html'}")


def write_pages(
    project: Project,
    key: str,
    names: Sequence[str] = (),
    out: Path | None = None,
    root: Path | None = None,
    pairs_root: Path | None = None,
) -> tuple[Path, int]:
    """Write index.html and a page for each attribute, or for those with one of `names`.

    Returns the folder and the number of pages. Raises AssayError for an attribute that the result does not
    have, a key that is no matching result's, and images that are gone or changed.
    """
    from tqdm import tqdm

    from pipeline.attribute_results import MatchingResult
    from pipeline.attribute_views import Views
    from pipeline.report.attribute_page import attribute_page, index_page, page_name

    result = MatchingResult(project, key, root, pairs_root)
    known = result.attributes["name"].astype(str).tolist()
    columns = _columns(known, names, result.key)
    pages = {column: page_name(column, known[column]) for column in columns}
    views = Views(result)
    about, rows = views.about(), views.rows(pages)
    folder = out or project.results / "pages" / f"matching-{result.key}"
    for column in tqdm(columns, desc="attribute pages", unit="page", disable=None):
        _write(folder / pages[column], attribute_page(views.view(column, rows[column]), about))
    _write(folder / "index.html", index_page(rows, about))
    return folder, len(columns)


def _columns(known: Sequence[str], names: Sequence[str], key: str) -> list[int]:
    """Return the columns of the named attributes, of all where none is named."""
    from pipeline.datasets.nearest import did_you_mean

    for name in names:
        if name not in known:
            raise AssayError(
                f"matching/{key} has no attribute {name!r}{did_you_mean(name, known)}; "
                f"its {len(known)} attributes are in results/matching/{key}/attributes.parquet"
            )
    return [column for column, name in enumerate(known) if not names or name in names]


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
