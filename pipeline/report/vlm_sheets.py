"""What the page of samples shows of each: the question, the answer, and what every explainer made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, nan
from pathlib import Path

import pandas as pd

from pipeline.report.vlm_drawing import Tables, cells_of
from pipeline.report.vlm_pixels import canvas_uri

MAX_SHEETS = 200
DIGITS = 3
"""Of F where it is shown."""

Key = tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """What one explainer made of a sample.

    patches (m,), tokens (n,): its scores, empty where it failed. ins, del_ (K,): the synergy curves. f, f_sd:
    mean and sd over n_orders tie-breaks, NaN without F. rank: of f, to DIGITS decimals, among the n_ranked
    explainers of this sample, 1 the highest, equals share the better one; 0 without F. flags: what is amiss,
    in the tables' words.
    """

    explainer: str
    patches: tuple[float, ...]
    tokens: tuple[float, ...]
    ins: tuple[float, ...]
    del_: tuple[float, ...]
    f: float
    f_sd: float
    n_orders: int
    auc_ins: float
    auc_del: float
    patch_tie_share: float
    token_tie_share: float
    rank: int
    n_ranked: int
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """One sample: the canvas (data URI, "" where there is none; width and height in pixels) and its grid.

    probability: of the given answer. dividend: D, NaN without F. flag: why nothing was asked, or "".
    explanations: in the order of mean F over the cell's samples, highest first.
    """

    sample_id: str
    canvas: str
    size: tuple[int, int]
    grid: tuple[int, int]
    category: str
    question: str
    tokens: tuple[str, ...]
    expected: str
    answer: str
    correct: bool
    probability: float
    dividend: float
    flag: str
    explanations: tuple[Explanation, ...]


def sheets_of(
    tables: Tables, images: Mapping[Key, Path], cell: Sequence[str], *, limit: int = MAX_SHEETS
) -> list[Sheet]:
    """Return the sheets of a cell's first `limit` samples, in the order of `samples`.

    tables: `samples`, `scores`, `curves` and `maps`. cell: its values in the order of the factors.
    images: the canvas by (*cell, sample_id); a sample without one has a sheet without a picture. An
    explainer without a row in `maps` or `curves` has empty scores or curves.
    """
    found = next(each for each in cells_of(tables["samples"]) if each.values == tuple(cell))
    own = {name: found.rows(tables[name]) for name in ("samples", "scores", "curves", "maps")}
    samples = own["samples"].head(limit)
    scores = own["scores"]
    order = _by_mean_f(scores)
    rows = {name: _by_sample(own[name], samples) for name in ("scores", "curves", "maps")}
    sheets = []
    for _, sample in samples.iterrows():
        key = str(sample["sample_id"])
        found_rows = (rows[name].get(key) for name in ("scores", "curves", "maps"))
        explanations = _explanations(order, *found_rows)
        sheets.append(_sheet(sample, explanations, rows["scores"].get(key), images.get((*cell, key))))
    return sheets


def _by_mean_f(scores: pd.DataFrame) -> list[str]:
    means = scores.groupby("explainer")["f"].mean().sort_index()
    return [str(name) for name in means.sort_values(ascending=False, kind="stable", na_position="last").index]


def _by_sample(table: pd.DataFrame, samples: pd.DataFrame) -> dict[str, pd.DataFrame]:
    shown = table[table["sample_id"].isin(samples["sample_id"])]
    return {str(key): rows for key, rows in shown.groupby("sample_id")}


def _sheet(
    sample: pd.Series, explanations: tuple[Explanation, ...], scores: pd.DataFrame | None, path: Path | None
) -> Sheet:
    canvas, size = (
        canvas_uri(path) if path is not None else ("", (int(sample["columns"]), int(sample["rows"])))
    )
    dividends = [] if scores is None else scores["dividend"].dropna().tolist()
    return Sheet(
        sample_id=str(sample["sample_id"]),
        canvas=canvas,
        size=size,
        grid=(int(sample["rows"]), int(sample["columns"])),
        category=str(sample["category"]),
        question=str(sample["question"]),
        tokens=tuple(map(str, sample["tokens"])),
        expected=str(sample["expected"]),
        answer=str(sample["answer"]),
        correct=bool(sample["correct"]),
        probability=exp(sample["log_probability"]) if pd.notna(sample["log_probability"]) else nan,
        dividend=float(dividends[0]) if dividends else nan,
        flag=_words(sample["flag"]),
        explanations=explanations,
    )


def _explanations(
    order: Sequence[str],
    scores: pd.DataFrame | None,
    curves: pd.DataFrame | None,
    maps: pd.DataFrame | None,
) -> tuple[Explanation, ...]:
    if scores is None:
        return ()
    by_name = {str(row["explainer"]): row for _, row in scores.iterrows()}
    made = {} if maps is None else {str(row["explainer"]): row for _, row in maps.iterrows()}
    paths = {} if curves is None else {str(name): rows for name, rows in curves.groupby("explainer")}
    known = [float(row["f"]) for row in by_name.values() if pd.notna(row["f"])]
    return tuple(
        _explanation(by_name[name], paths.get(name), made.get(name), known)
        for name in order
        if name in by_name
    )


def _explanation(
    score: pd.Series, curves: pd.DataFrame | None, scores: "pd.Series | None", known: Sequence[float]
) -> Explanation:
    f = _number(score["f"])
    points = pd.DataFrame({"point": [], "ins": [], "del": []}) if curves is None else curves
    points = points.sort_values("point").dropna(subset=["ins", "del"])
    return Explanation(
        explainer=str(score["explainer"]),
        patches=() if scores is None else tuple(map(float, scores["patches"])),
        tokens=() if scores is None else tuple(map(float, scores["tokens"])),
        ins=tuple(map(float, points["ins"])),
        del_=tuple(map(float, points["del"])),
        f=f,
        f_sd=_number(score["f_sd"]),
        n_orders=int(score["n_orders"]) if pd.notna(score["n_orders"]) else 0,
        auc_ins=_number(score["auc_ins"]),
        auc_del=_number(score["auc_del"]),
        patch_tie_share=_number(score["patch_tie_share"]),
        token_tie_share=_number(score["token_tie_share"]),
        rank=1 + sum(round(other, DIGITS) > round(f, DIGITS) for other in known) if isfinite(f) else 0,
        n_ranked=len(known),
        flags=tuple(flag for flag in _words(score["flags"]).split(";") if flag),
    )


def _number(value: object) -> float:
    return float(value) if pd.notna(value) else nan  # type: ignore[call-overload, arg-type]


def _words(value: object) -> str:
    return str(value) if pd.notna(value) else ""  # type: ignore[call-overload]
