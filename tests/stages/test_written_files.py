"""A file that somebody put beside a result is no part of it."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.files import write_json
from pipeline.stages.runs.published import published
from pipeline.stages.tables import layer_array, write_array, written


@pytest.fixture
def activations(tmp_path: Path) -> Path:
    write_array(np.arange(6.0).reshape(3, 2), tmp_path / "layer1.npy")
    write_json(tmp_path / "meta.json", {"outputs": {"layer1.npy": {}}})
    return tmp_path


@pytest.mark.parametrize("name", ["a.npy", "layer1 (copy).npy", "zzz.npy"])
def test_a_foreign_array_beside_a_layers_activations_is_not_read(activations: Path, name: str) -> None:
    write_array(np.zeros((1, 1)), activations / name)
    assert layer_array(activations).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_folder_at_work_has_what_lies_in_it(activations: Path) -> None:
    (activations / "meta.json").unlink()
    assert written(activations, "*.npy") == [activations / "layer1.npy"]
    assert written(activations, "*.csv") == []


def test_a_foreign_table_is_not_sent_to_wandb(tmp_path: Path) -> None:
    for folder, name in (("report", "report.html"), ("comparison", "methods.csv")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
        write_json(tmp_path / folder / "meta.json", {"outputs": {name: {}}})
        (tmp_path / folder / f"mine{Path(name).suffix}").touch()
    inputs = {name: tmp_path / name for name in ("report", "comparison")}
    assert [*published(inputs, "comparison")["files"]] == ["report.html", "tables/methods.csv"]
