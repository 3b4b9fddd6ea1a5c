"""splits: which images train, calibrate and judge."""

from pathlib import Path
from typing import Any

from pipeline.datasets.splits import assign_splits
from pipeline.stages.tables import read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write splits.parquet: image_id and split, in image order.

    A split that the data define stands; the other images get theirs by a hash of their id.
    """
    settings = config["dataset"]
    table = read_table(inputs["images"] / "images.parquet")[["image_id", "split"]]
    assigned = assign_splits(table["image_id"], settings["splits"], settings["split_seed"])
    write_table(
        table.assign(split=table["split"].where(table["split"] != "", assigned)), output / "splits.parquet"
    )
    return []
