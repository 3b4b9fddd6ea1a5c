"""Gather what W&B is told of a sweep of the SAE track."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import canonical
from pipeline.report.point_pictures import draw_attributes
from pipeline.report.sae_figures import FIGURES
from pipeline.report.tracking import PointRecord, SweepRecord
from pipeline.stages.runs.published import published
from pipeline.stages.runs.tags import tags
from pipeline.stages.sae_comparison import TABLES
from pipeline.stages.sae_results import SaePoint, attribute_rows, gather_points, k_rows
from pipeline.stages.tables import read_table
from pipeline.stages.told import told_points
from pipeline.statistics.sae_baselines import UNTRAINED


def records(
    config: Mapping[str, Any], inputs: Mapping[str, Any], pictures: Path
) -> tuple[list[PointRecord], SweepRecord]:
    """Return a record a point and the sweep's; the points' pictures are drawn in the folder `pictures`."""
    folder = inputs["sae_comparison"]
    tables = {name: read_table(folder / f"{name}.parquet") for name in TABLES}
    points = gather_points(config["points"], inputs)
    rows = tables["saes"].to_dict("records")
    logged = [
        _record(point, config_of, row, pictures)
        for point, config_of, row in zip(points, told_points(config), rows, strict=True)
    ]
    figures = {name: folder / f"{name}.png" for name in FIGURES}
    return logged, SweepRecord(
        config["sweep"],
        folder.name,
        tables,
        figures,
        _summary(tables),
        {"points": len(points)},
        **published(inputs, "sae_comparison"),
    )


def _record(
    point: SaePoint, planned: Mapping[str, Any], row: Mapping[Any, Any], pictures: Path
) -> PointRecord:
    key, attributes = _run_key(point.keys), attribute_rows(point)
    drawn = draw_attributes(attributes, path := pictures / f"{key}.png")
    return PointRecord(
        key=key,
        name=" ".join([*planned["factors"].values()]),
        config={**planned["settings"], "factors": planned["factors"]},
        tables={"attributes": attributes, "k_sweep": k_rows(point)},
        summary={name: value for name, value in row.items() if not str(name).endswith("_key")},
        tags=tags(planned),
        results=planned["results"],
        references=tuple(point.folders[stage] for stage in sorted(point.folders)),
        history=point.table("sae", "curves"),
        images={"attributes_f1": path} if drawn else {},
    )


def _run_key(keys: Mapping[str, str]) -> str:
    """Return what names a point's run: a point of this track is known by several keys together."""
    return "k" + hashlib.sha256(canonical(dict(keys)).encode()).hexdigest()[:12]


def _summary(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the best variant by mean dMATCHScore and TAPAScore, and each metric's verdict."""
    saes, sanity = tables["saes"], tables["sanity"]
    trained = saes[~saes["variant"].isin(UNTRAINED)]
    summary: dict[str, Any] = {}
    for name in ("dmatch_score", "tapa_score"):
        means = trained.groupby("variant", sort=False)[name].mean().dropna()
        if len(means):
            summary |= {f"best_{name}": means.max(), f"best_variant/{name}": means.idxmax()}
    overall = sanity.drop_duplicates("metric")
    return summary | {f"verdict/{row['metric']}": row["verdict"] for _, row in overall.iterrows()}
