"""scorer: train the small one here; a pretrained one only states what it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import write_json
from pipeline.scorers.registry import variant
from pipeline.stages.keywords import keywords
from pipeline.stages.open_scorer import TRAINED
from pipeline.stages.pictures import open_images
from pipeline.stages.splits import rows_of_split
from pipeline.stages.tables import read_array, read_table

SPLIT = "train"


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write scorer.json (what it is), and scorer.safetensors where it is trained here."""
    settings = config["scorer"]
    facts: dict[str, Any] = {"name": settings["name"]}
    module = variant(settings["name"])
    if hasattr(module, "train"):
        facts |= _train(module, config, inputs, output)
    else:
        facts["arch"] = settings["arch"]
    write_json(output / "scorer.json", facts)
    return []


def _train(module: Any, config: dict[str, Any], inputs: dict[str, Path], output: Path) -> dict[str, Any]:
    settings = {**config["scorer"], **config["numerics"], **config["loader"], "device": config["device"]}
    images = read_table(inputs["images"] / "images.parquet")
    rows = rows_of_split(images, SPLIT, "scorer: training split")
    texts = true_texts(
        images["image_id"].to_numpy()[rows],
        read_table(inputs["labels"] / "captions.parquet"),
        read_array(inputs["labels"] / "attributes.npy")[rows],
        read_table(inputs["labels"] / "attributes.parquet")["name"].tolist(),
    )
    reader = open_images(config, inputs["images"], images.iloc[rows])
    features = module.features(reader, **keywords(module.features, settings), progress=True)
    training = {**settings, "batch_size": config["scorer"]["batch_size"]}  # the loader's is of inference
    trained = module.train(features, texts, **keywords(module.train, training), progress=True)
    module.save(output / TRAINED, trained, **keywords(module.save, settings))
    return {"split": SPLIT, "n_images": len(rows), "n_texts": sum(map(len, texts)), "loss": trained.loss}


def true_texts(
    image_ids: NDArray[np.generic], captions: pd.DataFrame, attributes: NDArray[np.generic], names: list[str]
) -> list[list[str]]:
    """Return for each of n images its captions, then the names of its attributes (n, A)."""
    by_image = captions.groupby("image_id", sort=False)["caption"].apply(list).to_dict()
    return [
        [*by_image.get(image_id, []), *(names[j] for j in np.flatnonzero(row))]
        for image_id, row in zip(image_ids, attributes, strict=True)
    ]
