"""gallery: small pictures of what some of the judged units are active on, for the report."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from pipeline.datasets.reading import ImageReader
from pipeline.report.attribute_examples import spread_over
from pipeline.report.unit_examples import examples
from pipeline.stages.pictures import open_images
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_table, write_table
from pipeline.stages.unit_activations import of_units

MAX_UNITS, N_TOP, N_RANDOM = 24, 8, 4
SIDE, QUALITY = 112, 80
COLUMNS = ("unit", "kind", "rank", "image_id", "activation", "jpeg")


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write gallery.parquet: a row a picture, with the image as JPEG of at most SIDE pixels a side.

    At most MAX_UNITS of the units, evenly spread over them, on the images that units are judged on: the
    N_TOP most active (none for a unit of one activation) and N_RANDOM others.
    """
    rows = rows_of_split(inputs["splits"], config["evaluation"]["split"], "evaluation.split")
    units = spread_over(read_table(inputs["units"] / "units.parquet")["unit"], MAX_UNITS)
    activations = of_units(inputs, units.tolist(), rows)
    table = read_table(inputs["images"] / "images.parquet").iloc[rows].reset_index(drop=True)
    reader = open_images(config, inputs["images"], table)
    found = [
        row
        for column, unit in enumerate(units.tolist())
        for row in _pictures(unit, np.asarray(activations[:, column]), table, reader)
    ]
    write_table(pd.DataFrame(found, columns=COLUMNS), output / "gallery.parquet")
    return []


def _pictures(
    unit: int, activation: np.ndarray[Any, Any], table: pd.DataFrame, reader: ImageReader
) -> Iterator[dict[str, Any]]:
    chosen = examples(activation, N_TOP, "gallery", unit)
    for kind, rows in (("top", chosen.top), ("random", chosen.random[:N_RANDOM])):
        for row in rows.tolist():
            yield {
                "unit": unit,
                "kind": kind,
                "rank": int(chosen.rank[row]),
                "image_id": str(table["image_id"].iloc[row]),
                "activation": float(activation[row]),
                "jpeg": _small(reader[row]),
            }


def _small(image: Image.Image) -> bytes:
    """Return an image as JPEG; one that is smaller than SIDE keeps its size."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    stream = io.BytesIO()
    small.save(stream, format="JPEG", quality=QUALITY)
    return stream.getvalue()
