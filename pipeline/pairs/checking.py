"""Does a classifier see the change that a pair is said to show?"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit

Probabilities = NDArray[np.floating]
SIDES = ("added", "removed")


def verdicts(
    table: pd.DataFrame,
    before: Probabilities,
    after: Probabilities,
    known: NDArray[np.bool_],
    odds: float = 2.0,
) -> pd.DataFrame:
    """Return pair_id, each change's probability before and after, and the classifier's verdict.

    table: a PairSet's, P pairs; before, after: (P, A) probabilities of the attributes in the two images;
    known: (A,), False where the classifier could not be trained. Columns p_added_before, p_added_after,
    p_removed_before, p_removed_after are NaN where a pair adds or removes nothing. classifier is "yes"
    where the odds of what is added rise at least `odds` times and those of what is removed fall as much,
    "" where one of these attributes is not known, else "no". Odds of 0 or infinity that stay are no change.
    """
    columns: dict[str, object] = {"pair_id": table["pair_id"].to_numpy()}
    right, told = np.ones(len(table), dtype=bool), np.ones(len(table), dtype=bool)
    for side, sign in zip(SIDES, (1, -1), strict=True):
        attribute = table[side].to_numpy(dtype=np.int64)
        has = attribute >= 0
        pair = np.arange(len(table))
        was, now = (np.where(has, p[pair, attribute], np.nan) for p in (before, after))
        columns[f"p_{side}_before"], columns[f"p_{side}_after"] = was, now
        with np.errstate(invalid="ignore"):
            change = sign * (logit(now) - logit(was))
        right &= ~has | ((change >= np.log(odds)) & (change > 0))
        told &= ~has | known[attribute]
    columns["classifier"] = np.where(told, np.where(right, "yes", "no"), "")
    return pd.DataFrame(columns)
