"""What people are asked about pairs, and what their answers say of each pair.

An edit is good where people find the added attribute in the after image and the removed one not; with the
before images asked about too, where they find it the other way round there.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.datasets.rows import Row
from pipeline.errors import AssayError

COLUMNS = ("pair_id", "image_id", "attribute", "description", "side", "change", "expected")


def wording(attribute: str) -> str:
    """Return an attribute as people read it: "has_wing_color::light_blue" is "wing color: light blue"."""
    return attribute.removeprefix("has_").replace("::", ": ").replace("_", " ").strip()


def questions(rows: Sequence[Row], *, before: bool, texts: Mapping[str, str]) -> pd.DataFrame:
    """Return what is asked: a row a pair, image (its path) and attribute, columns as COLUMNS.

    before: whether the before images are asked about too. texts: wordings by attribute, instead of
    `wording`; expected is "yes" or "no". Raises AssayError for a wording of an attribute that no pair
    changes, and where two attributes are worded alike.
    """
    told = [
        _question(row, side, change, texts)
        for row in rows
        for side in (("after", "before") if before else ("after",))
        for change in ("added", "removed")
        if row.values[change]
    ]
    table = pd.DataFrame(told, columns=list(COLUMNS), dtype=str)
    if unused := sorted(set(texts) - set(table["attribute"])):
        raise AssayError(f"the texts word {unused[0]!r}, which no pair adds or removes")
    worded = table[["attribute", "description"]].drop_duplicates()
    if (alike := worded.duplicated("description", keep=False)).any():
        first = worded[alike]["attribute"].tolist()[:2]
        raise AssayError(f"{first[0]!r} and {first[1]!r} are worded alike; word one of them with --texts")
    return table


def _question(row: Row, side: str, change: str, texts: Mapping[str, str]) -> tuple[str, ...]:
    attribute = row.values[change]
    text = texts.get(attribute) or wording(attribute)
    expected = "yes" if (change == "added") == (side == "after") else "no"
    return row.values["pair_id"], row.values[side], attribute, text, side, change, expected


def judged(asked: pd.DataFrame, ratings: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return columns by pair_id: `accepted`, and each question's votes, such as "3/3" for yes.

    ratings has image_id, description and rating (bool), a row a person's answer. A pair is accepted ("yes")
    where most people answered each of its questions as expected, not ("no") where most answered one the
    other way, and undecided ("") where a question has no answer or a tie. Votes stand in
    votes_<side>_<change>.
    """
    votes = ratings.groupby(["image_id", "description"])["rating"].agg(["sum", "count"])
    counts = {key: (int(yes), int(n)) for key, yes, n in votes.itertuples(name=None)}
    columns: dict[str, dict[str, str]] = {"accepted": {}}
    agreed: dict[str, list[bool | None]] = {}
    for row in asked.to_dict("records"):
        yes, n = counts.get((row["image_id"], row["description"]), (0, 0))
        columns.setdefault(f"votes_{row['side']}_{row['change']}", {})[row["pair_id"]] = f"{yes}/{n}"
        said = None if 2 * yes == n else (2 * yes > n)
        agrees = None if said is None else said == (row["expected"] == "yes")
        agreed.setdefault(row["pair_id"], []).append(agrees)
    columns["accepted"] = {pair_id: _verdict(answers) for pair_id, answers in agreed.items()}
    return columns


def _verdict(answers: list[bool | None]) -> str:
    if False in answers:
        return "no"
    return "" if None in answers else "yes"
