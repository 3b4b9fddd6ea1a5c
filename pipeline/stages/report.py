"""report: one page of a sweep that opens with the claim."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import read_json
from pipeline.report.report_inputs import ReportInputs
from pipeline.report.sweep_report import sweep_report
from pipeline.report.vlm_sheets import Sheet, sheets_of
from pipeline.stages.tables import read_table, written
from pipeline.stages.told import told_points
from pipeline.stages.vlm_results import canvases, gather_points, gather_tables

COMPARISON = {"crowd": "comparison", "sae": "sae_comparison", "vlm": "vlm_comparison"}
"""Track to the stage with the tables and figures of its sweeps."""
MAX_SHEETS = 12
"""Samples on the page; the comparison's own pages have them all."""
Points = Sequence[Mapping[str, Any]]


def run(config: dict[str, Any], inputs: dict[str, Any], output: Path) -> list[str]:
    """Write report.html."""
    points, folder = told_points(config), inputs[COMPARISON[config["track"]]]
    page = sweep_report(
        ReportInputs(
            track=config["track"],
            sweep=config["sweep"],
            key=folder.name,
            tables={path.stem: read_table(path) for path in written(folder, "*.parquet")},
            figures={path.stem: path for path in written(folder, "*.svg")},
            facts=read_json(folder / "facts.json"),
            points=[_planned(point) for point in points],
            settings=[point["settings"] for point in points],
            gallery=_gallery(points, inputs.get("gallery", [])),
            sheets=_sheets(points, inputs) if config["track"] == "vlm" else (),
        )
    )
    (output / "report.html").write_text(page, encoding="utf-8")
    return []


def _planned(point: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: point[name] for name in ("factors", "variant")}
    choices = point["choices"]
    explainer = choices.get("attribution") or choices.get("explainer") or ""
    return {**told, "explainer": explainer, "keys": point["results"]}


def _gallery(points: Points, folders: Sequence[Path]) -> pd.DataFrame | None:
    """Return the pictures of all layers with the factors of the first point that has them."""
    folder_of = {folder.name: folder for folder in folders}
    first = {point["keys"]["gallery"]: point for point in reversed(points) if "gallery" in point["keys"]}
    tables = [
        read_table(folder_of[key] / "gallery.parquet").assign(**point["factors"])
        for key, point in reversed(first.items())
    ]
    return pd.concat(tables, ignore_index=True) if tables else None


def _sheets(points: Points, inputs: Mapping[str, Any]) -> list[Sheet]:
    """Return the sheets of the first samples of the first cell."""
    gathered = gather_points(points, inputs)
    tables, images = gather_tables(gathered), canvases(gathered)
    return sheets_of(tables, images, tuple(gathered[0].factors.values()), limit=MAX_SHEETS)
