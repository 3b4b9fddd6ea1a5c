"""Simulated raters with known error rates."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import pandas as pd

from pipeline.errors import AssayError

COLUMNS = ("worker", "assignment", "image_id", "description", "rating", "status", "source", "row")


def simulate(
    pairs: pd.DataFrame, *, n_raters: int, miss: float, false_alarm: float, seed: int
) -> pd.DataFrame:
    """Return the ratings of n_raters simulated people for each distinct pair.

    pairs has the columns image_id, description, truth (0, 1, or missing: no rating). The result has
    the columns of a ratings table, in order of first appearance, then rater; `row` is the pair's
    row. A rating is wrong where u < miss (truth 1) or u < false_alarm (truth 0); u in [0, 1) is a
    hash of (seed, image_id, description, rater), so it depends on no other pair, rater, or order.
    Raises AssayError for a missing column, a truth that is neither 0 nor 1, a pair with two truths,
    a rate outside [0, 1], n_raters < 1.
    """
    _check_settings(n_raters, miss, false_alarm)
    known = _known(pairs)
    present = np.repeat(known["truth"].to_numpy(dtype=bool), n_raters)
    digests = list(_digests(known, n_raters, seed))
    uniforms = np.array([int.from_bytes(digest[:8], "big") >> 11 for digest in digests]) * 2.0**-53
    wrong = uniforms < np.where(present, miss, false_alarm)
    return pd.DataFrame(
        {
            "worker": [f"rater{rater}" for rater in range(1, n_raters + 1)] * len(known),
            "assignment": [f"simulated-{digest[8:].hex()}" for digest in digests],
            "image_id": np.repeat(known["image_id"].to_numpy(dtype=object), n_raters),
            "description": np.repeat(known["description"].to_numpy(dtype=object), n_raters),
            "rating": present ^ wrong,
            "status": "Approved",
            "source": "simulated",
            "row": np.repeat(known["row"].to_numpy(dtype=np.int64), n_raters),
        },
        columns=list(COLUMNS),
    ).astype(dict.fromkeys(COLUMNS[:4] + COLUMNS[5:7], "str"))


def _digests(known: pd.DataFrame, n_raters: int, seed: int) -> Iterator[bytes]:
    for image_id, description in zip(
        *(known[name].astype("str") for name in ("image_id", "description")), strict=True
    ):
        # The lengths keep ("ab", "c") and ("a", "bc") apart, whatever the texts hold.
        text = f"{seed} {len(image_id)} {len(description)} {image_id}{description}"
        pair = blake2b(text.encode(), digest_size=16)
        for rater in range(1, n_raters + 1):
            rating = pair.copy()
            rating.update(b" %d" % rater)
            yield rating.digest()


def _known(pairs: pd.DataFrame) -> pd.DataFrame:
    if missing := [name for name in ("image_id", "description", "truth") if name not in pairs]:
        raise AssayError(
            f"pairs lacks the column {missing[0]!r}; it has {', '.join(map(str, pairs.columns))}"
        )
    known = pairs[["image_id", "description", "truth"]].assign(row=np.arange(len(pairs)))
    known = known[known["truth"].notna()]
    if not (legal := known["truth"].isin([0, 1])).all():
        bad = known[~legal].iloc[0]
        raise AssayError(f"truth in row {bad['row']} of pairs is {bad['truth']}; it must be 0, 1 or missing")
    known = known.drop_duplicates(["image_id", "description", "truth"])
    if (twice := known.duplicated(["image_id", "description"])).any():
        bad = known[twice].iloc[0]
        raise AssayError(
            f"row {bad['row']} of pairs gives image {bad['image_id']!r} with {bad['description']!r} another "
            "truth than a row before it; give each pair one truth"
        )
    return known


def _check_settings(n_raters: int, miss: float, false_alarm: float) -> None:
    if n_raters < 1:
        raise AssayError(f"n_raters is {n_raters}; ask at least 1 rater (crowd.n_raters)")
    for name, rate in (("miss", miss), ("false_alarm", false_alarm)):
        if not 0 <= rate <= 1:
            raise AssayError(f"{name} is {rate}; an error rate is in [0, 1] (crowd.{name})")
