"""probabilities: how likely each concept is true of each image."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.composition import concepts_of
from pipeline.crowd.composites import compositions
from pipeline.files import write_json
from pipeline.scorers.calibration import probabilities
from pipeline.stages.calibrating import calibration_facts
from pipeline.stages.open_scorer import open_scorer
from pipeline.stages.tables import read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write probabilities.npy (N, T), texts.parquet (T concepts) and calibration.json.

    A text is its own concept, or is made of several.
    """
    made_of = compositions(read_table(inputs["explanations"] / "explanations.parquet"))
    texts = [*dict.fromkeys(concept for each in made_of.values() for concept in concepts_of(each))]
    scorer = open_scorer(config["scorer"], inputs["scorer"])
    images = read_array(inputs["image_embeddings"] / "image_embeddings.npy")
    options = {"device": config["device"], **config["numerics"]}
    facts = calibration_facts(config["scorer"], inputs, images, scorer, options)
    path = output / "probabilities.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(images), len(texts)))
    if texts:
        probabilities(images, scorer.embed_texts(texts, **options), facts["a"], facts["b"], out)
    out.flush()
    write_table(pd.DataFrame({"description": pd.Series(texts, dtype="str")}), output / "texts.parquet")
    write_json(output / "calibration.json", facts)
    return [f"the scorer's calibration is flagged {flag}" for flag in facts.get("flags", ())]
