"""The questions and ratings behind the scores of a sweep's points."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.votes import PAIR
from pipeline.crowd.composites import asked
from pipeline.files import read_json
from pipeline.stages.scoring import truths
from pipeline.stages.tables import read_table

Point = Mapping[str, Any]
Inputs = Mapping[str, Sequence[Path]]
QUESTION = ["method", "unit", *PAIR]
RATING = [*PAIR, "worker", "assignment", "rating", "source"]


def gather_ratings(points: Sequence[Point], inputs: Inputs) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the questions and ratings of all points that are scored by people, as `cost_table` takes them.

    truth is what the labels say, where the point has labels and these express the text.
    """
    folder_of = {(stage, folder.name): folder for stage, folders in inputs.items() for folder in folders}
    questions, ratings = [], []
    for point in points:
        folders = {stage: folder_of[stage, key] for stage, key in point["keys"].items()}
        if "crowd" in folders:
            own = _questions(folders)
            questions.append(named(own, point))
            ratings.append(named(_ratings(folders, own), point))
    factors = list(points[0]["factors"])
    return (
        _joined(questions, [*QUESTION, "n_images", *factors]),
        _joined(ratings, ["method", *RATING, "truth", *factors]),
    )


def named(table: pd.DataFrame, point: Point) -> pd.DataFrame:
    """Return a point's table with its factors; a method's variant is part of its name."""
    own = f" ({point['variant']})" if point["variant"] else ""
    return table.assign(method=table["method"] + own, **point["factors"])


def _questions(folders: Mapping[str, Path]) -> pd.DataFrame:
    draws = asked(read_table(folders["sampling"] / "study.parquet"))
    facts = read_json(folders["sampling"] / "facts.json")
    return draws[QUESTION].drop_duplicates(ignore_index=True).assign(n_images=facts["n_images"])


def _ratings(folders: Mapping[str, Path], questions: pd.DataFrame) -> pd.DataFrame:
    """Return the ratings of each method's questions, with the truth of each."""
    given = read_table(folders["crowd"] / "ratings.parquet")[RATING]
    whose = questions[["method", *PAIR]].drop_duplicates()
    return whose.merge(given.assign(truth=_truth(folders, given)), on=PAIR, how="inner")


def _truth(folders: Mapping[str, Path], ratings: pd.DataFrame) -> Any:
    """Return what the labels say of each rating's image and text (n,), NaN where they do not."""
    if "labels" not in folders or "images" not in folders:
        return np.full(len(ratings), np.nan)
    images = pd.Index(read_table(folders["images"] / "images.parquet")["image_id"])
    texts = pd.Index(ratings["description"].unique())
    known = truths(folders["labels"], texts.tolist())
    return known[images.get_indexer(ratings["image_id"]), texts.get_indexer(ratings["description"])]


def _joined(tables: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
