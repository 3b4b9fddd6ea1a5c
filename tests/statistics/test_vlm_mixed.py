"""F over random by mixed models: the chosen one first, the paper's beside it, and what their notes say."""

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.statistics import fit
from pipeline.statistics.mixed.defaults import VARIANTS
from pipeline.statistics.mixed.table import ADVICE, ASIDE, COLUMNS, SIGNS
from pipeline.statistics.vlm_mixed import mixed_table
from tests.statistics.test_mixed_tables import scores

FACTORS = ["vlm", "questions"]
NAMES = {"e0": "random", "e1": "rollout", "e2": "ig", "e3": "tam"}
NAN = float("nan")


def scored(n_vlms: int = 1, n_questions: int = 1, n_samples: int = 12, n_explainers: int = 4) -> pd.DataFrame:
    table = scores(n_samples, n_explainers, n_vlms, n_questions)
    named = table.rename(columns={"dataset": "questions", "sample": "sample_id"})
    return named.assign(explainer=named["explainer"].map(NAMES))


def facts(table: pd.DataFrame) -> list[tuple[str, bool]]:
    """Return each model and whether it is the paper's, in the order of the rows."""
    return list(dict.fromkeys(zip(table["model"], table["same_as_paper"].astype(bool), strict=True)))


def notes(table: pd.DataFrame, model: str) -> str:
    (found,) = set(table.loc[table["model"] == model, "notes"])
    return str(found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_one_model_and_one_question_set_every_variant_is_the_papers_and_stands_once(
    variant: str,
) -> None:
    found = mixed_table(scored(), FACTORS, variant=variant)
    assert facts(found) == [(variant, True)]
    assert set(found["formula"]) == {"f ~ explainer + (1|sample)"}
    assert notes(found, variant) == "One model and one question set: nothing is said about others."


def test_estimates_are_differences_from_random_highest_first() -> None:
    table = scored()
    found = mixed_table(table, FACTORS)
    means = table.groupby("explainer")["f"].mean()
    expected = (means - means["random"]).drop("random").sort_values(ascending=False)
    assert list(found["explainer"]) == list(expected.index)
    assert list(found["estimate"]) == pytest.approx(list(expected))
    assert list(found.columns) == ["model", "explainer", "reference", *COLUMNS, *SIGNS, *ASIDE]
    assert set(found["reference"]) == {"random"}


@pytest.mark.parametrize("variant", ["default", "fixed"])
def test_the_paper_stands_beside_a_variant_with_another_formula(variant: str) -> None:
    table = scored(n_vlms=3, n_questions=2)
    found = mixed_table(table, FACTORS, variant=variant, confidence=0.9)
    assert facts(found) == [(variant, False), ("paper", True)]
    for _, own in found.groupby("model", sort=False):
        assert list(own["estimate"]) == sorted(own["estimate"], reverse=True)
        sample = table["questions"] + table["sample_id"]
        direct = fit(table.assign(sample=sample), own["formula"].iloc[0], "random", 0.9).against_reference()
        known = direct.set_index("left").loc[own["explainer"]]
        assert list(own["low"]) == pytest.approx(list(known["low"]))
        assert list(own["p_holm"]) == pytest.approx(list(known["p_adjusted"]))


def test_the_paper_alone_has_no_other_beside_it() -> None:
    found = mixed_table(scored(n_vlms=3, n_questions=2), FACTORS, variant="paper")
    assert facts(found) == [("paper", True)]
    assert set(found["formula"]) == {"f ~ explainer + (1|sample) + (1|vlm) + (1|questions)"}


def test_fixed_has_models_and_question_sets_of_few_levels_in_its_fixed_part() -> None:
    found = mixed_table(scored(n_vlms=2, n_questions=2), FACTORS, variant="fixed")
    assert found["formula"].iloc[0].startswith("f ~ explainer + vlm + questions + (1|sample)")


def test_advice_is_given_where_it_can_be_taken_and_is_not_taken_yet() -> None:
    table = scored(n_vlms=2, n_questions=1, n_explainers=2)
    by_default = mixed_table(table, FACTORS)
    assert f"vlm has 2 levels: fewer than 5 barely tell the variance of a random factor{ADVICE}." in notes(
        by_default, "default"
    )
    assert "vlm:explainer has 4 levels: fewer than 5 barely tell the variance of a random factor." in notes(
        by_default, "default"
    )
    done = mixed_table(table, FACTORS, variant="fixed")
    assert "vlm:explainer has 4 levels" in notes(done, "fixed")
    assert "vlm has 2 levels" in notes(done, "paper")
    assert not done["notes"].str.contains("stats=fixed").any()


def test_one_group_of_one_level_is_named_and_its_terms_are_not_listed() -> None:
    found = mixed_table(scored(n_vlms=3, n_questions=1), FACTORS)
    assert notes(found, "default").startswith(
        "One question set: nothing is said about others. vlm has 3 levels"
    )
    assert "left out" not in notes(found, "default")


def test_a_term_that_is_left_out_for_another_reason_is_named() -> None:
    table = scored(n_vlms=2, n_samples=1)
    assert "(1|sample) is left out: sample has one level only." in notes(
        mixed_table(table, FACTORS), "default"
    )


def test_rows_without_f_are_counted() -> None:
    table = scored()
    table.loc[table["explainer"] == "ig", "f"] = [NAN, NAN, *[0.5] * 10]
    assert "2 of 48 rows have no score and are left out (ig 2)." in notes(
        mixed_table(table, FACTORS), "default"
    )


def test_a_sample_is_one_of_its_questions_so_that_models_share_it() -> None:
    one = scored(n_vlms=2)
    other = one.assign(questions="other", f=one["f"] + np.linspace(0, 0.1, len(one)))
    found = mixed_table(pd.concat([one, other]), FACTORS, variant="paper")
    both = pd.concat([one, other]).assign(sample=lambda t: t["questions"] + t["sample_id"])
    direct = fit(both, "f ~ explainer + (1|sample) + (1|vlm) + (1|questions)", "random")
    assert found.set_index("explainer")["std_error"].to_dict() == pytest.approx(
        direct.against_reference().set_index("left")["std_error"].to_dict()
    )


def test_other_factors_have_models_of_their_own() -> None:
    one = scored()
    table = pd.concat([one.assign(rule="left"), one.assign(rule="mean", f=-one["f"])], ignore_index=True)
    found = mixed_table(table, [*FACTORS, "rule"])
    left, mean = (found[found["rule"] == rule].set_index("explainer") for rule in ("left", "mean"))
    assert left["estimate"].to_dict() == pytest.approx((-mean["estimate"]).to_dict())
    assert left["estimate"].to_dict() == pytest.approx(
        mixed_table(one, FACTORS).set_index("explainer")["estimate"].to_dict()
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kept", [["rollout", "ig"], ["random"], []])
def test_without_random_or_with_it_alone_there_is_no_row(kept: list[str]) -> None:
    table = scored()
    found = mixed_table(table[table["explainer"].isin(kept)], FACTORS)
    assert found.empty
    assert {*COLUMNS, "formula", "same_as_paper"} <= {*found.columns}


@pytest.mark.filterwarnings("error")
def test_scores_that_are_all_missing_are_said_to_be() -> None:
    found = mixed_table(scored().assign(f=NAN), FACTORS)
    assert found["estimate"].isna().all()
    assert "No row has a score" in found["notes"].iloc[0]
    assert "nothing is said about others" not in found["notes"].iloc[0]


def test_an_unknown_variant_is_refused_even_where_there_is_nothing_to_fit() -> None:
    with pytest.raises(AssayError, match="variant 'papers' is unknown; there are default, paper, fixed"):
        mixed_table(scored().iloc[:0], FACTORS, variant="papers")
