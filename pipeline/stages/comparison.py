"""comparison: which method explains best over a whole sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import read_json, write_json
from pipeline.formulas import neutral_table
from pipeline.report.comparison_figure import draw_comparison
from pipeline.report.methods_text import methods_text
from pipeline.stages.point_ratings import Inputs, gather_ratings, named
from pipeline.stages.tables import read_table, write_table
from pipeline.statistics.comparison import Comparison, compare
from pipeline.statistics.crowd_mixed import mixed_table
from pipeline.statistics.ratings import agreement_table, cost_table
from pipeline.statistics.unit_pairs import unit_pairs

TABLES = ("methods", "pairs", "errors")


def run(config: dict[str, Any], inputs: Inputs, output: Path) -> list[str]:
    """Write tables (.parquet, .csv), methods.txt, the figure.

    Tables: scores, methods, pairs, unit_pairs, errors, cost, agreement, mixed.
    """
    settings = config["stats"]
    scores = gather_scores(config["points"], inputs["scoring"])
    factors = list(config["points"][0]["factors"])
    comparison = compare(
        scores,
        factors=factors,
        confidence=settings["confidence"],
        n_bootstrap=settings["n_bootstrap"],
        seed=settings["seed"],
        rce_min_truth=settings["rce_min_truth"],
    )
    write_both(scores, output / "scores")
    influence = gather_influence(config["points"], inputs["scoring"])
    paired = unit_pairs(scores, influence, factors=factors, confidence=settings["confidence"])
    write_both(paired, output / "unit_pairs")
    for name in TABLES:
        write_both(getattr(comparison, name), output / name)
    questions, ratings = gather_ratings(config["points"], inputs)
    write_both(cost_table(questions, ratings, factors), output / "cost")
    write_both(agreement_table(ratings, factors), output / "agreement")
    mixed = mixed_table(scores, factors, variant=settings["name"], confidence=settings["confidence"])
    write_both(mixed, output / "mixed")
    facts = {name: settings[name] for name in ("confidence", "rce_min_truth")}
    write_json(output / "facts.json", {"factors": factors, **facts})
    (output / "methods.txt").write_text(methods_text(comparison, mixed), encoding="utf-8")
    draw_comparison(comparison, scores, output / "comparison.png", output / "comparison.svg")
    return []


def gather_scores(points: Sequence[dict[str, Any]], folders: Sequence[Path]) -> pd.DataFrame:
    """Return the scores of all points in one table, their factors as columns; points in the given order."""
    folder_of = {folder.name: folder for folder in folders}
    tables = [point_scores(point, folder_of[point["keys"]["scoring"]]) for point in points]
    return pd.concat(tables, ignore_index=True)


def gather_influence(points: Sequence[dict[str, Any]], folders: Sequence[Path]) -> pd.DataFrame:
    """Return what each image adds to the error of each score, of points with coordinated draws."""
    folder_of = {folder.name: folder for folder in folders}
    tables = [
        named(read_table(path), point)
        for point in points
        if (path := folder_of[point["keys"]["scoring"]] / "influence.parquet").is_file()
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def point_scores(point: dict[str, Any], folder: Path) -> pd.DataFrame:
    """Return one point's scores with its factors; a method's variant is part of its name."""
    return named(read_table(folder / "scoring.parquet"), point)


def write_both(table: pd.DataFrame, stem: Path) -> None:
    """Write a table as Parquet for programs and as CSV for people (10 digits)."""
    write_table(table, stem.with_suffix(".parquet"))
    neutral_table(table).to_csv(stem.with_suffix(".csv"), index=False, float_format="%.10g")


def read_comparison(folder: Path, factors: Sequence[str], confidence: float) -> Comparison:
    """Read back what `run` wrote."""
    tables = {name: read_table(folder / f"{name}.parquet") for name in TABLES}
    return Comparison(
        **tables,
        factors=tuple(factors),
        confidence=confidence,
        rce_min_truth=read_json(folder / "facts.json")["rce_min_truth"],
    )
