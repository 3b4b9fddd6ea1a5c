"""pairs: images before and after one attribute changed."""

from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.pairs.registry import pair_source
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import read_table, write_array, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write images, pairs, skipped (.parquet), present.npy (P, A) and the images that are rendered."""
    settings = config["pairs"]
    attributes = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    module = pair_source(settings["name"])
    found = module.pairs(output, attributes=attributes, **keywords(module.pairs, settings))
    if found.table.empty:
        raise AssayError(f"pairs={settings['name']}: no pair is left; {'; '.join(found.notes)}")
    write_table(found.manifest.table, output / "images.parquet")
    write_table(found.table, output / "pairs.parquet")
    write_table(found.skipped, output / "skipped.parquet")
    write_array(found.present, output / "present.npy")
    return list(found.notes)
