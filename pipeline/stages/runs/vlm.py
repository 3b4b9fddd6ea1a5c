"""Gather what W&B is told of a sweep of the VLM track."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import canonical
from pipeline.report.point_pictures import draw_samples
from pipeline.report.tracking import PointRecord, SweepRecord
from pipeline.report.vlm_figures import FIGURES
from pipeline.stages.asking import usable
from pipeline.stages.runs.published import published
from pipeline.stages.runs.tags import tags
from pipeline.stages.tables import read_table
from pipeline.stages.told import told_points
from pipeline.stages.vlm_comparison import TABLES
from pipeline.stages.vlm_results import VlmPoint, canvases, gather_points

MEANS = (
    "mean_f",
    "low",
    "high",
    "over_random",
    "rank",
    "n_samples",
    "n_missing",
    "tie_share",
    "pointing",
    "iou",
)
"""Columns of the table of explainers that are a run's numbers."""


def records(
    config: Mapping[str, Any], inputs: Mapping[str, Any], pictures: Path
) -> tuple[list[PointRecord], SweepRecord]:
    """Return a record a point and the sweep's; the points' pictures are drawn in the folder `pictures`."""
    folder = inputs["vlm_comparison"]
    tables = {name: read_table(folder / f"{name}.parquet") for name in TABLES}
    points = gather_points(config["points"], inputs)
    seen = canvases(points)
    pairs = zip(points, told_points(config), strict=True)
    logged = [_record(*pair, tables, seen, pictures) for pair in pairs]
    figures = {name: folder / f"{name}.png" for name in FIGURES}
    told, shared = {"points": len(points)}, published(inputs, "vlm_comparison")
    name = config["sweep"]
    return logged, SweepRecord(name, folder.name, tables, figures, _summary(tables), told, **shared)


def _record(
    point: VlmPoint,
    planned: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    seen: Mapping[tuple[str, ...], Path],
    pictures: Path,
) -> PointRecord:
    key = "k" + hashlib.sha256(canonical(point.keys).encode()).hexdigest()[:12]
    samples = _explained(point)
    canvas_of = [seen[*point.factors.values(), name] for name in samples["sample_id"]]
    drawn = draw_samples(samples, canvas_of, path := pictures / f"{key}.jpg")
    (row,) = _own(tables["explainers"], point).to_dict("records")
    return PointRecord(
        key=key,
        name=" ".join([*point.factors.values(), point.explainer]),
        config={**planned["settings"], "factors": point.factors},
        tables={
            name: _own(tables[name], point) for name in ("scores", "sii") if len(_own(tables[name], point))
        },
        summary={name: row[name] for name in MEANS if pd.notna(row[name])},
        tags=tags(planned),
        results=planned["results"],
        references=tuple(point.folders[stage] for stage in sorted(point.folders)),
        history=_own(tables["curves"], point).groupby("share", as_index=False)[["ins", "del"]].mean(),
        images={"samples_marked": path} if drawn else {},
    )


def _explained(point: VlmPoint) -> pd.DataFrame:
    """Return the samples with an answer: what was asked, F, and the scores of patches (None without)."""
    asked = usable(point.table("answers", "answers"))
    maps = point.table("attributions", "attributions")[["sample_id", "patches"]]
    scores = point.table("synergy", "synergy")[["sample_id", "f"]]
    table = asked.merge(scores, on="sample_id", how="left").merge(maps, on="sample_id", how="left")
    return table.assign(patches=table["patches"].astype(object).where(table["patches"].notna(), None))


def _own(table: pd.DataFrame, point: VlmPoint) -> pd.DataFrame:
    """Return the rows of a table that are of a point's cell and explainer."""
    who = {**point.factors, "explainer": point.explainer}
    same = pd.concat([table[name].astype(str) == value for name, value in who.items()], axis=1)
    return table[same.all(axis=1)]


def _summary(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the best explainer by mean F over all cells."""
    ranked = tables["explainers"].dropna(subset=["rank"])
    best = ranked[ranked["level"] == ranked["level"].iloc[0]].nsmallest(1, "rank") if len(ranked) else ranked
    return {"best": best["explainer"].iloc[0], "best_mean_f": best["mean_f"].iloc[0]} if len(best) else {}
