"""probabilities: how likely each text is true of each image."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.files import write_json
from pipeline.scorers.calibration import Calibration, fit_calibration, probabilities
from pipeline.stages.open_scorer import open_scorer
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write probabilities.npy (N, T), texts.parquet (T descriptions) and calibration.json."""
    explanations = read_table(inputs["explanations"] / "explanations.parquet")
    texts = explanations["description"].drop_duplicates().tolist()
    scorer = open_scorer(config["scorer"], inputs["scorer"])
    images = read_array(inputs["image_embeddings"] / "image_embeddings.npy")
    options = {"device": config["device"], **config["numerics"]}
    settings = config["scorer"]["calibration"]
    facts: dict[str, Any] = dict(settings)
    if settings["source"] == "fitted":
        facts |= asdict(_fit(settings["split"], inputs, images, scorer, options))
    path = output / "probabilities.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(images), len(texts)))
    if texts:
        probabilities(images, scorer.embed_texts(texts, **options), facts["a"], facts["b"], out)
    out.flush()
    write_table(pd.DataFrame({"description": pd.Series(texts, dtype="str")}), output / "texts.parquet")
    write_json(output / "calibration.json", facts)
    return [f"the scorer's calibration is flagged {flag}" for flag in facts.get("flags", ())]


def _fit(
    split: str, inputs: dict[str, Path], images: Any, scorer: Any, options: dict[str, Any]
) -> Calibration:
    """Fit (a, b) to the attributes of a split, which validation keeps apart from the evaluation's."""
    rows = rows_of_split(inputs["splits"], split, "scorer.calibration.split")
    names = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    labels = read_array(inputs["labels"] / "attributes.npy")[rows]
    texts = scorer.embed_texts(names, **options)
    return fit_calibration(np.asarray(images[rows], dtype=np.float64) @ texts.T.astype(np.float64), labels)
