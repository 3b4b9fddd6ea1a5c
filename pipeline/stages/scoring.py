"""scoring: one score for each unit and text."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.composition import concepts_of
from pipeline.crowd.aggregation.votes import PAIR
from pipeline.crowd.agreement import error_rate_from_disagreement, error_rates_from_gold
from pipeline.crowd.composites import asked, compositions
from pipeline.crowd.estimation import Estimation
from pipeline.crowd.rescoring import ErrorRate, rescored
from pipeline.crowd.scores import correlation_scores
from pipeline.crowd.truth import concept_truth
from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.formulas import neutral_table
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table, write_table
from pipeline.stages.unit_activations import of_units

LIKELY = 0.5
FLAGGED_COVERAGE = "74% to 97%"
"""The least and the most coverage of the cells with rare concepts in docs/coverage.md."""


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write scoring.parquet and scoring.csv: `pipeline.crowd.scores.COLUMNS`.

    A unit that its method gave no text has a row too: NaN, flag `no_explanation`.
    """
    source = config["scoring"]["name"]
    if source == "crowd":
        scores, unexplained = _from_people(config, inputs, output)
    else:
        scores, unexplained = _from_images(config, inputs)
    missing = pd.DataFrame(
        {
            "method": unexplained["method"],
            "unit": unexplained["unit"],
            "description": unexplained.get("description", pd.Series("", unexplained.index)).fillna(""),
            "estimate": np.nan,
            **dict.fromkeys(("low", "high", "std_error", "band_low", "band_high"), np.nan),
            "target": "",
            "n_images": 0,
            "n_ratings": 0,
            "flags": "no_explanation;no_interval",
        }
    )
    still = missing["description"] != ""  # it has a text; its activation is constant on these images
    missing.loc[still, "flags"] = "constant_activation;no_interval"
    table = pd.concat([scores, missing], ignore_index=True) if len(missing) else scores
    table = table.sort_values(["method", "unit"], kind="stable", ignore_index=True)
    write_table(table, output / "scoring.parquet")
    neutral_table(table).to_csv(output / "scoring.csv", index=False, float_format="%.10g")
    return _notes(table)


