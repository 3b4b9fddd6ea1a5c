"""Simulated raters of an adaptive study answer exactly until the rule holds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd.aggregation import bragg
from pipeline.stages import crowd

AGGREGATIONS = [
    {"name": "bragg_siglip", "error_rate": 0.2},
    {"name": "bragg_uniform", "error_rate": 0.3, "prior": 0.4},
    {"name": "majority"},
]


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(3)
    ids = [f"im{i}" for i in range(60)]
    study = pd.DataFrame({"image_id": ids * 2, "description": ["red"] * 60 + ["blue"] * 60})
    study["probability"] = rng.random(120)
    folders = {name: tmp_path / name for name in ("sampling", "images", "labels")}
    for folder in folders.values():
        folder.mkdir()
    study.to_parquet(folders["sampling"] / "study.parquet")
    pd.DataFrame({"image_id": ids}).to_parquet(folders["images"] / "images.parquet")
    pd.DataFrame({"name": ["red", "blue"]}).to_parquet(folders["labels"] / "attributes.parquet")
    np.save(folders["labels"] / "attributes.npy", rng.integers(0, 2, (60, 2)).astype(np.uint8))
    return folders


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: a["name"])
def test_raters_answer_one_by_one_until_the_posterior_is_decisive(
    inputs: dict[str, Path], tmp_path: Path, aggregation: dict[str, object]
) -> None:
    settings = {"name": "simulated", "n_raters": 6, "miss": 0.3, "false_alarm": 0.2, "seed": 1}

    def ratings(stop: str) -> tuple[pd.DataFrame, list[str]]:
        folder = tmp_path / stop
        folder.mkdir()
        config = {"crowd": {**settings, "stop": stop}, "aggregation": aggregation}
        notes = crowd.run(config, inputs, folder)
        return pd.read_parquet(folder / "ratings.parquet"), notes

    everyone, _ = ratings("none")
    stopped, notes = ratings("decisive")
    study = pd.read_parquet(inputs["sampling"] / "study.parquet").set_index(["image_id", "description"])
    expected = []
    for pair, group in everyone.groupby(["image_id", "description"], sort=False):
        prior = {
            "bragg_siglip": np.clip(study.loc[pair, "probability"], 0.001, 0.999),
            "bragg_uniform": aggregation.get("prior"),
            "majority": 0.05,
        }[str(aggregation["name"])]
        for n, row in enumerate(group.index, start=1):
            expected.append(row)
            yes = int(group["rating"].iloc[:n].sum())
            posterior = bragg(yes, n, prior, aggregation.get("error_rate", 0.23))
            if n >= 2 and not 0.05 - 1e-12 <= posterior <= 0.95 + 1e-12:
                break
    pd.testing.assert_frame_equal(stopped, everyone.loc[expected].reset_index(drop=True))
    saved = len(everyone) - len(stopped)
    assert saved > 50
    assert notes == [
        f"stopping once decisive saved {saved} of {len(everyone)} ratings ({saved / len(everyone):.0%})"
    ]
