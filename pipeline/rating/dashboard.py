"""What the study's owner sees: how far the ratings are, how well raters agree, who may idle."""

import threading
import time
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.crowd.agreement import krippendorff_alpha, pairwise_agreement, worker_agreement
from pipeline.rating.export import ANSWERS, utc
from pipeline.rating.page import RatingPage
from pipeline.rating.store import Rater, reading
from pipeline.study.frozen import FrozenStudy

FAST_SECONDS = 0.5
"""Less than this an input, in the median over tasks, is suspiciously fast: 7.5 s for 15 images."""
LEAST_TASKS = 2
"""Tasks below which nobody is called suspicious."""
SLOW_SECONDS, SHARE = 1.0, 0.1
"""Facts that take longer than this to make may take this share of the time at most."""
NOTHING: Mapping[Hashable, Any] = {
    "ratings": 0, "yes": 0, "checks": 0, "checks_right": 0,
    "assignments": 0, "seconds": np.nan, "pace": np.nan,
}  # fmt: skip
"""Of a worker without a rating: ratings, yes and checks; tasks, median seconds a task and an input."""


class Dashboard:
    """The facts of a page, for owners who look every few seconds."""

    def __init__(self, page: RatingPage) -> None:
        self._page = page
        self._lock = threading.Lock()
        self._last: dict[str, Any] = {}
        self._cost = self._made = 0.0

    def facts(self) -> dict[str, Any]:
        """Return `facts`; where they take more than a second, no newer than a tenth of the time allows."""
        with self._lock:
            begun = time.monotonic()
            if self._cost > SLOW_SECONDS and begun - self._made < self._cost / SHARE:
                return self._last
            self._last, self._made = facts(self._page), time.monotonic()
            self._cost = self._made - begun
            return self._last


def facts(page: RatingPage) -> dict[str, Any]:
    """Return what the dashboard shows, ready for JSON; None stands for what is not known yet.

    study, n_raters;
    inputs: total, by_ratings (n with 0, 1, ..., m or more ratings), complete, stopped (decisive);
    ratings (on this page), elsewhere (ratings that ingest brought);
    agreement: raw, alpha (both over this page's ratings);
    saved: adaptive, ratings (not asked because an input stopped), share (of all that were planned);
    raters, in the order of their links: label, link, assignments, ratings, seconds (median a task),
    yes (share), agreement (share of other raters' ratings of the same inputs that are the same),
    checks_right, checks, seen (UTC), open (has an open task), flags ("fast", "all no", "failed a check").
    Attention checks count in assignments and seconds only.
    """
    study, seen = page.study, page.overview()
    table = read_ratings(study.folder, study)
    asked = table[table["answer"] == ""]
    m, counts, stopped = study.settings.n_raters, seen["ratings"], seen["stopped"]
    unasked = int(np.clip(m - counts[stopped], 0, None).sum())
    return {
        "study": study.name,
        "n_raters": m,
        "inputs": {
            "total": len(counts),
            "by_ratings": np.bincount(np.minimum(counts, m), minlength=m + 1).tolist(),
            "complete": int((stopped | (counts >= m)).sum()),
            "stopped": int(stopped.sum()),
        },
        "ratings": len(asked),
        "elsewhere": seen["elsewhere"],
        "agreement": {
            "raw": _known(pairwise_agreement(asked)),
            "alpha": _known(krippendorff_alpha(asked)),
        },
        "saved": {
            "adaptive": study.settings.stop == "decisive",
            "ratings": unasked,
            "share": unasked / max(1, m * len(counts)),
        },
        "raters": _raters(table, seen),
    }


def read_ratings(folder: Path, study: FrozenStudy) -> pd.DataFrame:
    """Return a row a rating in force.

    Columns: worker, assignment, input_id, rating (bool), submitted, seconds, image_id, description, answer.
    """
    columns = ["worker", "assignment", "input_id", "rating", "submitted", "seconds"]
    with reading(folder) as connection:
        table = pd.DataFrame(connection.execute(ANSWERS).fetchall(), columns=columns)
    table = table.astype({"rating": bool, "submitted": float, "seconds": float})
    inputs = study.inputs[["input_id", "image_id", "description", "answer"]]
    return table.merge(inputs, on="input_id", how="left", validate="many_to_one")


def _raters(table: pd.DataFrame, seen: dict[str, Any]) -> list[dict[str, Any]]:
    agreement = worker_agreement(table[table["answer"] == ""])
    by_label = by_worker(table).to_dict("index")
    return [
        _rater(rater, by_label.get(rater.label, NOTHING))
        | {
            "agreement": _known(agreement.get(rater.label, np.nan)),
            "seen": utc(seen["seen"][rater.id]) if rater.id in seen["seen"] else None,
            "open": rater.id in seen["open"],
        }
        for rater in seen["raters"]
    ]


def by_worker(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a worker: what `NOTHING` names, as sums over ratings and medians over tasks."""
    is_check, yes = table["answer"] != "", table["rating"]
    votes = pd.DataFrame(
        {
            "worker": table["worker"],
            "ratings": ~is_check,
            "yes": ~is_check & yes,
            "checks": is_check,
            "checks_right": is_check & (yes == (table["answer"] == "yes")),
        }
    )
    tasks = table.groupby(["worker", "assignment"], sort=False, as_index=False).agg(
        seconds=("seconds", "first"), n=("seconds", "size")
    )
    tasks["pace"] = tasks["seconds"] / tasks["n"]
    of_tasks = tasks.groupby("worker").agg(
        assignments=("n", "size"), seconds=("seconds", "median"), pace=("pace", "median")
    )
    return votes.groupby("worker").sum().join(of_tasks)


def _rater(rater: Rater, known: Mapping[Hashable, Any]) -> dict[str, Any]:
    n_ratings = int(known["ratings"])
    return {
        "label": rater.label,
        "link": f"/r/{rater.token}",
        "assignments": int(known["assignments"]),
        "ratings": n_ratings,
        "seconds": _known(known["seconds"]),
        "yes": known["yes"] / n_ratings if n_ratings else None,
        "checks_right": int(known["checks_right"]),
        "checks": int(known["checks"]),
        "flags": _flags(known),
    }


def _flags(known: Mapping[Hashable, Any]) -> list[str]:
    flags = ["failed a check"] if known["checks_right"] < known["checks"] else []
    if known["assignments"] < LEAST_TASKS:
        return flags
    if known["pace"] < FAST_SECONDS:
        flags.append("fast")
    if known["yes"] == 0:
        flags.append("all no")
    return flags


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
