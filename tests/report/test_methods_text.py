"""The comparison as text: what a reader sees of ranks, shares, counts and errors."""

import numpy as np
import pandas as pd
import pytest

from pipeline.report.methods_text import methods_text
from pipeline.statistics.comparison import compare

FACTORS = ("layer", "scoring")


def scored(scoring: str, **estimates: list[float]) -> list[dict[str, object]]:
    return [
        {"layer": "l", "scoring": scoring, "method": method, "unit": unit, "description": f"text {unit}"}
        | {"estimate": value, "n_images": 9, "n_ratings": 27, "flags": ""}
        for method, values in estimates.items()
        for unit, value in enumerate(values)
    ]


def lines(rows: list[dict[str, object]], **settings: float) -> list[str]:
    return methods_text(compare(pd.DataFrame(rows), factors=FACTORS, **settings)).splitlines()  # type: ignore[arg-type]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_share_of_all_or_no_bootstrap_samples_is_not_called_certain() -> None:
    text = lines(scored("crowd", a=[0.5, 0.6, 0.7], b=[0.1, 0.0, 0.2]))
    named = [dict(zip(cells(text[0]), cells(line), strict=False)) for line in text[1:3]]
    assert [(row["method"], row["P(first)"]) for row in named] == [("a", ">0.99"), ("b", "<0.01")]


def test_the_text_says_what_the_interval_covers_and_that_ratings_are_used_many_times() -> None:
    text = "\n".join(lines(scored("crowd", a=[0.5, 0.6]), confidence=0.975))
    assert "97.5% interval over units, for these images and raters; not the error against the truth" in text
    assert "ratings used" in text


def test_a_rank_on_fewer_units_than_a_method_scored_is_said() -> None:
    text = lines(scored("crowd", a=[0.5, 0.5, 0.1, 0.1], b=[0.45, 0.4, np.nan, np.nan]))
    first = dict(zip(cells(text[0]), cells(text[1]), strict=True))
    assert (first["method"], first["units"], first["common units"]) == ("a", "4", "2")
    assert (first["mean score"], first["mean on these"], first["flags"]) == (
        "0.300",
        "0.500",
        "common_units_only",
    )
    assert any(line.startswith("common_units_only: ") for line in text)


def test_methods_that_share_no_unit_are_shown_without_rank() -> None:
    text = lines(scored("crowd", a=[0.5, 0.4, np.nan], b=[np.nan, np.nan, 0.1]))
    assert [line.split()[:2] for line in text[1:3]] == [["-", "a"], ["-", "b"]]


def test_errors_come_in_the_unit_of_the_score_first_and_the_mean_ratio_last() -> None:
    rows = scored("crowd", a=[0.101, 0.4]) + scored("oracle", a=[0.001, 0.5])
    text = lines(rows, rce_min_truth=0.25)
    start = text.index("error against the attributes")
    shown = dict(zip(cells(text[start + 1]), cells(text[start + 3]), strict=True))
    assert list(shown) == [
        "method", "pairs", "MAE", "bias", "median RCE", "mean RCE, |truth| >= 0.25",
        "pairs, |truth| >= 0.25", "mean RCE",
    ]  # fmt: skip
    assert list(shown.values()) == ["a", "2", "0.100", "0.000", "5010.0%", "20.0%", "1", "5010.0%"]


@pytest.mark.filterwarnings("error")
def test_scores_that_are_all_missing_are_dashes() -> None:
    text = lines(scored("crowd", a=[np.nan, np.nan]))
    assert text[1].split()[:4] == ["-", "a", "-", "-"]


def test_scores_in_which_the_prior_overrules_the_raters_are_counted() -> None:
    rows = scored("crowd", a=[0.5, 0.4], b=[0.1, 0.2]) + [
        {**row, "n_ratings": 0} for row in scored("oracle", a=[0.5, 0.4], b=[0.1, 0.2])
    ]
    assert not any("overrules" in line for line in lines(rows))
    rows[0]["flags"] = rows[3]["flags"] = "no_interval;prior_decides"
    assert any(line.startswith("In 2 of 4 scores from ratings the prior overrules") for line in lines(rows))
