"""scorer: train the small one here; a pretrained one only states what it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import write_json
from pipeline.scorers.registry import scorer_module
from pipeline.stages.keywords import keywords
from pipeline.stages.open_scorer import TRAINED
from pipeline.stages.pictures import open_images
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table

SPLIT = "train"


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write scorer.json (what it is), and scorer.safetensors where it is trained here."""
    settings = config["scorer"]
    facts: dict[str, Any] = {"name": settings["name"]}
    module = scorer_module(settings["name"])
    facts |= _train(module, config, inputs, output) if hasattr(module, "fit") else {"arch": settings["arch"]}
    write_json(output / "scorer.json", facts)
    return []


def _train(module: Any, config: dict[str, Any], inputs: dict[str, Path], output: Path) -> dict[str, Any]:
    images = read_table(inputs["images"] / "images.parquet")
    rows = rows_of_split(inputs["splits"], SPLIT, "scorer: training split")
    texts = true_texts(
        images["image_id"].to_numpy()[rows],
        read_table(inputs["labels"] / "captions.parquet"),
        read_array(inputs["labels"] / "attributes.npy")[rows],
        read_table(inputs["labels"] / "attributes.parquet")["name"].tolist(),
    )
    settings = {
        **config["scorer"],
        **config["numerics"],
        "loader": config["loader"],
        "device": config["device"],
    }
    reader = open_images(config, inputs["images"], images.iloc[rows])
    scorer = module.fit(reader, texts, **keywords(module.fit, settings), progress=True)
    module.save(output / TRAINED, scorer.frozen, scorer.trained)
    return {"split": SPLIT, "n_images": len(rows), "n_texts": sum(map(len, texts))}


def true_texts(
    image_ids: NDArray[np.generic], captions: pd.DataFrame, attributes: NDArray[np.generic], names: list[str]
) -> list[list[str]]:
    """Return for each of n images its captions, then the names of its attributes (n, A)."""
    by_image = captions.groupby("image_id", sort=False)["caption"].apply(list).to_dict()
    return [
        [*by_image.get(image_id, []), *(names[j] for j in np.flatnonzero(row))]
        for image_id, row in zip(image_ids, attributes, strict=True)
    ]
