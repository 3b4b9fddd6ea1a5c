"""labels: what is known of every image."""

from pathlib import Path
from typing import Any

from pipeline.datasets.registry import dataset
from pipeline.errors import AssayError
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import read_table, write_array, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write attributes.npy (N, A), attributes.parquet and captions.parquet."""
    settings = {**config["dataset"], **config["dataset"]["labels"]}
    module = dataset(settings["name"])
    images = read_table(inputs["images"] / "images.parquet")
    labels = module.labels(images, inputs["images"], **keywords(module.labels, settings))
    _require_plain(labels.table["name"].tolist())
    write_array(labels.attributes, output / "attributes.npy")
    write_table(labels.table, output / "attributes.parquet")
    write_table(labels.captions, output / "captions.parquet")
    empty = labels.table.loc[labels.table["count"] == 0, "name"].tolist()
    found = [f"{len(empty)} attributes have no positive image: {', '.join(empty[:5])}"] if empty else []
    return [*labels.notes, *found]


def _require_plain(names: list[str]) -> None:
    """Raise AssayError for an attribute whose name is blank or has blanks at an end."""
    for place, name in enumerate(names):
        if not name or name != name.strip():
            raise AssayError(
                f"attribute {place} is named {name!r}: explanations name attributes, and their texts have no "
                "blanks at the ends; rename it in the dataset's labels"
            )
