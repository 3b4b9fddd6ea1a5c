"""What the matching stage writes, and what it says of attributes that no latent can stand for."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from pipeline.files import read_json
from pipeline.stages import matching
from pipeline.stages.sparse import read_codes, write_codes

N = 40
SETTINGS = {"name": "fbmp", "mode": "corrected", "k": 3, "beta": 0.5, "betas": [0.25, 0.5], "max_latents": 4}


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """Latent 0 is "red" and latent 1 is "round"; "blue" is in the test split alone, "gone" nowhere in it."""
    folders = {name: tmp_path / name for name in ("splits", "labels", "latents")}
    for folder in folders.values():
        folder.mkdir()
    train = np.arange(N) < N // 2
    splits = pd.DataFrame({"image_id": [str(i) for i in range(N)], "split": np.where(train, "train", "test")})
    splits.to_parquet(folders["splits"] / "splits.parquet")
    red, round_ = np.arange(N) % 2 == 0, np.arange(N) % 3 == 0
    attributes = np.stack([red, round_, ~train & red, train & red], axis=1).astype(np.uint8)
    np.save(folders["labels"] / "attributes.npy", attributes)
    table = pd.DataFrame(
        {"name": ["red", "round", "blue", "gone"], "family": "all", "count": attributes.sum(0)}
    )
    table.to_parquet(folders["labels"] / "attributes.parquet")
    codes = np.stack([red, round_, np.zeros(N)], axis=1).astype(np.float32)
    write_codes(csr_array(codes), folders["latents"])
    return folders


def run(inputs: dict[str, Path], output: Path, **changes: Any) -> list[str]:
    output.mkdir()
    config = {"matching": {**SETTINGS, **changes}, "evaluation": {"split": "test"}}
    return matching.run(config, inputs, output)


def test_attributes_without_a_positive_image_are_named_and_counted_and_score_0(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    notes = run(inputs, tmp_path / "out")
    assert notes == [
        "1 of 4 attributes have no positive image in the split train and count as 0: blue",
        "1 of 4 attributes have no positive image in the split test and count as 0: gone",
    ]
    table = pd.read_parquet(tmp_path / "out" / "attributes.parquet")
    assert table["reason"].tolist() == ["", "", "no positive", "no held-out positive"]
    assert table["f1"].tolist() == [1.0, 1.0, 0.0, 0.0]
    summary = read_json(tmp_path / "out" / "summary.json")
    assert (summary["match_score"], summary["match_score_matched"], summary["n_empty"]) == (0.5, 1.0, 2)
    assert summary["dead_share"] == pytest.approx(1 / 3)


def test_the_reference_matches_on_the_images_that_it_judges(inputs: dict[str, Path], tmp_path: Path) -> None:
    run(inputs, tmp_path / "out", mode="reference")
    assert read_json(tmp_path / "out" / "summary.json")["matched_on"] == "test"
    table = pd.read_parquet(tmp_path / "out" / "attributes.parquet")
    assert table["f1"].tolist() == [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["fbmp", "one_to_one", "ranked_or", "nn_omp"])
def test_every_matcher_fills_the_same_tables(inputs: dict[str, Path], tmp_path: Path, name: str) -> None:
    run(inputs, tmp_path / "out", name=name)
    scores = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    assert set(scores["k"]) == {1, 2, 3, 4}
    coalitions = pd.read_parquet(tmp_path / "out" / "coalitions.parquet")
    first = coalitions[(coalitions["attribute"] == 0) & (coalitions["step"] == 1)]
    assert set(first["latent"]) == {0}
    assert first["f1"].tolist() == [1.0] * len(first)


def test_codes_read_back_by_rows_are_those_rows(inputs: dict[str, Path]) -> None:
    whole = read_codes(inputs["latents"]).toarray()
    rows = np.array([7, 0, 30])
    assert np.array_equal(read_codes(inputs["latents"], rows).toarray(), whole[rows])
