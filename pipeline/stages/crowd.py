"""crowd: people's ratings, simulated or from a frozen study."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.posterior import ERROR_RATE
from pipeline.crowd.aggregation.votes import PAIR
from pipeline.crowd.composites import asked
from pipeline.crowd.simulated import simulate
from pipeline.crowd.stopping import n_asked, stop_prior
from pipeline.crowd.truth import concept_truth
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write ratings.parquet and rejected.parquet."""
    pairs = asked(read_table(inputs["sampling"] / "study.parquet"))[PAIR].drop_duplicates(ignore_index=True)
    ratings, rejected = (_simulated if config["crowd"]["name"] == "simulated" else _collected)(
        config, inputs, pairs
    )
    write_table(ratings, output / "ratings.parquet")
    write_table(rejected, output / "rejected.parquet")
    rated = set(ratings["description"])
    unrated = [text for text in pairs["description"].unique() if text not in rated]
    notes = [f"{len(unrated)} descriptions have no rating: {', '.join(map(repr, unrated[:5]))}"]
    return (notes if unrated else []) + _unrated(config, pairs, ratings) + _saving(config, ratings)


def _unrated(config: dict[str, Any], pairs: pd.DataFrame, ratings: pd.DataFrame) -> list[str]:
    """Say how many inputs of a frozen study nobody has rated yet."""
    if config["crowd"]["name"] != "files":
        return []
    missing = len(pairs) - len(ratings[PAIR].drop_duplicates())
    return [f"{missing} of {len(pairs)} inputs have no rating yet"] if missing else []


def _saving(config: dict[str, Any], ratings: pd.DataFrame) -> list[str]:
    if config["crowd"].get("stop") != "decisive" or ratings.empty:
        return []
    full = len(ratings.drop_duplicates(PAIR)) * config["crowd"]["n_raters"]
    saved = full - len(ratings)
    return [f"stopping once decisive saved {saved} of {full} ratings ({saved / full:.0%})"]


def _simulated(
    config: dict[str, Any], inputs: dict[str, Path], pairs: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    images = read_table(inputs["images"] / "images.parquet")
    names = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    attributes = read_array(inputs["labels"] / "attributes.npy")
    row_of = pd.Series(range(len(images)), index=images["image_id"])
    truths = []
    for description, part in pairs.groupby("description", sort=False):
        truth = concept_truth(str(description), names, attributes)
        if truth is not None:
            truths.append(part.assign(truth=truth[row_of.loc[part["image_id"]].to_numpy()]))
    known = pd.concat(truths).sort_index() if truths else pairs.head(0).assign(truth=0.0)
    ratings = simulate(known.reset_index(drop=True), **keywords(simulate, config["crowd"]))
    if config["crowd"].get("stop") == "decisive":
        ratings = _until_decisive(ratings, config, inputs)
    return ratings, ratings.head(0).assign(reason="")


def _until_decisive(ratings: pd.DataFrame, config: dict[str, Any], inputs: dict[str, Path]) -> pd.DataFrame:
    """Leave out the ratings that an adaptive study would not have asked for."""
    n_raters, aggregation = config["crowd"]["n_raters"], config["aggregation"]
    study = asked(read_table(inputs["sampling"] / "study.parquet")).drop_duplicates(PAIR).set_index(PAIR)
    pairs = pd.MultiIndex.from_frame(ratings[PAIR].iloc[::n_raters])
    prior = stop_prior(aggregation, study["probability"].reindex(pairs).to_numpy(dtype=np.float64))
    votes = ratings["rating"].to_numpy().reshape(-1, n_raters)
    n_given = n_asked(votes, prior, aggregation.get("error_rate", ERROR_RATE))
    return ratings[(np.arange(n_raters) < n_given[:, None]).ravel()].reset_index(drop=True)


def _collected(
    config: dict[str, Any], inputs: dict[str, Path], pairs: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep ratings of this part of the study; every other is rejected, with the reason."""
    ratings = read_table(config["crowd"]["study"]["ratings"])
    study = asked(read_table(config["crowd"]["study"]["study"]))
    here, anywhere = _pairs(pairs), _pairs(study)
    pairs_rated = list(zip(ratings["image_id"], ratings["description"], strict=True))
    reasons = [
        ""
        if pair in here
        else "another part of the study"
        if pair in anywhere
        else "never asked for by the study"
        for pair in pairs_rated
    ]
    table = ratings.assign(reason=reasons)
    used, rejected = table[table["reason"] == ""].drop(columns="reason"), table[table["reason"] != ""]
    assert len(used) + len(rejected) == len(ratings)
    return used, rejected


def _pairs(table: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(table["image_id"], table["description"], strict=True))
