"""vlm_comparison: the tables, figures and pages of samples of a sweep over vision-language models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import read_json, write_json
from pipeline.report.vlm_figures import FIGURES
from pipeline.report.vlm_page import sample_page
from pipeline.report.vlm_sheets import sheets_of
from pipeline.report.vlm_text import vlm_text
from pipeline.stages.comparison import write_both
from pipeline.stages.vlm_results import VlmPoint, canvases, gather_points, gather_tables, states_together
from pipeline.statistics.vlm_agreement import agreement_table
from pipeline.statistics.vlm_explainers import explainer_table
from pipeline.statistics.vlm_metrics import rankings_table, tau_table
from pipeline.statistics.vlm_mixed import mixed_table
from pipeline.statistics.vlm_pairs import pair_table
from pipeline.statistics.vlm_states import state_table
from pipeline.statistics.vlm_strata import strata_table

GATHERED = ("samples", "scores", "curves", "sii")
TABLES = (
    *GATHERED,
    "explainers",
    "pairs",
    "strata",
    "rankings",
    "taus",
    "agreement",
    "states",
    "mixed",
)
Tables = dict[str, pd.DataFrame]


def run(config: dict[str, Any], inputs: dict[str, list[Path]], output: Path) -> list[str]:
    """Write `TABLES` (.parquet, .csv), methods.txt, the figures, and a page of samples for each cell."""
    settings = config["stats"]
    points = gather_points(config["points"], inputs)
    factors = list(points[0].factors)
    tables = gather_tables(points)
    tables |= _statistics(tables, points, factors, settings)
    for name in TABLES:
        write_both(tables[name], output / name)
    write_json(output / "facts.json", {"factors": factors, "confidence": settings["confidence"]})
    (output / "methods.txt").write_text(vlm_text(tables, settings["confidence"]), encoding="utf-8")
    for name, draw in FIGURES.items():
        draw(tables, output / f"{name}.png", output / f"{name}.svg")
    _write_pages(tables, points, output)
    return []


def _statistics(
    tables: Tables, points: Sequence[VlmPoint], factors: Sequence[str], settings: Mapping[str, Any]
) -> Tables:
    drawn: dict[str, Any] = {name: settings[name] for name in ("confidence", "n_bootstrap", "seed")}
    scores, sii = tables["scores"], tables["sii"]
    return {
        "explainers": explainer_table(scores, factors, **drawn),
        "pairs": pair_table(scores, factors, **drawn),
        "strata": strata_table(scores, factors, **drawn),
        "rankings": rankings_table(scores, sii, factors),
        "taus": tau_table(scores, sii, factors),
        "agreement": agreement_table(scores, sii, factors, **drawn),
        "states": _states(scores, sii, points, factors),
        "mixed": mixed_table(scores, factors, variant=settings["name"], confidence=settings["confidence"]),
    }


def _states(
    scores: pd.DataFrame, sii: pd.DataFrame, points: Sequence[VlmPoint], factors: Sequence[str]
) -> pd.DataFrame:
    """Return the table of states, cells with one number of steps at a time."""
    steps = {
        tuple(p.factors.values()): int(read_json(p.folders["synergy"] / "settings.json")["steps"])
        for p in points
    }
    cells = scores[list(factors)].apply(tuple, axis=1)
    together = states_together(points)
    parts = [
        state_table(scores[cells.map(steps) == n], sii, together, factors, n)
        for n in sorted({*steps.values()})
    ]
    return pd.concat(parts, ignore_index=True)


def _write_pages(tables: Tables, points: Sequence[VlmPoint], output: Path) -> None:
    """Write samples.html, or samples-<cell>.html where there are several cells."""
    images = canvases(points)
    cells = list(dict.fromkeys(tuple(point.factors.values()) for point in points))
    for cell in cells:
        name = "samples" if len(cells) == 1 else "-".join(["samples", *cell]).replace("/", "_")
        n_samples = sum(key[:-1] == cell for key in images)
        page = sample_page(sheets_of(tables, images, cell), " ".join(cell), n_samples=n_samples)
        (output / f"{name}.html").write_text(page, encoding="utf-8")
