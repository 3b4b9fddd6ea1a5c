"""sae_comparison: the tables and figures of a sweep over SAEs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import write_json
from pipeline.report.sae_figures import FIGURES
from pipeline.report.sae_text import sae_text
from pipeline.stages.comparison import write_both
from pipeline.stages.sae_results import SaePoint, attribute_rows, curve_rows, gather_points, k_rows, sae_row
from pipeline.statistics.sae_baselines import with_dmatch
from pipeline.statistics.sae_mixed import mixed_table
from pipeline.statistics.sanity import Measured, sanity_table

TABLES = ("saes", "k_sweep", "attributes", "sanity", "curves", "mixed")
COLUMNS = ("variant", "dictionary_size", "sae_k", "seed")


def run(config: dict[str, Any], inputs: dict[str, list[Path]], output: Path) -> list[str]:
    """Write `TABLES` (.parquet, .csv), methods.txt and the figures."""
    settings = config["stats"]
    points = gather_points(config["points"], inputs)
    factors = list(points[0].factors)
    tables = {"saes": with_dmatch(pd.DataFrame([sae_row(point) for point in points]), factors)}
    tables["k_sweep"] = _k_sweep(points, factors)
    tables["attributes"] = _in_order(pd.concat([attribute_rows(p) for p in points]), factors)
    tables["curves"] = _in_order(pd.concat([curve_rows(p) for p in points]), factors)
    tables["sanity"] = sanity_table(
        tables["saes"],
        measured_metrics(points),
        factors,
        confidence=settings["confidence"],
        n_bootstrap=settings["n_bootstrap"],
        seed=settings["seed"],
    )
    tables["mixed"] = mixed_table(
        tables["attributes"], factors, variant=settings["name"], confidence=settings["confidence"]
    )
    for name, table in tables.items():
        write_both(table, output / name)
    write_json(output / "facts.json", {"factors": factors, "confidence": settings["confidence"]})
    (output / "methods.txt").write_text(sae_text(tables, settings["confidence"]), encoding="utf-8")
    for name, draw in FIGURES.items():
        draw(tables, output / f"{name}.png", output / f"{name}.svg")
    return _notes(tables["saes"])


def _k_sweep(points: Sequence[SaePoint], factors: Sequence[str]) -> pd.DataFrame:
    """Return MATCHScore and dMATCHScore by beta and k of every point."""
    table = pd.concat([k_rows(point) for point in points], ignore_index=True)
    rows = [sae_row(point) for point in points]
    density = pd.Series([row["density"] for row in rows], dtype=float)
    n_each = table.groupby(["beta", "k"], sort=False)
    parts = [with_dmatch(part.reset_index(drop=True).assign(density=density), factors) for _, part in n_each]
    found = pd.concat(parts, ignore_index=True).drop(columns=["density", "frozen_spread", "n_frozen"])
    return _in_order(found, factors)


def _in_order(table: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Put factors and the SAE first."""
    first = [*factors, *COLUMNS]
    return table[[*first, *(name for name in table.columns if name not in first)]].reset_index(drop=True)


def measured_metrics(points: Sequence[SaePoint]) -> list[Measured]:
    """Return every metric's values by item for every point; spec: the sanity table."""
    return [
        Measured(
            "MATCHScore", "attributes", [_column(p, "matching", "attributes", "name", "f1") for p in points]
        ),
        Measured(
            "TAPAScore",
            "pairs",
            [_column(p, "perturbation", "pairs", "pair_id", "contribution") for p in points],
        ),
        Measured("FMS", "attributes", [_column(p, "sanity", "fms", "attribute", "fms") for p in points]),
        Measured(
            "MS",
            "latents",
            [_column(p, "sanity", "monosemanticity", "latent", "value") for p in points],
            shared=False,
        ),
        Measured("CKNNA", "SAEs", [_single(p, "cknna") for p in points]),
    ]


def _column(point: SaePoint, stage: str, name: str, index: str, value: str) -> pd.Series | None:
    table = point.table(stage, name)
    return None if table is None else table.set_index(index)[value].astype(float)


def _single(point: SaePoint, metric: str) -> pd.Series | None:
    value = point.summary("sanity").get(metric)
    return None if value is None else pd.Series([float(value)], index=["all"])


def _notes(saes: pd.DataFrame) -> list[str]:
    trained = saes[~saes["variant"].isin(("frozen", "random"))]
    alone = int((trained["n_frozen"] == 0).sum())
    if not alone:
        return []
    return [
        f"{alone} of {len(trained)} trained SAEs have no dMATCHScore: "
        "add sae=frozen of the same dictionary size"
    ]
