"""From results files and the study that they answer to scores: what a notebook calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.crowd.aggregation import METHODS
from pipeline.crowd.rescoring import rescored
from pipeline.errors import AssayError

if TYPE_CHECKING:
    from pipeline.foreign.tasks import Foreign
    from pipeline.ingest.ingesting import Ingested

# Studies and results are read where they are needed: `import pipeline.crowd` stays light.


@dataclass(frozen=True)
class Part:
    """Draws over the same n_images images (name: dataset/model/layer/method), and (method, unit) without."""

    name: str
    draws: pd.DataFrame
    undrawn: pd.DataFrame
    n_images: int


def analyze(
    results: str | Path | Sequence[str | Path],
    study: str | Path,
    aggregation: str = "bragg_siglip",
    *,
    error_rate: float | None = None,
    prior: float | pd.DataFrame | None = None,
    mapping: str | Path | Mapping[str, Any] | None = None,
    part: str | None = None,
) -> dict[str, dict[int, float]]:
    """Return each unit's score by method, {method: {unit: score}}: what the scoring stage computes.

    results: one or several files of ratings, of any format that `assay ingest` reads. study: a folder
    studies/<id>, or a tasks CSV with activations (and, for bragg_siglip, probabilities) whose column
    names `mapping` (a YAML file, or its content) gives where they are not the standard ones.
    aggregation: avg, majority, bragg_uniform or bragg_siglip; error_rate and prior as `aggregate`
    takes them, bragg_siglip's prior being the study's probabilities unless given. part: one of the
    study's parts, dataset/model/layer/method; needed where two have a (method, unit) in common. NaN
    where a unit has no score. Raises AssayError for what cannot be read, scored or told apart.
    """
    if aggregation not in METHODS:
        raise AssayError(f"unknown aggregation {aggregation!r}; known: {', '.join(METHODS)}")
    paths = [Path(results)] if isinstance(results, str | Path) else [Path(path) for path in results]
    names = Path(mapping) if isinstance(mapping, str) else mapping
    ingested, parts = (_frozen if Path(study).is_dir() else _foreign)(paths, Path(study), names)
    tables = [
        _with_undrawn(
            rescored(
                one.draws, ingested.ratings, one.n_images, aggregation, error_rate=error_rate, prior=prior
            ).table,
            one,
        )
        for one in _chosen(parts, part, study)
    ]
    return _by_method(tables)


def ingest_foreign(results: Iterable[Path], foreign: "Foreign", *, n_raters: int = 3) -> "Ingested":
    """Return the ratings in files that answer a tasks CSV of another project."""
    from pipeline.foreign.renaming import with_standard_names
    from pipeline.ingest.ingesting import ingest

    with TemporaryDirectory() as folder:
        known = with_standard_names(list(results), foreign.columns, foreign.answer, Path(folder))
        return ingest(known, foreign.asked, n_raters=n_raters, keep_hit_ids=foreign.hit_ids)


def _frozen(
    paths: Sequence[Path], folder: Path, mapping: Path | Mapping[str, Any] | None
) -> tuple["Ingested", list[Part]]:
    from pipeline.files import read_json
    from pipeline.ingest.ingesting import ingest
    from pipeline.mturk.state import read_hits
    from pipeline.study.frozen import open_study

    if mapping is not None:
        raise AssayError(f"{folder} is a study of assay's own: its names are known, leave the mapping out")
    study = open_study(folder.resolve().parent, folder.resolve().name)
    places = (read_hits(study, place) for place in ("sandbox", "production"))
    hits = {hit.hit_id: task for place in places for task, hit in place.items()}
    ingested = ingest(paths, study.asked, n_raters=study.settings.n_raters, keep_hit_ids=hits)
    facts = read_json(study.folder / "facts.json")["parts"]
    undrawn = pd.read_parquet(study.folder / "undrawn.parquet")
    draws = study.draws
    return ingested, [
        Part(name, draws[draws["part"] == name], undrawn[undrawn["part"] == name], one["n_images"])
        for name, one in facts.items()
    ]


def _foreign(
    paths: Sequence[Path], tasks: Path, mapping: Path | Mapping[str, Any] | None
) -> tuple["Ingested", list[Part]]:
    from pipeline.foreign.tasks import read_foreign

    foreign = read_foreign(tasks, mapping)
    if "activation" not in foreign.draws:
        raise AssayError(
            f"{tasks} has no activations (columns activation{{j}}, or the mapping's `activation: ...`), and "
            "a score needs them: standardised over all images"
        )
    undrawn = foreign.draws.head(0)[["method", "unit"]]
    return ingest_foreign(paths, foreign), [Part("", foreign.draws, undrawn, foreign.n_images)]


def _chosen(parts: Sequence[Part], name: str | None, study: str | Path) -> Sequence[Part]:
    if name is not None:
        chosen = [part for part in parts if part.name == name]
        if not chosen:
            raise AssayError(
                f"{study} has no part {name!r}; it has {', '.join(p.name for p in parts if p.name) or 'none'}"
            )
        return chosen
    held: dict[tuple[str, int], Part] = {}
    for part in parts:
        for table in (part.draws, part.undrawn):
            for key in table[["method", "unit"]].drop_duplicates().itertuples(index=False, name=None):
                if (other := held.setdefault(key, part)) is not part:
                    raise AssayError(
                        f"unit {key[1]} of {key[0]} is in two parts of {study}: give part={other.name!r} or "
                        f"part={part.name!r}"
                    )
    return parts


def _with_undrawn(scores: pd.DataFrame, part: Part) -> pd.DataFrame:
    """Return method, unit, description, estimate: NaN for a unit that was not drawn; blank without a text."""
    columns = ["method", "unit", "description", "estimate"]
    texts = part.undrawn.get("description", pd.Series("", part.undrawn.index, dtype="str")).fillna("")
    without = part.undrawn[["method", "unit"]].assign(description=texts, estimate=float("nan"))
    return pd.concat([scores[columns], without]) if len(without) else scores[columns]


def _by_method(tables: Iterable[pd.DataFrame]) -> dict[str, dict[int, float]]:
    scores: dict[str, dict[int, float]] = {}
    texts: dict[tuple[str, int], str] = {}
    for method, unit, text, estimate in pd.concat(tables).itertuples(index=False):
        if (other := texts.setdefault((method, unit), text)) != text:
            raise AssayError(
                f"unit {unit} of {method} has two texts, {other!r} and {text!r}; split the study into one "
                "file each"
            )
        scores.setdefault(method, {})[int(unit)] = float(estimate)
    return scores