def _from_people(
    config: dict[str, Any], inputs: dict[str, Path], output: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores, and the units without a text; influence.parquet is written for coordinated draws."""
    folder = inputs["sampling"]
    study = read_table(folder / "study.parquet")
    ratings = read_table(inputs["crowd"] / "ratings.parquet")
    settings = dict(config["aggregation"])
    name = settings.pop("name")
    rate = _error_rate(config, inputs, study, ratings, name)
    if rate is not None:
        settings["error_rate"] = rate
    facts = read_json(folder / "facts.json")
    found = rescored(
        study,
        ratings,
        facts["n_images"],
        name,
        estimation=Estimation(**config["estimator"]),
        population=read_table(path) if (path := folder / "population.parquet").exists() else None,
        **settings,
    )
    if facts.get("coordinated"):
        write_table(found.influence, output / "influence.parquet")
    return found.table, read_table(folder / "undrawn.parquet")


def _error_rate(
    config: dict[str, Any], inputs: dict[str, Path], study: pd.DataFrame, ratings: pd.DataFrame, name: str
) -> ErrorRate:
    """Return the error rate that crowd.error_rate asks for; None to leave it to the aggregation.

    bragg_em takes misses and false alarms apart; bragg_uniform and bragg_siglip take one rate, the share of
    all ratings that are wrong.
    """
    source = config.get("crowd", {}).get("error_rate")
    if source is None:
        return None
    if source == "disagreement":
        return _usable(source, error_rate_from_disagreement(ratings))
    found = error_rates_from_gold(ratings, _gold(inputs, study))
    counts = found.counts
    if name != "bragg_em":
        n_wrong, n_rated = counts.n_missed + counts.n_alarmed, counts.n_present + counts.n_absent
        return _usable(source, (n_wrong + 0.5) / (n_rated + 1) if n_rated else float("nan"))
    if counts.reasons:
        raise AssayError(f"crowd.error_rate=gold: {'; '.join(counts.reasons)}; give crowd.error_rate=null")
    return found.miss, found.false_alarm


def _usable(source: str, rate: float) -> float:
    if not 0 < rate < LIKELY:
        raise AssayError(
            f"crowd.error_rate={source} finds {rate:.3g}, and an error rate is between 0 and .5; "
            "give crowd.error_rate=null and aggregation.error_rate a number"
        )
    return rate


def _gold(inputs: dict[str, Path], study: pd.DataFrame) -> pd.DataFrame:
    """Return image_id, description, answer of the study's pairs whose text the attributes express."""
    images = read_table(inputs["images"] / "images.parquet")["image_id"]
    row_of = pd.Series(range(len(images)), index=images)
    pairs = asked(study)[PAIR].drop_duplicates(ignore_index=True)
    texts = pairs["description"].unique().tolist()
    truths = pd.DataFrame(_truths(inputs, texts), columns=texts)
    rows = row_of.loc[pairs["image_id"]].to_numpy()
    columns = pd.Index(texts).get_indexer(pairs["description"])
    answers = pairs.assign(answer=truths.to_numpy()[rows, columns])
    return answers[answers["answer"].notna()]


def _from_images(config: dict[str, Any], inputs: dict[str, Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = rows_of_split(inputs["splits"], config["evaluation"]["split"], "evaluation.split")
    explanations = read_table(inputs["explanations"] / "explanations.parquet")
    made_of = compositions(explanations).values()
    concepts = [*dict.fromkeys(concept for each in made_of for concept in concepts_of(each))]
    units = sorted(explanations["unit"].unique())
    activations = of_units(inputs, units, rows)
    presence = _probabilities if config["scoring"]["name"] == "automatic" else _truths
    scores = correlation_scores(explanations, activations, units, presence(inputs, concepts)[rows], concepts)
    return scores, read_table(inputs["explanations"] / "unexplained.parquet")


def _probabilities(inputs: dict[str, Path], descriptions: list[str]) -> Any:
    texts = read_table(inputs["probabilities"] / "texts.parquet")["description"].tolist()
    array = read_array(inputs["probabilities"] / "probabilities.npy")
    return array[:, [texts.index(text) for text in descriptions]]


def _truths(inputs: dict[str, Path], descriptions: list[str]) -> Any:
    return truths(inputs["labels"], descriptions)


def truths(labels: Path, descriptions: list[str]) -> Any:
    """Return what the attributes of the labels stage say of each text (N, T), NaN where they cannot say."""
    names = read_table(labels / "attributes.parquet")["name"].tolist()
    attributes = read_array(labels / "attributes.npy")
    concepts = np.full((len(attributes), len(descriptions)), np.nan)
    for column, text in enumerate(descriptions):
        truth = concept_truth(text, names, attributes)
        if truth is not None:
            concepts[:, column] = truth
    return concepts


REASONS = {
    "no_explanation": "no text",
    "no_truth": "a text that no attributes express",
    "no_ratings": "no rating",
    "constant_activation": "one activation on all these images",
    "constant_concept": "a concept that is on all or none of these images",
}


def _unscored(table: pd.DataFrame) -> list[str]:
    """Say how many units have no score, by method and reason, with a text that nobody can judge."""
    notes = []
    for method, rows in table[table["estimate"].isna()].groupby("method"):
        flags = rows["flags"].str.split(";").explode()
        counts = {reason: int((flags == flag).sum()) for flag, reason in REASONS.items()}
        why = ", ".join(f"{count} have {reason}" for reason, count in counts.items() if count)
        unknown = rows.loc[rows["flags"].str.contains("no_truth|no_ratings"), "description"]
        example = f", such as {unknown.iloc[0]!r}" if len(unknown) else ""
        whole = int((table["method"] == method).sum())
        notes.append(
            f"{method}: {len(rows)} of {whole} units have no score: {why or 'see the flags'}{example}"
        )
    return notes


def _notes(table: pd.DataFrame) -> list[str]:
    notes = _unscored(table)
    partial = int(table["flags"].str.contains("unrated_draws", regex=False).sum())
    if partial:
        notes.append(
            f"{partial} of {len(table)} scores lack ratings of some draws: a preview (unrated_draws)"
        )
    if flagged := int(table["flags"].str.contains("rare_or_blind", regex=False).sum()):
        notes.append(
            f"{flagged} of {len(table)} intervals are flagged rare_or_blind: where the concept is rare, "
            f"such held the truth {FLAGGED_COVERAGE} of the time in simulation (docs/coverage.md)"
        )
    return notes
