"""images: list, check and split a dataset's images."""

from pathlib import Path
from typing import Any

from pipeline.datasets.registry import dataset
from pipeline.datasets.splits import assign_splits
from pipeline.errors import AssayError
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write images.parquet and skipped.parquet, and what the dataset renders.

    A split that the data define stands; the other images get theirs by a hash of their id.
    """
    settings = config["dataset"]
    module = dataset(settings["name"])
    manifest = module.images(output, **keywords(module.images, settings))
    if manifest.table.empty:
        raise AssayError(f"dataset={settings['name']} has no image")
    table = manifest.table.copy()
    assigned = assign_splits(table["image_id"], settings["splits"], settings["split_seed"])
    table["split"] = table["split"].where(table["split"] != "", assigned)
    write_table(table, output / "images.parquet")
    write_table(manifest.skipped, output / "skipped.parquet")
    return list(manifest.notes)
