"""scoring: one score for each unit and text."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation import aggregate
from pipeline.crowd.scores import correlation_scores, crowd_scores
from pipeline.crowd.truth import concept_truth
from pipeline.files import read_json
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write scoring.parquet and scoring.csv: method, unit, description, estimate, low, high, counts, flags.

    A unit that its method gave no text has a row too: NaN, flag `no_explanation`.
    """
    source = config["scoring"]["name"]
    scores, unexplained = (_from_people if source == "crowd" else _from_images)(config, inputs)
    missing = pd.DataFrame(
        {
            "method": unexplained["method"],
            "unit": unexplained["unit"],
            "description": "",
            "estimate": np.nan,
            "low": np.nan,
            "high": np.nan,
            "n_images": 0,
            "n_ratings": 0,
            "flags": "no_explanation;no_interval",
        }
    )
    table = pd.concat([scores, missing], ignore_index=True) if len(missing) else scores
    table = table.sort_values(["method", "unit"], kind="stable", ignore_index=True)
    write_table(table, output / "scoring.parquet")
    table.to_csv(output / "scoring.csv", index=False, float_format="%.10g")
    return _notes(table)


def _from_people(config: dict[str, Any], inputs: dict[str, Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    study = read_table(inputs["sampling"] / "study.parquet")
    facts = read_json(inputs["sampling"] / "facts.json")
    ratings = read_table(inputs["crowd"] / "ratings.parquet")
    settings = dict(config["aggregation"])
    method = settings.pop("name")
    if method == "bragg_siglip":
        priors = study[["image_id", "description", "probability"]].drop_duplicates(
            ["image_id", "description"]
        )
        settings["prior"] = priors.rename(columns={"probability": "prior"})
    values = aggregate(ratings, method, **settings)
    return crowd_scores(study, values, facts["n_images"]), read_table(inputs["sampling"] / "undrawn.parquet")


def _from_images(config: dict[str, Any], inputs: dict[str, Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = rows_of_split(inputs["splits"], config["evaluation"]["split"], "evaluation.split")
    explanations = read_table(inputs["explanations"] / "explanations.parquet")
    descriptions = explanations["description"].drop_duplicates().tolist()
    units = sorted(explanations["unit"].unique())
    activations = np.asarray(layer_array(inputs["activations"])[rows][:, units])
    concepts = _probabilities if config["scoring"]["name"] == "automatic" else _truths
    scores = correlation_scores(
        explanations, activations, units, concepts(inputs, descriptions)[rows], descriptions
    )
    return scores, read_table(inputs["explanations"] / "unexplained.parquet")


def _probabilities(inputs: dict[str, Path], descriptions: list[str]) -> Any:
    texts = read_table(inputs["probabilities"] / "texts.parquet")["description"].tolist()
    array = read_array(inputs["probabilities"] / "probabilities.npy")
    return array[:, [texts.index(text) for text in descriptions]]


def _truths(inputs: dict[str, Path], descriptions: list[str]) -> Any:
    names = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    attributes = read_array(inputs["labels"] / "attributes.npy")
    concepts = np.full((len(attributes), len(descriptions)), np.nan)
    for column, text in enumerate(descriptions):
        truth = concept_truth(text, names, attributes)
        if truth is not None:
            concepts[:, column] = truth
    return concepts


def _notes(table: pd.DataFrame) -> list[str]:
    missing = int(table["estimate"].isna().sum())
    partial = int(table["flags"].str.contains("unrated_draws", regex=False).sum())
    notes = [f"{missing} of {len(table)} units have no score; the flags say why"] if missing else []
    if partial:
        notes.append(
            f"{partial} of {len(table)} scores lack ratings of some draws: a preview (unrated_draws)"
        )
    return notes
