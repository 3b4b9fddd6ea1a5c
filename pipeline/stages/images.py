"""images: list and check a dataset's images."""

from pathlib import Path
from typing import Any

from pipeline.datasets.registry import dataset
from pipeline.errors import AssayError
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write images.parquet and skipped.parquet, and what the dataset renders."""
    settings = config["dataset"]
    module = dataset(settings["name"])
    manifest = module.images(output, **keywords(module.images, settings))
    if manifest.table.empty:
        raise AssayError(f"dataset={settings['name']} has no image")
    write_table(manifest.table, output / "images.parquet")
    write_table(manifest.skipped, output / "skipped.parquet")
    return list(manifest.notes)
