"""Where crowd.error_rate says so, scoring takes how often raters err from gold answers or disagreement."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd.agreement import error_rate_from_disagreement
from pipeline.errors import AssayError
from pipeline.stages import crowd, sampling, scoring
from pipeline.stages.tables import write_array, write_table

N = 300
MISS, FALSE_ALARM = 0.3, 0.1
STUDY = {
    "sampler": {"name": "active", "n_inputs": 80, "seed": 0},
    "evaluation": {"split": "test"},
    "model": {"arch": "a"},
    "layer": "l",
}


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """A rated study of two units, whose texts are attributes, and one whose text is not."""
    names = ("images", "splits", "labels", "activations", "explanations", "probabilities")
    folders = {name: tmp_path / name for name in (*names, "sampling", "crowd", "out")}
    for folder in folders.values():
        folder.mkdir()
    rng = np.random.default_rng(0)
    attributes = (rng.random((N, 2)) < 0.3).astype(np.int8)
    signal = np.concatenate([attributes, attributes[:, :1]], axis=1)
    texts = pd.DataFrame({"method": "m", "unit": range(3), "description": ["red", "blue", "no attribute"]})
    images = pd.DataFrame({"image_id": [f"i{i}" for i in range(N)], "split": "test"})
    for name in ("images", "splits"):
        write_table(images, folders[name] / f"{name}.parquet")
    write_array(attributes, folders["labels"] / "attributes.npy")
    write_table(pd.DataFrame({"name": ["red", "blue"]}), folders["labels"] / "attributes.parquet")
    write_array(rng.normal(signal, 1), folders["activations"] / "layer.npy")
    write_table(texts, folders["explanations"] / "explanations.parquet")
    unexplained = pd.DataFrame({"method": [], "unit": [], "reason": []}, dtype="object")
    write_table(unexplained.astype({"unit": "int64"}), folders["explanations"] / "unexplained.parquet")
    probability = 1 / (1 + np.exp(-rng.normal(3 * signal - 2, 1)))
    write_array(probability, folders["probabilities"] / "probabilities.npy")
    write_table(texts[["description"]], folders["probabilities"] / "texts.parquet")
    sampling.run(STUDY, folders, folders["sampling"])
    people = {"name": "simulated", "n_raters": 3, "miss": MISS, "false_alarm": FALSE_ALARM, "seed": 0}
    crowd.run({"crowd": people}, folders, folders["crowd"])
    return folders


def estimates(
    inputs: dict[str, Path],
    source: str | None,
    aggregation: str,
    estimator: str = "importance",
    **own: object,
) -> list[float]:
    config = {
        "scoring": {"name": "crowd"},
        "aggregation": {"name": aggregation, **own},
        "estimator": {"name": estimator},
        "crowd": {} if source is None else {"error_rate": source},
    }
    scoring.run(config, inputs, inputs["out"])
    table = pd.read_parquet(inputs["out"] / "scoring.parquet")
    return table.loc[table["unit"] < 2, "estimate"].tolist()


def ratings(inputs: dict[str, Path]) -> pd.DataFrame:
    """Return the study's ratings with the attribute's answer: `present`."""
    table = pd.read_parquet(inputs["crowd"] / "ratings.parquet")
    attributes = np.load(inputs["labels"] / "attributes.npy")
    row, column = table["image_id"].str[1:].astype(int), (table["description"] == "blue").astype(int)
    return table.assign(present=attributes[row, column].astype(bool))


def counted(wrong: pd.Series) -> float:
    return (wrong.sum() + 0.5) / (len(wrong) + 1)


@pytest.mark.parametrize("estimator", ["importance", "combined"])
def test_gold_gives_bragg_em_misses_and_false_alarms_apart(inputs, estimator):
    table = ratings(inputs)
    rates = [
        counted(~table.loc[table["present"], "rating"]),
        counted(table.loc[~table["present"], "rating"]),
    ]
    assert rates == pytest.approx([MISS, FALSE_ALARM], abs=0.08)
    found = estimates(inputs, "gold", "bragg_em", estimator)
    assert found == estimates(inputs, None, "bragg_em", estimator, error_rate=rates)
    assert found != estimates(inputs, None, "bragg_em", estimator)


@pytest.mark.parametrize("aggregation", ["bragg_uniform", "bragg_siglip"])
def test_gold_gives_one_rate_to_those_that_know_one(inputs, aggregation):
    table = ratings(inputs)
    own = {"prior": 0.3} if aggregation == "bragg_uniform" else {}
    rate = counted(table["rating"] != table["present"])
    found = estimates(inputs, "gold", aggregation, error_rate=0.4, **own)
    assert found == estimates(inputs, None, aggregation, error_rate=rate, **own)


@pytest.mark.parametrize("aggregation", ["bragg_em", "bragg_siglip"])
def test_disagreement_gives_one_rate(inputs, aggregation):
    rate = error_rate_from_disagreement(ratings(inputs))
    assert estimates(inputs, "disagreement", aggregation) == estimates(
        inputs, None, aggregation, error_rate=rate
    )


def test_raters_who_never_differ_have_no_rate_by_disagreement(inputs):
    write_table(ratings(inputs).assign(rating=True), inputs["crowd"] / "ratings.parquet")
    with pytest.raises(AssayError, match=r"crowd.error_rate=disagreement finds 0, and an error rate is betw"):
        estimates(inputs, "disagreement", "bragg_siglip")


def test_gold_without_a_present_attribute_says_what_is_unknown(inputs):
    write_array(np.zeros((N, 2), dtype=np.uint8), inputs["labels"] / "attributes.npy")
    with pytest.raises(AssayError, match="no rated input has the gold answer yes, so misses are unknown"):
        estimates(inputs, "gold", "bragg_em")


def test_gold_without_any_attribute_in_the_texts_says_so(inputs):
    write_table(pd.DataFrame({"name": ["one", "two"]}), inputs["labels"] / "attributes.parquet")
    for aggregation in ("bragg_em", "bragg_siglip"):
        with pytest.raises(AssayError, match=r"crowd.error_rate=gold.*crowd.error_rate=null"):
            estimates(inputs, "gold", aggregation)
