"""Composite explanations among draws: what people are asked about, and what their answers come to."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from pipeline.composition import Composition, Linear, combine, concepts_of, from_json, polarity
from pipeline.crowd.arrays import FloatArray

PAIR = ["image_id", "description"]
COMPOSITION = "composition"
PROBABILITIES = "concept_probabilities"
BAND = float(np.log(2))
SHIFTED = {"value_below": -BAND, "value_above": BAND}
"""Columns of values whose concepts' log odds are moved: for the prior-sensitivity band.

A concept that lowers the value moves the other way, so that these are the ends of what such priors allow.
"""


@cache
def composition(text: str) -> Composition:
    """Return the composition that a cell of a table of ours holds."""
    return from_json(text, "column composition")


def compositions(table: pd.DataFrame) -> dict[str, Composition]:
    """Return description to composition for the texts of a table: a plain text is its own composition.

    table has description and maybe composition (JSON; blank or absent: a plain text).
    """
    cells = _cells(table)
    return {
        str(text): composition(cell) if cell else str(text)
        for text, cell in zip(table["description"], cells, strict=True)
    }


def is_linear(table: pd.DataFrame) -> pd.Series:
    """Return for each row whether its text is a weighted sum, which has no probability."""
    return _cells(table).map(lambda cell: bool(cell) and isinstance(composition(cell), Linear)).astype(bool)


def is_composite(table: pd.DataFrame) -> pd.Series:
    """Return for each row whether its text is made of several concepts."""
    return _cells(table) != ""


def asked(draws: pd.DataFrame) -> pd.DataFrame:
    """Return draws with a row a concept: what people are asked about.

    Of a composite text each concept takes the place of description, and its probability that of
    probability (concept_probabilities: in the order of `concepts_of`). Other rows stay as they are.
    """
    if COMPOSITION not in draws:
        return draws
    composite = is_composite(draws)
    rows = draws[composite]
    concepts = [list(concepts_of(composition(cell))) for cell in rows[COMPOSITION]]
    taken = rows.assign(description=pd.Series(concepts, index=rows.index, dtype=object))
    columns = ["description"]
    if PROBABILITIES in draws:
        taken = taken.assign(probability=taken[PROBABILITIES])
        columns.append("probability")
    parts = pd.concat([draws[~composite], taken.explode(columns)]).sort_index(kind="stable")
    kept = parts.drop(columns=[COMPOSITION, PROBABILITIES], errors="ignore").reset_index(drop=True)
    return kept.astype(
        {"description": "str", **({"probability": "float64"} if PROBABILITIES in draws else {})}
    )


def composed(values: pd.DataFrame, draws: pd.DataFrame) -> pd.DataFrame:
    """Return the values of the draws' pairs: those of a composite text from its concepts' values.

    values: image_id, description (a concept), value, yes, n_ratings, flags. An image of which some concept
    has no value has none. yes and n_ratings of a composite are sums over its concepts, flags their union;
    value_below and value_above are the ends of its value if the concepts' odds were half or twice as high.
    """
    if COMPOSITION not in draws or not is_composite(draws).any():
        return values
    composite = draws[is_composite(draws)]
    plain = draws.loc[~is_composite(draws), PAIR].drop_duplicates()
    kept = values.merge(plain, on=PAIR)
    made = [
        _of_text(values, str(text), composition(cell), pd.Index(own["image_id"].unique()))
        for (text, cell), own in composite.groupby(["description", COMPOSITION], sort=False)
    ]
    return pd.concat([kept, *made], ignore_index=True)


def _of_text(values: pd.DataFrame, text: str, made_of: Composition, images: pd.Index) -> pd.DataFrame:
    """Return the values of one composite text on those images of which every concept has a value."""
    concepts = concepts_of(made_of)
    of_concept = {c: values[values["description"] == c].set_index("image_id") for c in concepts}
    for table in of_concept.values():
        images = images[images.isin(table.index)]
    tables = [table.loc[images] for table in of_concept.values()]
    exact = {c: t["value"].to_numpy(np.float64) for c, t in zip(concepts, tables, strict=True)}
    found = {"value": combine(made_of, exact)}
    signs = polarity(made_of)
    found |= {name: combine(made_of, _moved(exact, signs, shift)) for name, shift in SHIFTED.items()}
    counts = {name: sum(t[name].to_numpy(np.int64) for t in tables) for name in ("yes", "n_ratings")}
    words = zip(*(table["flags"] for table in tables), strict=True)
    flags = [";".join(sorted({w for cell in cells for w in cell.split(";") if w})) for cells in words]
    columns = {"image_id": images, "description": text, **found, **counts, "flags": flags}
    return pd.DataFrame(columns)


def _moved(values: Mapping[str, FloatArray], signs: Mapping[str, int], shift: float) -> dict[str, FloatArray]:
    """Move the log odds of every concept to where the composite's value goes by `shift`'s sign."""
    with np.errstate(divide="ignore"):
        return {
            concept: np.asarray(expit(logit(value) + signs[concept] * shift))
            for concept, value in values.items()
        }


def _cells(table: pd.DataFrame) -> pd.Series:
    if COMPOSITION not in table:
        return pd.Series("", index=table.index, dtype="str")
    return table[COMPOSITION].fillna("").astype("str")
