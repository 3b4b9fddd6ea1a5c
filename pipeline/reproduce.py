"""Score anew what the authors of "Beyond Top Activations" (arXiv 2506.07985) had people rate."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.crowd.aggregation import METHODS, PAIR, PAPER_METHODS
from pipeline.crowd.rescoring import rescored
from pipeline.errors import AssayError
from pipeline.foreign.arrays import (
    drawn_activations,
    drawn_probabilities,
    image_rows,
    share_of_fitting_weights,
)
from pipeline.foreign.batch_set import BatchSet, read_batch_set
from pipeline.foreign.naming import read_naming
from pipeline.foreign.tasks import Foreign
from pipeline.ingest.ingesting import Ingested
from pipeline.ingest.summary import reason_kind

SETS = ("test", "large_scale")
UNIT = ["part", "method", "unit", "description"]
# The paper's automatic evaluation, one concept a unit: RN50 layer4 / ViT-B/16 layer 11. "?": may be
# swapped with another one in its source.
PAPER = {
    "lesiglip": "0.2413 / 0.2968",
    "lelabel": "0.1793 / 0.2704",
    "invert": "0.1904 / 0.1849",
    "clipdissect": "0.1242 / 0.0335 ?",
    "dnd": "0.1867 / 0.1343",
    "maia": "0.1534 / 0.1049",
    "milan": "0.0920 / 0.0194 ?",
}
PAPER_COLUMN = "paper, automatic (RN50 / ViT)"
PAPER_DRAWS, PAPER_RATERS = 180, 3
COLUMNS = (
    *(
        "set",
        "part",
        "aggregation",
        "method",
        "units",
        "unscored",
        "incomplete",
        "mean",
        "ratings",
        "rejected",
    ),
    PAPER_COLUMN,
)
SAME_WEIGHT = 1e-6
FITTING = 0.5
HOW_TO = (
    "`assay run sweep=paper_crowd dataset.root=/path/to/imagenet_val` makes them; the column {0}_key of "
    "results/sweeps/paper_crowd/latest/points.csv names the KEY of results/{0}/KEY"
)


@dataclass(frozen=True)
class Arrays:
    """Where activations and probabilities come from that the tasks do not have.

    activations: by a pattern of the tasks' file names, a .npy (N, U) or a folder with one.
    probabilities: folders with probabilities.npy (N, T) and texts.parquet. images: see `image_rows`.
    """

    activations: Mapping[str, Path] = field(default_factory=dict)
    probabilities: Sequence[Path] = ()
    images: Path | None = None


@dataclass(frozen=True)
class Reproduced:
    """What came of the authors' files.

    table: set, part, aggregation, method, units (with a score), unscored, incomplete (some draws have no
    rating), mean, ratings (used), rejected (of this method's inputs), and the paper's figure. scores: the
    scoring table with set, part and aggregation. files: set, folder, file, fate: every file.
    """

    table: pd.DataFrame
    scores: pd.DataFrame
    files: pd.DataFrame
    notes: tuple[str, ...]

    def text(self) -> str:
        """Return it as a page: files, table, notes."""
        table = self.table.drop(columns="part") if (self.table["part"] == "").all() else self.table
        files = (f"{one.set}/{one.folder}/{one.file}: {one.fate}" for one in self.files.itertuples())
        blocks = ["\n".join(files), table.to_string(index=False, float_format="%.4f"), "\n".join(self.notes)]
        return "\n\n".join(block for block in blocks if block) + "\n"


def reproduce(
    root: Path,
    *,
    activations: Mapping[str, Path] | Path | None = None,
    probabilities: Sequence[Path] | Path | None = None,
    images: Path | None = None,
    mapping: Path | Mapping[str, Any] | None = None,
    aggregations: Sequence[str] = PAPER_METHODS,
) -> Reproduced:
    """Rescore ROOT/mturk/{test,large_scale}/{inputs,outputs} under each aggregation.

    inputs/ holds tasks CSVs, outputs/ what MTurk gave back. activations: where the tasks have none, a
    .npy (N, U), a folder results/activations/KEY, or several by pattern of the tasks' file names, each
    a part. probabilities: folders results/probabilities/KEY, for bragg_siglip where the tasks have none.
    An image is a row number, or an image id of `images`. mapping: the tasks' column names, see
    `read_naming`. A unit's draws in several files are scored together, unless these give one image two
    weights: then each file is a part. Raises AssayError where nothing can be scored.
    """
    if unknown := [name for name in aggregations if name not in METHODS]:
        raise AssayError(f"unknown aggregation {unknown[0]!r}; known: {', '.join(METHODS)}")
    given = Arrays(
        {"*": activations} if isinstance(activations, Path) else activations or {},
        [probabilities] if isinstance(probabilities, Path) else probabilities or (),
        images,
    )
    base, n_images = _base(root), read_naming(mapping).n_images
    sets = [read_batch_set(base / name, mapping) for name in SETS if (base / name).is_dir()]
    done = [_rescored(batch, given, n_images, aggregations) for batch in sets]
    files = pd.concat([batch.files.assign(set=batch.name) for batch in sets], ignore_index=True)
    notes = [*_absent(base), *_strangers(base), *(note for _, _, own in done for note in own)]
    tables = [table for table, _, _ in done if len(table)]
    if not tables:
        listed = [f"{one.set}/{one.folder}/{one.file}: {one.fate}" for one in files.itertuples()]
        raise AssayError("\n".join([f"nothing to score in {base}", *listed, *notes]))
    table, scores = (pd.concat(own, ignore_index=True) for own in (tables, [s for _, s, _ in done if len(s)]))
    return Reproduced(table, scores, files[["set", "folder", "file", "fate"]], tuple(notes))


def _base(root: Path) -> Path:
    for base in (root / "mturk", root):
        if any((base / name).is_dir() for name in SETS):
            return base
    raise AssayError(f"{root / 'mturk'} has neither {' nor '.join(SETS)}: --root is the authors' folder")


def _absent(base: Path) -> Iterator[str]:
    for folder in (base / name / part for name in SETS for part in ("inputs", "outputs")):
        if not folder.is_dir():
            yield f"missing: {folder}"


def _strangers(base: Path) -> Iterator[str]:
    for folder, known in ((base, SETS), *((base / name, ("inputs", "outputs")) for name in SETS)):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name not in known:
                yield f"not read: {path} ({' and '.join(known)} are)"


def _rescored(
    batch: BatchSet, given: Arrays, n_images: int, aggregations: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return a set's table, scores and notes."""
    if batch.ingested is None or batch.ingested.ratings.empty:
        return pd.DataFrame(), pd.DataFrame(), [f"{batch.name}: no rating of its tasks, so nothing to score"]
    draws, notes = _with_arrays(_joined(batch.tasks, tuple(given.activations)), given, n_images)
    notes = [*_described(draws, batch.ingested), *notes]
    tables, scores = [], []
    for aggregation in aggregations:
        own, missing = _scorable(draws, aggregation)
        notes += missing
        for part, rows in own.groupby("part", sort=False):
            place = {"set": batch.name, "part": part, "aggregation": aggregation}
            found = rescored(rows, batch.ingested.ratings, n_images, aggregation)
            scored = found.table.assign(**place)
            scores.append(scored)
            tables.append(_by_method(scored, rows, batch.ingested).assign(**place)[list(COLUMNS)])
    named = [f"{batch.name}: {note}" for note in notes]
    if not tables:
        return pd.DataFrame(), pd.DataFrame(), named
    return pd.concat(tables, ignore_index=True), pd.concat(scores, ignore_index=True), named


def _joined(tasks: Mapping[str, Foreign], patterns: Sequence[str]) -> pd.DataFrame:
    """Return all draws with file, pattern (of the activations; "" for none) and part."""
    draws = pd.concat(
        [
            foreign.draws.assign(file=name, pattern=_pattern(name, patterns))
            for name, foreign in tasks.items()
        ],
        ignore_index=True,
    )
    draws["part"] = draws["pattern"].replace("*", "")
    weights = draws.groupby([*UNIT, "image_id"])["weight"].agg(["min", "max"]).reset_index()
    differing = weights.loc[weights["max"] > weights["min"] * (1 + SAME_WEIGHT), UNIT]
    apart = pd.MultiIndex.from_frame(draws[UNIT]).isin(pd.MultiIndex.from_frame(differing))
    return draws.assign(part=draws["part"].where(~apart, draws["file"]))


def _pattern(name: str, patterns: Sequence[str]) -> str:
    return next((pattern for pattern in patterns if fnmatch(name, pattern)), "")


def _with_arrays(draws: pd.DataFrame, given: Arrays, n_images: int) -> tuple[pd.DataFrame, list[str]]:
    """Fill activations and probabilities that the tasks do not have; AssayError without activations."""
    draws = draws.reindex(columns=[*draws.columns.union(["activation", "probability"], sort=False)])
    inactive = draws["activation"].isna()
    unjudged = draws["probability"].isna() & bool(given.probabilities)
    for pattern, own in draws[inactive].groupby("pattern", sort=False):
        if pattern not in given.activations:
            raise _no_activations(own["file"].iloc[0], given)
    if not (inactive | unjudged).any():
        return draws, []
    rows = image_rows(draws.loc[inactive | unjudged, "image_id"], n_images, given.images)
    if unjudged.any():
        draws.loc[unjudged, "probability"] = drawn_probabilities(
            draws[unjudged], rows, given.probabilities, n_images
        )
    notes = []
    for pattern, own in draws[inactive].groupby("pattern", sort=False):
        path = given.activations[str(pattern)]
        draws.loc[own.index, "activation"] = drawn_activations(own, rows, path, n_images)
        notes += _fit_note(own[unjudged[own.index]], rows, path, given, n_images)
    return draws, notes


def _no_activations(file: str, given: Arrays) -> AssayError:
    if given.activations:
        patterns = ", ".join(given.activations)
        return AssayError(f"no activations for {file}: no pattern of --activations fits it ({patterns})")
    return AssayError(
        f"{file} has no activations (columns activation{{j}}, or the mapping's `activation: ...`): give "
        f"--activations PATH, a .npy (images x units) or a result of the activations stage. "
        f"{HOW_TO.format('activations')}"
    )


def _fit_note(
    draws: pd.DataFrame, rows: Mapping[str, int], path: Path, given: Arrays, n_images: int
) -> list[str]:
    share = share_of_fitting_weights(draws, rows, path, given.probabilities, n_images)
    if isnan(share):
        return []
    doubt = (
        "" if share > FITTING else ". The images may be in another order than the authors': check --images"
    )
    return [f"{share:.0%} of draws have the weight that MG-IS gives with these arrays, within 10%{doubt}"]


def _scorable(draws: pd.DataFrame, aggregation: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the draws of units that the aggregation can score, and a note on the others."""
    if aggregation != "bragg_siglip" or not (lacking := draws["probability"].isna()).any():
        return draws, []
    keys = pd.MultiIndex.from_frame(draws[UNIT])
    left_out = keys.isin(keys[lacking])
    n_out, texts = keys[left_out].nunique(), draws.loc[lacking, "description"].unique()
    return draws[~left_out], [
        f"bragg_siglip leaves out {n_out} of {keys.nunique()} units: no probabilities of {len(texts)} texts, "
        f"such as {texts[0]!r}. Give --probabilities FOLDER for each method: {HOW_TO.format('probabilities')}"
    ]


def _by_method(scores: pd.DataFrame, draws: pd.DataFrame, ingested: Ingested) -> pd.DataFrame:
    rows = []
    for method, own in scores.groupby("method"):
        pairs = draws.loc[draws["method"] == method, PAIR].drop_duplicates()
        rows.append(
            {
                "method": method,
                "units": int(own["estimate"].notna().sum()),
                "unscored": int(own["estimate"].isna().sum()),
                "incomplete": int(own["flags"].str.contains("unrated_draws").sum()),
                "mean": own["estimate"].mean(),
                "ratings": len(ingested.ratings.merge(pairs, on=PAIR)),
                "rejected": len(ingested.rejected.merge(pairs, on=PAIR)),
                PAPER_COLUMN: PAPER.get(re.sub(r"[^a-z]", "", str(method).casefold()), ""),
            }
        )
    return pd.DataFrame(rows)


def _described(draws: pd.DataFrame, ingested: Ingested) -> Iterator[str]:
    counts, ratings = ingested.counts, ingested.ratings
    yield (
        f"{counts.n_rows} rows in, {counts.n_rows_used} used; {counts.n_read} ratings read, {counts.n_used} "
        f"used, {counts.n_read - counts.n_used} rejected"
    )
    for reason, n in Counter(map(reason_kind, ingested.rejected["reason"])).most_common():
        yield f"rejected: {n} x {reason}"
    per_unit = draws.groupby(UNIT).size().median()
    per_input = len(ratings) / len(ratings.drop_duplicates(PAIR))
    yield (
        f"draws a unit (median): {per_unit:g} (paper: {PAPER_DRAWS}); ratings an input (mean): "
        f"{per_input:.2f} (paper: {PAPER_RATERS})"
    )
