"""Gather what W&B is told of a sweep of the crowd track."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.files import read_json
from pipeline.report.crowd_runs import point_record, sweep_record
from pipeline.report.tracking import PointRecord, SweepRecord
from pipeline.stages.comparison import point_scores, read_comparison
from pipeline.stages.runs.published import published
from pipeline.stages.runs.tags import tags


def records(config: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[list[PointRecord], SweepRecord]:
    """Return a record a point and the sweep's."""
    folder = inputs["comparison"]
    facts = read_json(folder / "facts.json")
    comparison = read_comparison(folder, facts["factors"], facts["confidence"])
    folder_of = {scoring.name: scoring for scoring in inputs["scoring"]}
    points = [
        point_record(
            key=point["keys"]["scoring"],
            config=point["settings"],
            factors=point["factors"],
            scores=point_scores(point, folder_of[point["keys"]["scoring"]]),
            comparison=comparison,
            tags=tags(point),
            results=point["results"],
        )
        for point in config["points"]
    ]
    figure, n_points = folder / "comparison.png", {"points": len(points)}
    record = sweep_record(config["sweep"], folder.name, comparison, figure, n_points)
    return points, replace(record, **published(inputs, "comparison"))
