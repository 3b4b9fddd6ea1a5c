"""Gather what W&B is told of a sweep of the crowd track."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.files import read_json
from pipeline.report.crowd_runs import point_record, sweep_record
from pipeline.report.point_pictures import draw_units
from pipeline.report.tracking import PointRecord, SweepRecord
from pipeline.stages.comparison import point_scores, read_comparison
from pipeline.stages.runs.published import published
from pipeline.stages.runs.tags import tags
from pipeline.stages.tables import read_table
from pipeline.stages.told import told_points
from pipeline.statistics.comparison import Comparison

WHOSE = ("scoring", "gallery")
"""Stages of a point that its record is made of."""


def records(
    config: Mapping[str, Any], inputs: Mapping[str, Any], pictures: Path
) -> tuple[list[PointRecord], SweepRecord]:
    """Return a record a point and the sweep's; the points' pictures are drawn in the folder `pictures`."""
    folder = inputs["comparison"]
    facts = read_json(folder / "facts.json")
    comparison = read_comparison(folder, facts["factors"], facts["confidence"])
    folder_of = {(stage, each.name): each for stage in WHOSE for each in inputs[stage]}
    points = [_record(point, folder_of, comparison, pictures) for point in told_points(config)]
    figure, n_points = folder / "comparison.png", {"points": len(points)}
    record = sweep_record(config["sweep"], folder.name, comparison, figure, n_points)
    return points, replace(record, **published(inputs, "comparison"))


def _record(
    point: dict[str, Any],
    folder_of: Mapping[tuple[str, str], Path],
    comparison: Comparison,
    pictures: Path,
) -> PointRecord:
    folders = {stage: folder_of[stage, key] for stage, key in point["keys"].items() if stage in WHOSE}
    scores = point_scores(point, folders["scoring"])
    record = point_record(
        key=point["keys"]["scoring"],
        config=point["settings"],
        factors=point["factors"],
        scores=scores,
        comparison=comparison,
        tags=tags(point),
        results=point["results"],
    )
    path = pictures / f"{record.key}.jpg"
    if "gallery" not in folders:  # a study's images are not opened again
        return record
    drawn = draw_units(read_table(folders["gallery"] / "gallery.parquet"), scores, path)
    return replace(record, images={"units": path} if drawn else {})
