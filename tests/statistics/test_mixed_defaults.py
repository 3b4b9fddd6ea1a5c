"""Which formula a table gets, by its levels."""

import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.statistics import fit
from pipeline.statistics.mixed.defaults import formula_for
from tests.statistics.test_mixed_tables import scores

GROUPS = ("vlm", "dataset")


def chosen(table: pd.DataFrame, variant: str = "default") -> str:
    return formula_for(table, "f", "explainer", "sample", GROUPS, variant).formula


def test_a_full_table_gets_every_term_and_no_note() -> None:
    found = formula_for(scores(), "f", "explainer", "sample", GROUPS)
    assert found.formula == (
        "f ~ explainer + (1|sample) + (1|vlm) + (1|dataset) + (1|vlm:explainer) + (1|dataset:explainer)"
        " + (1|sample:vlm) + (1|sample:explainer)"
    )
    assert found.notes == ()


def test_the_paper_has_crossed_intercepts_alone() -> None:
    assert chosen(scores(), "paper") == "f ~ explainer + (1|sample) + (1|vlm) + (1|dataset)"


@pytest.mark.parametrize(
    ("n_vlms", "expected"),
    [
        (3, "f ~ explainer + vlm + dataset + (1|sample) + "),
        (5, "f ~ explainer + dataset + (1|sample) + (1|vlm) + "),
    ],
)
def test_fixed_takes_factors_of_few_levels_as_fixed(n_vlms: int, expected: str) -> None:
    rest = "(1|vlm:explainer) + (1|dataset:explainer) + (1|sample:vlm) + (1|sample:explainer)"
    assert chosen(scores(n_vlms=n_vlms), "fixed") == expected + rest


@pytest.mark.parametrize(
    ("size", "expected", "left_out"),
    [
        ({"n_vlms": 1, "n_datasets": 1}, "f ~ explainer + (1|sample)", 4),
        ({"n_vlms": 1}, "f ~ explainer + (1|sample) + (1|dataset) + (1|dataset:explainer)", 2),
        (
            {"n_datasets": 1},
            "f ~ explainer + (1|sample) + (1|vlm) + (1|vlm:explainer) + (1|sample:vlm)"
            " + (1|sample:explainer)",
            2,
        ),
        ({"n_explainers": 1}, "f ~ explainer + (1|sample) + (1|vlm) + (1|dataset)", 3),
        ({"n_samples": 1}, "f ~ explainer + (1|vlm)", 6),
    ],
)
def test_a_term_without_levels_is_left_out_with_a_note(
    size: dict[str, int], expected: str, left_out: int
) -> None:
    table = scores(**size)
    found = formula_for(table, "f", "explainer", "sample", GROUPS)
    assert found.formula == expected
    assert len(found.notes) == left_out
    assert all("is left out" in note for note in found.notes)
    assert not any("is left out" in note for note in fit(table, found.formula).notes)


def test_rows_without_a_score_have_no_levels() -> None:
    table = scores()
    blank = table.assign(f=table["f"].where(table["vlm"] == "v0"))
    assert chosen(blank) == chosen(table[table["vlm"] == "v0"])
    nothing = formula_for(table.assign(f=float("nan")), "f", "explainer", "sample", GROUPS)
    assert nothing.formula == "f ~ explainer"
    assert nothing.notes == ("No row has a score, so no random factor can be chosen.",)


def test_columns_may_have_any_name() -> None:
    table = scores().rename(columns={"vlm": "synergy.rule", "sample": "the sample"})
    found = formula_for(table, "f", "explainer", "the sample", ["synergy.rule"])
    assert "(1|`the sample`:synergy.rule)" in found.formula
    assert fit(table, found.formula).contrasts()["p"].notna().all()


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(AssayError, match="variant 'best' is unknown"):
        chosen(scores(), "best")
