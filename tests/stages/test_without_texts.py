"""A method that explains no unit gives a table of missing scores, never a crash."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.stages import crowd, sampling, scoring
from pipeline.stages.tables import write_array, write_table


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    folders = {
        name: tmp_path / name
        for name in ("images", "splits", "labels", "activations", "units", "explanations", "probabilities")
    }
    for folder in folders.values():
        folder.mkdir()
    images = pd.DataFrame({"image_id": [f"i{i}" for i in range(6)], "split": ["test"] * 6})
    write_table(images, folders["images"] / "images.parquet")
    write_table(images, folders["splits"] / "splits.parquet")
    write_array(np.eye(6, 2, dtype=np.uint8), folders["labels"] / "attributes.npy")
    write_table(pd.DataFrame({"name": ["red", "blue"]}), folders["labels"] / "attributes.parquet")
    write_array(np.ones((6, 3), dtype=np.float32), folders["activations"] / "layer.npy")
    texts = pd.DataFrame(
        {
            "method": pd.Series([], dtype="str"),
            "unit": pd.Series([], dtype="int64"),
            "description": pd.Series([], dtype="str"),
        }
    )
    write_table(texts, folders["explanations"] / "explanations.parquet")
    unexplained = pd.DataFrame(
        {"unit": [0, 2], "reason": ["constant activation"] * 2, "method": "top_concept"}
    )
    write_table(unexplained, folders["explanations"] / "unexplained.parquet")
    write_array(np.zeros((6, 0), dtype=np.float32), folders["probabilities"] / "probabilities.npy")
    write_table(
        pd.DataFrame({"description": pd.Series([], dtype="str")}), folders["probabilities"] / "texts.parquet"
    )
    return folders


def checked(folder: Path) -> None:
    table = pd.read_parquet(folder / "scoring.parquet")
    assert table["unit"].tolist() == [0, 2]
    assert table["estimate"].isna().all()
    assert set(table["flags"]) == {"no_explanation;no_interval"}


@pytest.mark.parametrize("source", ["oracle", "automatic"])
def test_scoring_from_images(inputs, tmp_path, source):
    scoring.run({"scoring": {"name": source}, "evaluation": {"split": "test"}}, inputs, tmp_path)
    checked(tmp_path)


@pytest.mark.parametrize("aggregation", [{"name": "majority"}, {"name": "bragg_siglip", "error_rate": 0.2}])
def test_scoring_from_people(inputs, tmp_path, aggregation):
    for name in ("sampling", "crowd"):
        inputs[name] = tmp_path / name
        inputs[name].mkdir()
    sampler = {"name": "mgis", "n_inputs": 4, "seed": 0, "uniform_share": 0.2}
    sampling.run({"sampler": sampler, "evaluation": {"split": "test"}}, inputs, inputs["sampling"])
    people = {"name": "simulated", "n_raters": 3, "miss": 0.1, "false_alarm": 0.1, "seed": 0}
    crowd.run({"crowd": people}, inputs, inputs["crowd"])
    config = {
        "scoring": {"name": "crowd"},
        "aggregation": aggregation,
        "estimator": {"name": "importance"},
        "crowd": {},
    }
    scoring.run(config, inputs, tmp_path)
    checked(tmp_path)
