"""The findings of a fit as sentences."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.statistics import fit
from pipeline.statistics.mixed.sentences import finding_sentences, shown, shown_p
from tests.statistics.test_mixed_tables import scores

FORMULA = "f ~ explainer + (1|sample) + (1|vlm)"


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(0.21, 2, ".21"), (-0.05, 2, "-.05"), (1.3, 2, "1.30"), (-10.0, 1, "-10.0"), (0.999, 2, "1.00")],
)  # fmt: skip
def test_numbers_have_no_zero_before_the_point(value: float, digits: int, expected: str) -> None:
    assert shown(value, digits) == expected


def test_a_small_p_is_bounded() -> None:
    assert [shown_p(p) for p in (1e-9, 0.0124, 1.0)] == ["p < .001", "p = .012", "p = 1.000"]


def test_each_level_is_told_from_the_reference_or_not_the_highest_first() -> None:
    table = scores(n_samples=60)
    shift = table["explainer"].map({"e0": 0.0, "e1": 0.21, "e2": -0.3, "e3": 0.0})
    found = fit(table.assign(f=table["f"] + shift), FORMULA, reference="e0")
    rows = found.against_reference().set_index("left")
    sentences = finding_sentences(found)
    assert [sentence.split()[0] for sentence in sentences] == rows["estimate"].sort_values()[
        ::-1
    ].index.tolist()
    low, high = rows.loc["e1", ["low", "high"]]
    size = shown(rows.loc["e1", "estimate"], 2)
    assert sentences[0] == (
        f"e1 scores {size} above e0 (95% {shown(low, 2)} to {shown(high, 2)}, Holm p < .001)."
    )
    low, high = rows.loc["e2", ["low", "high"]]
    size = shown(-rows.loc["e2", "estimate"], 2)
    assert sentences[-1] == (
        f"e2 scores {size} below e0 (95% {shown(-high, 2)} to {shown(-low, 2)}, Holm p < .001)."
    )


def test_what_is_not_significant_is_not_called_a_difference() -> None:
    table = scores(n_samples=10)
    centred = table.assign(f=table["f"] - table.groupby("explainer")["f"].transform("mean"))
    sentences = finding_sentences(fit(centred, FORMULA, reference="e0"))
    assert len(sentences) == 3
    assert all("cannot be told from e0" in sentence for sentence in sentences)


def test_without_a_reference_the_highest_is_compared_with_each_other() -> None:
    table = scores(n_samples=60)
    shift = table["explainer"].map({"e0": 0.0, "e1": 0.21, "e2": 0.7, "e3": 0.0})
    found = fit(table.assign(f=table["f"] + shift), FORMULA)
    sentences = finding_sentences(found)
    assert [sentence.split()[0] for sentence in sentences] == ["e2"] * 3
    assert sorted(sentence.split()[4] for sentence in sentences) == ["e0", "e1", "e3"]


def test_nothing_to_compare_and_no_test_are_said() -> None:
    table = scores()
    one = fit(table[table["explainer"] == "e1"], FORMULA)
    assert finding_sentences(one) == ["There is one explainer only, so nothing is compared."]
    nothing = finding_sentences(fit(table.assign(f=np.nan), FORMULA, reference="e0"), "method")
    assert nothing[0] == "No method could be tested."
    assert nothing[-1] == "No row has a score, so nothing can be said."


def test_a_difference_is_told_at_the_level_of_its_interval() -> None:
    """At 99% a p of .03 beside an interval that holds 0 is no difference."""
    table = scores(n_samples=12, seed=5)
    table = table[table["explainer"].isin(["e0", "e1"])]
    gap = fit(table, FORMULA, reference="e0").against_reference()
    shift = (2.2 * gap["std_error"] - gap["estimate"]).iloc[0]
    moved = table.assign(f=table["f"] + shift * (table["explainer"] == "e1"))
    (at_95,), (at_99,) = (finding_sentences(fit(moved, FORMULA, "e0", level)) for level in (0.95, 0.99))
    assert at_95.startswith("e1 scores") and "cannot be told from" in at_99


def test_a_fit_that_did_not_converge_tells_nothing() -> None:
    found = replace(
        fit(scores(n_samples=60), FORMULA, reference="e0"), converged=False, notes=("It did not.",)
    )
    assert finding_sentences(found) == ["No explainer is told from another.", "It did not."]
