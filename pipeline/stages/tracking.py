"""tracking: a W&B run for each point and one for the sweep, written by one job."""

from pathlib import Path
from typing import Any

from pipeline.files import read_json, write_json
from pipeline.report.tracking import PointRecord, SweepRecord, log_sweep
from pipeline.stages.comparison import point_scores, read_comparison


def run(config: dict[str, Any], inputs: dict[str, Any], output: Path) -> list[str]:
    """Write wandb/ with one folder a run, and runs.json: id, name and folder of each."""
    settings = config["tracking"]
    folder = inputs["comparison"]
    facts = read_json(folder / "facts.json")
    folder_of = {scoring.name: scoring for scoring in inputs["scoring"]}
    points = [_point(point, folder_of[point["key"]]) for point in config["points"]]
    sweep = SweepRecord(
        name=config["sweep"],
        key=folder.name,
        comparison=read_comparison(folder, facts["factors"], facts["confidence"]),
        figure=folder / "comparison.png",
        config={"points": len(points)},
    )
    runs = log_sweep(
        points,
        sweep,
        project=settings["project"],
        entity=settings["entity"],
        mode=settings["mode"],
        directory=output,
    )
    write_runs(output, runs)
    return []


def _point(point: dict[str, Any], folder: Path) -> PointRecord:
    return PointRecord(
        key=point["key"],
        config=point["settings"],
        factors=point["factors"],
        scores=point_scores(point, folder),
        tags=tuple(sorted({f"{group}:{choice}" for group, choice in point["choices"].items()})),
        results=point["keys"],
    )


def write_runs(output: Path, runs: Any) -> None:
    """Write runs.json; folders are relative, so a moved result still says where they are."""
    rows = [{"id": r.id, "name": r.name, "folder": r.directory.relative_to(output).as_posix()} for r in runs]
    write_json(output / "runs.json", rows)
