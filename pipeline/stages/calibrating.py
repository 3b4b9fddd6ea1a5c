"""A scorer's calibration: as its settings give it, or fitted to the attributes of a split."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.scorers.calibration import fit_calibration
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table


def calibration_facts(
    settings: Mapping[str, Any], inputs: Mapping[str, Path], images: Any, scorer: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Return a, b, where they come from, and what the fit found.

    images: the scorer's embeddings (N, d) of all images. A fit reads `splits` and `labels` of the inputs;
    validation keeps its split apart from the evaluation's.
    """
    calibration = settings["calibration"]
    facts: dict[str, Any] = dict(calibration)
    if calibration["source"] != "fitted":
        return facts
    rows = rows_of_split(inputs["splits"], calibration["split"], "scorer.calibration.split")
    names = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    labels = read_array(inputs["labels"] / "attributes.npy")[rows]
    texts = scorer.embed_texts(names, **options).astype(np.float64)
    return facts | asdict(fit_calibration(np.asarray(images[rows], dtype=np.float64) @ texts.T, labels))
