"""tracking: a W&B run for each point and one for the sweep, written by one job."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.files import write_json
from pipeline.report.tracking import log_sweep
from pipeline.stages.runs.registry import records_of


def run(config: dict[str, Any], inputs: dict[str, Any], output: Path) -> list[str]:
    """Write wandb/ with one folder a run, and runs.json: id, name and folder of each."""
    settings = config["tracking"]
    with TemporaryDirectory() as pictures:
        points, sweep = records_of(config["track"])(config, inputs, Path(pictures))
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


def write_runs(output: Path, runs: Any) -> None:
    """Write runs.json; folders are relative, so a moved result still says where they are."""
    rows = [{"id": r.id, "name": r.name, "folder": r.directory.relative_to(output).as_posix()} for r in runs]
    write_json(output / "runs.json", rows)
