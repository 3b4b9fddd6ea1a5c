"""The report of a sweep: its claims say what the tables show and no more; its page is whole in itself."""

import base64
import io
import json
import re
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.report.interactive import ranking_chart, scatter_chart
from pipeline.report.report_inputs import Point
from pipeline.report.sections import crowd, sae, vlm
from pipeline.report.sections.findings import Difference, mixed_difference, over_reference, scope
from pipeline.report.sections.gallery import gallery_section
from pipeline.report.sections.registry import NAMES
from pipeline.report.sections.settings import own_keys, points_table, settings_section, titles, varying_keys
from pipeline.report.sections.tables import MAX_ROWS, Shown, data_table, keys_of_rows
from pipeline.report.sections.wording import MINUS, is_shown, measured, p_words, share
from pipeline.report.sweep_report import ReportInputs, sweep_report
from tests.report.report_examples import (
    KEY,
    crowd_inputs,
    crowd_scores,
    figure,
    gallery,
    rating_tables,
    sae_inputs,
    vlm_inputs,
)
from tests.report.test_unit_page import EVIL, Page

FAR = {"dissect": 0.6, "csv": 0.3, "random": 0.0}
NEAR = {"dissect": 0.301, "csv": 0.3, "random": 0.0}
NOT_SHOWN = "it is not shown that"


class Report(Page):
    """The tags and the text of a report, without its scripts."""

    VOID = (*Page.VOID, "input")

    def handle_data(self, data: str) -> None:
        if "script" not in self.open:
            super().handle_data(data)


def csv_of(html: str, name: str) -> pd.DataFrame:
    """Read a table back as it is saved from the page."""
    pattern = rf'<a href="data:text/csv;charset=utf-8;base64,([^"]*)" download="trial_{name}.csv">'
    content = re.search(pattern, html)
    assert content, name
    return pd.read_csv(io.BytesIO(base64.b64decode(content[1])), keep_default_na=False, na_values=[""])


# the claim of the crowd track


def test_a_method_that_is_shown_to_be_first_is_said_to_be_above_the_second_and_random() -> None:
    first, over_random, about = crowd.claim(crowd_inputs(crowd_scores(FAR)))
    assert first.startswith("dissect has the highest mean score, 0.6")
    assert "over 12 units: 0.3" in first
    assert "p < .0001 after Holm; paired t test) above the runner-up, csv." in first
    assert "first in >99% of resamples" in first
    assert re.match(r"dissect is 0\.\d+ \(0\.\d+ to 0\.\d+; p < .0001.*\) above random texts\.", over_random)
    assert "one dataset (shapes) and one model (net); it says nothing of another dataset or model." in about
    assert "The raters are simulated, not people." in about


def test_a_lead_that_may_be_chance_is_not_called_better() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores(NEAR, noise=0.2)))[0]
    assert NOT_SHOWN in words
    assert "above the runner-up" not in words


def test_equal_means_are_a_tie_and_none_is_first() -> None:
    scores = crowd_scores({"a": 0.3, "b": 0.3}, noise=0)
    words = crowd.claim(crowd_inputs(scores))
    assert words[0].startswith("a and b tie for the first place: a mean score of 0.300")
    assert words[1] == "No method of random texts was scored, so nothing is compared with chance."


def test_random_in_the_first_place_shows_that_no_method_beats_chance() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores({"random": 0.4, "csv": 0.1})))
    assert words[1] == "Random texts come first: no method is shown to be better than chance."


def test_random_as_the_runner_up_is_compared_once() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores({"csv": 0.4, "random": 0.1})))
    assert "above the runner-up, random" in words[0]
    assert words[1] == "The runner-up is what stands for chance: texts drawn at random."


def test_one_method_is_not_ranked_against_anything() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores({"csv": 0.4})))
    assert words[0].endswith("It is the only method with a score.")
    assert "highest" not in " ".join(words)


def test_one_unit_gives_no_interval_and_no_claim_of_being_better() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores(FAR, n_units=1)))
    assert "(no interval) over 1 unit, but it is not shown that it is better" in words[0]
    assert words[0].endswith("the difference is 0.313 (no interval and no test).")
    assert words[1].startswith("It is not shown that dissect is above random texts")


def test_scores_that_are_all_unknown_rank_nothing_and_are_counted() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores({"csv": nan, "random": nan})))
    assert words[0] == "No score of csv and random is known (24 scores missing), so nothing is ranked."
    assert "24 of 24 scores are missing." in words[1]


def test_methods_without_a_common_unit_are_not_ranked() -> None:
    scores = crowd_scores({"csv": 0.4, "random": 0.1}, n_units=4)
    alone = (scores["method"] == "csv") == (scores["unit"] < 2)
    words = crowd.claim(crowd_inputs(scores[alone]))
    assert words[0].startswith("No unit has a score of each of csv and random")


def test_missing_scores_and_few_ratings_are_told() -> None:
    scores = crowd_scores(FAR)
    scores.loc[0, "estimate"] = nan
    about = crowd.claim(crowd_inputs(scores.assign(n_ratings=12)))[-1]
    assert "1 of 36 scores are missing." in about
    assert "Ratings are few: 1.2 an image and text." in about
    scores.loc[12, "estimate"] = nan
    lacking = scores["method"] == "dissect"
    first = crowd.claim(crowd_inputs(scores.assign(estimate=scores["estimate"].where(~lacking, 0.6))))[0]
    assert "0.600, on units that all methods scored, over 11 units" in first


def test_a_mixed_model_takes_the_place_of_the_paired_test_over_random() -> None:
    words = crowd.claim(crowd_inputs(crowd_scores(FAR), mixed=True))
    assert re.match(r"dissect is 0\.\d+ \(.*; mixed model\) above random texts\.", words[1])


def test_people_are_believed_before_the_scorer_and_the_attributes() -> None:
    parts = [
        ("oracle", {"a": 0.9, "b": 0.1}),
        ("crowd", {"a": 0.1, "b": 0.9}),
        ("automatic", {"a": 0.9, "b": 0}),
    ]
    scores = pd.concat([crowd_scores(levels).assign(scoring=name) for name, levels in parts])
    assert crowd.claim(crowd_inputs(scores))[0].startswith("b has the highest mean score")


# the claims of the other tracks


def explainers(pairs: pd.DataFrame | None = None, **columns: object) -> ReportInputs:
    """Two explainers and random of one cell, with some columns changed."""
    told = {
        "level": "cell",
        "vlm": "tiny",
        "questions": "shapes",
        "rank": [1, 2, 3],
        "explainer": ["rollout", "occlusion", "random"],
        "n_samples": 40,
        "n_missing": 0,
        "mean_f": [0.6, 0.3, 0.1],
        "low": [0.5, 0.2, 0.0],
        "high": [0.7, 0.4, 0.2],
        "over_random": [0.5, 0.2, nan],
        "over_random_low": [0.4, 0.1, nan],
        "over_random_high": [0.6, 0.3, nan],
        "p_random": [0.0001, 0.001, nan],
        "p_first": [0.999, 0.001, 0.0],
        "n_common": 40,
        "mean_common": [0.6, 0.3, 0.1],
        "n_masks": 0,
        "flags": "",
    }
    table = pd.DataFrame(told | columns)
    facts = {"factors": ["vlm", "questions"], "confidence": 0.95}
    tables = {"explainers": table} | ({} if pairs is None else {"pairs": pairs})
    return ReportInputs("vlm", "trial", KEY, tables, facts=facts)


def explainers_in_pairs(**columns: object) -> ReportInputs:
    told = {
        "level": "cell",
        "vlm": "tiny",
        "questions": "shapes",
        "explainer_a": ["occlusion", "occlusion", "random"],
        "explainer_b": ["random", "rollout", "rollout"],
        "n_samples": 40,
        "n_tested": 40,
        "difference": [0.2, -0.3, -0.5],
        "low": [0.1, -0.4, -0.6],
        "high": [0.3, -0.2, -0.4],
        "p_t_holm": 0.0001,
        "p_wilcoxon_holm": 0.0001,
    }
    return explainers(pairs=pd.DataFrame(told | columns))


def test_an_explainer_is_first_only_where_its_lead_over_the_second_is_shown() -> None:
    first, over_random, about = vlm.claim(explainers_in_pairs())
    assert first == (
        "rollout has the highest mean F, 0.600 (95% interval 0.500 to 0.700) over 40 samples: 0.300 (0.200 "
        "to 0.400; p = .0001 after Holm; paired t test) above the runner-up, occlusion (the metric's own "
        "upper bound). It is first in >99% of resamples."
    )
    assert over_random == (
        "rollout is 0.500 (0.400 to 0.600; p = .0001 after Holm; signed-rank test) above the random "
        "explainer."
    )
    assert about.startswith("This is about one model (tiny) and one question set (shapes)")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"high": [0.3, 0.01, -0.4]}, "the difference is 0.300 (\u22120.010 to 0.400; p = .0001 after Holm"),
        ({"p_t_holm": [0.0001, 0.2, 0.0001]}, "the difference is 0.300 (0.200 to 0.400; p = .2 after Holm"),
        ({"difference": nan}, "the difference is 0.300 (no interval and no test)"),
        ({"level": "overall", "difference": nan}, "the difference is 0.300 (no interval and no test)"),
    ],
)
def test_a_lead_that_its_interval_or_its_test_does_not_show_is_called_no_lead(
    columns: dict[str, object], words: str
) -> None:
    claimed = vlm.claim(explainers_in_pairs(**columns))[0]
    assert NOT_SHOWN in claimed
    assert words in claimed


def test_without_a_table_of_pairs_no_explainer_is_called_better() -> None:
    assert NOT_SHOWN in vlm.claim(explainers())[0]


def test_few_samples_show_no_lead_however_many_models_answered_them() -> None:
    assert NOT_SHOWN in vlm.claim(explainers_in_pairs(n_tested=3))[0]


def test_who_is_not_shown_to_be_better_than_the_third_is_not_called_best() -> None:
    wide = {"low": [0.1, -0.4, -1.1], "high": [0.3, -0.2, 0.1]}
    third = {"explainer_a": ["occlusion", "occlusion", "ig"], "explainer_b": ["ig", "rollout", "rollout"]}
    pairs = explainers_in_pairs(**wide, **third).tables["pairs"]
    words = vlm.claim(explainers(pairs, explainer=["rollout", "occlusion", "ig"]))[0]
    assert "it is not shown that it is better than ig: the difference is 0.500" in words


def test_random_has_a_sentence_of_its_own_unless_it_is_the_runner_up() -> None:
    wide = {"low": [0.1, -0.4, -1.1], "high": [0.3, -0.2, 0.1]}
    assert "random" not in vlm.claim(explainers_in_pairs(**wide))[0]
    pairs = explainers_in_pairs(**wide).tables["pairs"]
    second = explainers(pairs, explainer=["rollout", "random", "occlusion"])
    assert "than the runner-up, random: the difference is 0.500" in vlm.claim(second)[0]


def test_a_difference_of_other_samples_than_the_means_says_of_which() -> None:
    assert "paired t test on the 30 samples that both have" in vlm.claim(explainers_in_pairs(n_samples=30))[0]


def test_a_test_and_an_interval_that_disagree_show_nothing() -> None:
    assert vlm.claim(explainers(p_random=[0.2, 0.2, nan]))[1].startswith("It is not shown that rollout")
    low = vlm.claim(explainers(over_random_low=[-0.1, 0.1, nan]))[1]
    assert low.startswith("It is not shown that rollout")


def test_an_explainer_below_random_is_said_to_be_below() -> None:
    below = explainers(
        over_random=[-0.2] * 3, over_random_low=[-0.3] * 3, over_random_high=[-0.1] * 3, p_random=[0.001] * 3
    )
    assert "above" not in vlm.claim(below)[1]
    assert "below the random explainer" in vlm.claim(below)[1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"mean_common": [0.6, 0.6, 0.1]}, "rollout and occlusion tie for the first place"),
        ({"rank": None, "mean_common": nan}, "No sample has an F of each of"),
        (
            {"rank": None, "mean_common": nan, "mean_f": nan, "n_missing": 4},
            "No F of rollout, occlusion and random",
        ),
        ({"explainer": ["random", "occlusion", "rollout"]}, "none is shown to be better than chance"),
        ({"explainer": ["a", "b", "c"]}, "nothing is compared with chance"),
        ({"n_missing": 4}, "12 of 132 values of F are missing."),
        ({"n_common": 30}, "on samples that all explainers have, over 30 samples"),
    ],
)
def test_what_cannot_be_claimed_of_explainers_is_said(columns: dict[str, object], words: str) -> None:
    assert words in " ".join(vlm.claim(explainers(**columns)))


def test_one_explainer_is_not_ranked_against_anything() -> None:
    inputs = explainers()
    alone = replace(inputs, tables={"explainers": inputs.tables["explainers"].head(1)})
    assert vlm.claim(alone)[0].endswith("It is the only explainer with an F.")


def test_where_there_is_no_synergy_the_claim_says_that_f_says_little() -> None:
    inputs = vlm_inputs()
    assert "Where the model answers “no” (3 samples), D is near 0" in vlm.claim(inputs)[-1]


def saes(**columns: object) -> ReportInputs:
    told = {
        "dataset": "shapes",
        "variant": ["topk", "topk", "jumprelu", "jumprelu", "frozen"],
        "dictionary_size": 128,
        "sae_k": 16.0,
        "seed": [0, 1, 0, 1, 0],
        "match_score": [0.6, 0.7, 0.5, 0.8, 0.2],
        "dmatch_score": [0.4, 0.5, 0.3, 0.2, nan],
    }
    facts = {"factors": ["dataset"], "confidence": 0.95}
    return ReportInputs("sae", "trial", KEY, {"saes": pd.DataFrame(told | columns)}, facts=facts)


def test_saes_are_ranked_by_what_training_adds_and_the_lead_is_not_called_proved() -> None:
    words = sae.claim(saes())
    assert words[0] == (
        "topk has the highest mean dMATCHScore, 0.450 over 2 SAEs of its kind: 0.200 above the runner-up, "
        "jumprelu, higher in 2 of 2 pairs of the same size and seed. No test compares the two, so it is not "
        "shown that it is better."
    )
    assert (
        words[1] == "There is no frozen SAE to compare with, so it is not shown that training adds anything."
    )
    assert sae.claim(saes(dmatch_score=nan))[0].startswith("jumprelu and topk tie for the first place")


def sanity(verdict: str, low: float) -> pd.DataFrame:
    row = {
        "variant": "topk",
        "over_frozen": 0.4,
        "over_frozen_low": low,
        "over_frozen_high": 0.5,
        "n_items": 29,
    }
    return pd.DataFrame([{"metric": name, **row, "verdict": verdict} for name in ("MATCHScore", "MS")])


def test_saes_are_drawn_with_what_training_adds_and_its_interval() -> None:
    inputs = saes()
    assert sae.sections(inputs)[0].blocks[0].kind == "table"
    told = {"model": "default", "variant": ["topk", "jumprelu", "random"], "reference": "frozen"}
    told |= {"estimate": [0.45, 0.25, -0.3], "low": 0.1, "high": 0.5, "df": 9.0, "p": 0.01, "p_holm": 0.02}
    mixed = pd.DataFrame(told | {"formula": "f1 ~ variant", "notes": ""})
    chart = sae.sections(replace(inputs, tables={**inputs.tables, "mixed": mixed}))[0].blocks[0]
    assert chart.label == "What training adds: topk 0.450; jumprelu 0.250"  # type: ignore[union-attr]
    rows = json.loads(chart.spec)["datasets"].values()  # type: ignore[union-attr]
    assert [0.4, 0.5, 0.3, 0.2] in [[row.get("value") for row in each] for each in rows]


def test_the_sanity_table_decides_what_is_said_of_metrics() -> None:
    inputs = saes()
    passing = replace(inputs, tables={**inputs.tables, "sanity": sanity("pass", 0.3)})
    assert sae.claim(passing)[1:3] == [
        "The MATCHScore of topk is 0.400 (0.300 to 0.500) above that of frozen SAEs, over attributes drawn "
        "anew.",
        "Trained SAEs are told from untrained ones by MATCHScore and MS.",
    ]
    failing = replace(inputs, tables={**inputs.tables, "sanity": sanity("fail", -0.1)})
    assert sae.claim(failing)[1].startswith("It is not shown that topk matches better than frozen SAEs")
    assert "not by MATCHScore and MS, which should rank nothing here" in sae.claim(failing)[2]
    few = sanity("unknown", 0.3).assign(n_items=3)
    assert sae.claim(replace(inputs, tables={**inputs.tables, "sanity": few}))[1].startswith(
        "It is not shown"
    )
    unknown = replace(inputs, tables={**inputs.tables, "sanity": sanity("unknown", nan)})
    assert sae.claim(unknown)[1].startswith("It is not shown")
    assert "unknown" in sae.claim(unknown)[2]


def test_saes_without_any_score_are_not_ranked() -> None:
    assert sae.claim(saes(match_score=nan, dmatch_score=nan))[0] == (
        "No score of 5 SAEs is known, so nothing is ranked."
    )


# findings and words


@given(
    low=st.one_of(st.just(nan), st.floats(-1, 1)),
    high=st.one_of(st.just(nan), st.floats(-1, 1)),
    p=st.one_of(st.just(nan), st.floats(0, 1)),
)
@example(low=1.0, high=1.0, p=0.05)
def test_a_difference_is_shown_by_an_interval_above_0_and_a_small_p_and_never_without_both(
    low: float, high: float, p: float
) -> None:
    assert is_shown(low, high, p, 0.95) == (low > 0 and high > 0 and p < 0.05)
    found = Difference(0.1, low, high, p)
    both = found.is_shown(0.95), found.turned.is_shown(0.95)
    assert both != (True, True)
    words = over_reference("x", found, 0.95, "y")
    assert words.startswith("x is") == any(both)


def test_a_mixed_model_speaks_only_of_its_reference_and_its_first_model() -> None:
    table = pd.DataFrame(
        {
            "model": ["default", "default", "paper"],
            "method": ["a", "b", "a"],
            "reference": "random",
            "estimate": [0.2, nan, 0.9],
            "low": 0.1,
            "high": 0.3,
            "p_holm": 0.01,
        }
    )
    assert mixed_difference(table, "method", "a", "random") == Difference(0.2, 0.1, 0.3, 0.01, "mixed model")
    assert mixed_difference(table, "method", "b", "random") is None
    assert mixed_difference(table.assign(reference="best"), "method", "a", "random") is None
    assert mixed_difference(pd.DataFrame(), "method", "a", "random") is None
    assert mixed_difference(table.assign(converged=False), "method", "a", "random") is None


def test_the_scope_counts_models_and_does_not_speak_for_others() -> None:
    table = pd.DataFrame({"model": ["a", "b", "all"], "dataset": "shapes"})
    assert scope(table, ["model", "dataset", "layer"]) == (
        "This is about 2 models and one dataset (shapes); it says nothing of another dataset."
    )
    assert scope(table, ["layer"]) == ""


@given(p=st.floats(1e-4, 0.9999))
def test_a_p_value_in_words_stays_on_its_side_of_5_percent(p: float) -> None:
    told = float(p_words(p).split()[2])
    assert (told < 0.05) == (p < 0.05)


def test_numbers_are_short_and_certainty_is_never_claimed() -> None:
    assert [measured(value) for value in (0.42096, -0.5, 0.0, 12.345, 1234.6, 3e-5, nan)] == [
        "0.421", f"{MINUS}0.500", "0.000", "12.3", "1,235", f"3.0e{MINUS}05", "-",
    ]  # fmt: skip
    assert [share(value) for value in (1.0, 0.0, 0.93, nan)] == [">99%", "<1%", "93%", "-"]


# tables and keys


def test_a_table_shows_short_numbers_and_saves_whole_ones_with_the_keys() -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "mean": [1 / 3, nan], "low": 0.1, "high": 0.9, "n": [1200, 3]})
    shown = {"name": "name", "mean": Shown("mean", ("low", "high")), "n": "n", "absent": "absent"}
    table = data_table("t", "title", frame, KEY, shown=shown, keys=[("k1",), ("k2", "k3")])
    assert [column.title for column in table.columns] == ["name", "mean", "n", "from"]
    assert [cell.text for cell in table.rows[0]] == ["a", "0.333 (0.100 to 0.900)", "1,200", "k1"]
    assert table.rows[0][1].value == repr(1 / 3)
    assert table.rows[1][1].text == "-"
    assert table.rows[1][3].keys == ("k2", "k3")
    saved = pd.read_csv(io.BytesIO(base64.b64decode(table.csv.split(",")[1])))
    assert saved["mean"][0] == 1 / 3
    assert list(saved["key"]) == ["k1", "k2 k3"]


def test_a_long_table_shows_its_first_rows_and_a_large_one_is_not_saved_from_the_page() -> None:
    table = data_table("t", "t", pd.DataFrame({"x": range(MAX_ROWS + 5)}), KEY)
    assert (len(table.rows), table.n_rows, bool(table.csv)) == (MAX_ROWS, MAX_ROWS + 5, True)
    assert data_table("t", "t", pd.DataFrame({"x": ["y" * 1_000_001]}), KEY).csv == ""


def test_a_row_has_the_keys_of_the_points_that_it_pools_and_of_no_other() -> None:
    def planned(layer: str, explainer: str, variant: str, key: str) -> Point:
        told = {"explainer": {"name": "csv", "method": "by_hand"}} if explainer == "mine" else {}
        return Point({"layer": layer}, explainer, variant, "", {"scoring": key}, told)

    points = [planned("l1", "a", "", "k1"), planned("l2", "a", "", "k2"), planned("l1", "a", "top=5", "k3")]
    points.append(planned("l1", "mine", "", "k4"))
    rows = pd.DataFrame(
        [("all", "a"), ("l2", "a"), ("l1", "a (top=5)"), ("l1", "by_hand"), ("l1", "other")],
        columns=["layer", "method"],
    )
    found = keys_of_rows(rows, points, "scoring", "method")
    assert found == [("k1", "k2"), ("k2",), ("k3",), ("k4",), ()]


def test_settings_that_vary_are_told_apart_from_those_that_all_points_share() -> None:
    inputs = crowd_inputs(crowd_scores(FAR))
    table, told = settings_section(inputs).blocks
    assert {setting.key for setting in told.shared} == {  # type: ignore[union-attr]
        "dataset.name", "dataset.n_images", "crowd.name", "crowd.reward", "crowd.inputs_per_task",
    }  # fmt: skip
    first = told.points[0]  # type: ignore[union-attr]
    assert [(s.key, s.value) for s in first.settings] == [
        ("explainer.name", "dissect"),
        ("explainer.top", "20"),
    ]
    assert [column.title for column in table.columns] == ["explainer", "explainer.top", "from"]  # type: ignore[union-attr]
    assert varying_keys([{"a": "1", "b": "2"}, {"a": "1"}]) == ["b"]


def test_a_point_is_named_by_what_is_its_own_and_has_the_key_that_tells_it_apart() -> None:
    def planned(variant: str, k: str, **keys: str) -> Point:
        return Point({"dataset": "shapes", "sae": variant, "sae.k": k}, "", "", "", keys, {})

    points = [planned("topk", "16", sae="k1", probe="k9"), planned("jumprelu", "None", sae="k2", probe="k9")]
    assert titles(points) == ["topk, sae.k 16", "jumprelu"]
    assert titles(points[:1]) == ["shapes, topk, sae.k 16"]
    assert own_keys(points) == [("k1",), ("k2",)]
    assert own_keys(points[:1]) == [("k9",)]
    assert list(points_table(points, [{}, {}], [])["sae.k"]) == ["16", ""]


# charts


def test_charts_hold_every_mark_and_the_same_ones_drawn() -> None:
    means = pd.DataFrame({"method": ["a", "b"], "mean": [0.5, 0.1], "low": [0.4, nan], "high": [0.6, nan]})
    dots = pd.DataFrame({"method": ["a", "b", "b"], "value": [0.5, nan, 0.1], "unit": [1, 1, 2]})
    chart = ranking_chart("one", "Title", means, dots, "score")
    spec = json.loads(chart.spec)
    found = {tuple(rows[0]): rows for rows in spec["datasets"].values()}
    assert found["zero",] == [{"zero": 0.0}]
    assert [row["value"] for row in found["method", "value", "unit", "spread"]] == [0.5, 0.1]
    assert [row["low"] for row in found["method", "mean", "low", "high"]] == [0.4, None]
    assert spec["width"] == "container"
    assert chart.svg.startswith("<svg")
    assert 'aria-hidden="true"' in chart.svg
    assert chart.label == "Title: a 0.500; b 0.100"
    again = ranking_chart("one", "Title", means, dots, "score")
    assert again == chart


def test_a_series_keeps_its_colour_from_chart_to_chart() -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0], "kind": ["b", "c"]})
    chart = scatter_chart("s", "t", rows, ("x", "x"), ("y", "y"), "kind", order=["a", "b", "c"])
    scale = json.loads(chart.spec)["encoding"]["color"]["scale"]
    assert scale == {"domain": ["b", "c"], "range": ["var(--series-1)", "var(--series-2)"]}


# cost and raters


def text_of(inputs: ReportInputs, anchor: str) -> str:
    page = Report(sweep_report(inputs)).text
    titles = {"cost": ("Cost", "Agreement of raters"), "raters": ("Agreement of raters", "Units")}
    first, last = titles[anchor]
    start = page.index(first, page.index(first) + 1)
    return page[start : page.index(last, start)]


def test_the_cost_of_ratings_is_told_by_method_and_what_it_saves() -> None:
    inputs = crowd_inputs(crowd_scores(FAR), n_raters=3)
    words = text_of(inputs, "cost")
    assert "at $0.06 for a task of 15 images" in words
    assert "csv 12 12 24 72 3 36 $2.59 18,000 99.6%" in " ".join(words.split())
    assert "all 12 36 72 216 3" in " ".join(words.split())
    assert csv_of(sweep_report(inputs), "cost_shown")["n_ratings"].tolist() == [72, 72, 72, 216]


def test_raters_are_told_apart_by_the_lowest_and_the_highest() -> None:
    words = " ".join(text_of(crowd_inputs(crowd_scores(FAR), n_raters=3), "raters").split())
    assert "csv 72 3 24 0.333 0.667 (0.500 to 0.750)" in words
    assert "0.833 (0.500 to 1.000) 0.333 0.000" in words


@pytest.mark.parametrize(
    ("n_raters", "truth", "words"),
    [
        (0, 1.0, "Nobody rated"),
        (1, 1.0, "One rater alone agrees with nobody"),
        (3, nan, "Where no label says what is true, it is not known how often raters are right."),
    ],
)
def test_what_is_not_known_of_raters_is_said_in_words(n_raters: int, truth: float, words: str) -> None:
    scores = crowd_scores(FAR)
    inputs = crowd_inputs(scores)
    told = rating_tables(scores, inputs.factors, n_raters, truth) if n_raters else {}
    assert words in text_of(replace(inputs, tables={**inputs.tables, **told}), "raters")


def test_scores_without_people_cost_nothing() -> None:
    assert "nothing was paid" in text_of(crowd_inputs(crowd_scores(FAR)), "cost")


# the page


@pytest.fixture(scope="module")
def crowd_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("figures")
    scores = crowd_scores(FAR)
    scores.loc[0, "description"] = EVIL
    figures = {"comparison": figure(folder, "comparison")}
    return sweep_report(crowd_inputs(scores, mixed=True, gallery=gallery(), figures=figures, notes=[EVIL]))


def test_the_page_opens_with_the_claim_and_has_every_section(crowd_page: str) -> None:
    page = Report(crowd_page)
    assert page.text.index("dissect has the highest mean score") < page.text.index("Points and settings")
    targets = [str(each["href"]) for each in page.all("a") if str(each.get("href")).startswith("#")]
    assert targets == [f"#{each['id']}" for each in page.all("section") if "id" in each]
    names = [each["id"] for _, each in page.tags if "id" in each]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("track", "words"),
    [
        ("crowd", "A score is the correlation, over images, between how active a unit is and"),
        ("sae", "MATCHScore is how well a few latents of an SAE find each attribute"),
        ("vlm", "F is how soon an explainer's order of image patches and words brings in"),
    ],
)
def test_what_the_scores_are_is_said_after_the_claim(track: str, words: str) -> None:
    page = Report(sweep_report(ReportInputs(track, "trial", KEY, {}))).text
    assert page.index("nothing is ranked" if track != "crowd" else "no method is ranked") < page.index(words)


def test_agreement_with_the_exact_interaction_and_metrics_are_named_in_words() -> None:
    inputs = vlm_inputs()
    agreement = pd.DataFrame(
        [
            ("within", "f", "sii", "spearman", 0.4),
            ("within", "f", "sii", "kendall", 0.3),
            ("across", "dividend", "sii_top", "spearman", 0.7),
            ("within", "dividend", "sii", "spearman", nan),
            ("within", "sii", "sii", "share_within", 0.1),
        ],
        columns=["level", "left", "right", "measure", "value"],
    ).assign(low=0.1, high=0.9, n_samples=10, n_explainers=3)
    taus = pd.DataFrame({"left": ["f"], "right": ["image_auc_del"], "tau": [0.5], "p": [0.1], "n": [5]})
    told = {**inputs.tables, "agreement": agreement, "taus": taus}
    found = {
        table.name: table
        for section in vlm.sections(replace(inputs, tables=told))
        for table in section.blocks
    }
    rows = [[cell.text for cell in row] for row in found["sii_agreement"].rows]  # type: ignore[union-attr]
    assert rows == [
        ["within", "F", "SII sum", "0.400 (0.100 to 0.900)", "10", "3"],
        ["across", "D", "SII top pair", "0.700 (0.100 to 0.900)", "10", "3"],
    ]
    assert [cell.text for cell in found["taus_shown"].rows[0][:2]] == ["F", "image deletion"]  # type: ignore[union-attr]


def test_the_page_asks_for_nothing_and_lets_only_its_own_scripts_run(crowd_page: str) -> None:
    page = Report(crowd_page)
    addresses = [value for _, each in page.tags for name in ("src", "href") if (value := each.get(name))]
    assert all(address.startswith(("#", "data:")) for address in addresses)
    (policy,) = [each["content"] for each in page.all("meta") if "http-equiv" in each]
    assert str(policy).startswith(
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-"
    )
    assert "unsafe-eval" not in str(policy)
    assert not page.all("link")


def test_texts_of_others_stay_texts(crowd_page: str) -> None:
    assert EVIL in Report(crowd_page).text
    assert "<script>alert" not in crowd_page
    specs = re.findall(r'class="spec">(.*?)</script>', crowd_page, flags=re.S)
    assert any(EVIL in json.dumps(json.loads(spec), ensure_ascii=False).replace('\\"', '"') for spec in specs)


def test_every_table_is_saved_whole_with_the_key_of_its_result(crowd_page: str) -> None:
    scores = csv_of(crowd_page, "scores")
    assert set(scores["key"]) == {KEY}
    expected = crowd_scores(FAR)["estimate"]
    assert list(scores["estimate"]) == list(expected)
    assert list(csv_of(crowd_page, "ranking")["key"]) == [f"k{n:012d}" for n in range(3)]


def test_units_show_their_images_and_the_methods_texts_highest_first(crowd_page: str) -> None:
    page = Report(crowd_page)
    images = [each for each in page.all("img") if str(each["src"]).startswith("data:image/jpeg")]
    assert len(images) == 2 * 2 * 3
    assert images[0]["alt"] == "most active image top-0-1"
    unit = page.text[page.text.index("Unit 1 Most active") :]
    assert unit.index("dissect text 1") < unit.index("csv text 1") < unit.index("random text 1")


def test_a_unit_has_the_texts_of_its_own_layer_by_every_way_of_judging() -> None:
    parts = [("crowd", "l1", 0.5), ("oracle", "l1", 0.9), ("crowd", "l2", 0.1)]
    scores = pd.concat(
        [crowd_scores({"csv": level}, 2, 0).assign(scoring=how, layer=layer) for how, layer, level in parts]
    )
    pictures = gallery(units=(0,))
    both = pd.concat([pictures.assign(layer=layer, scoring="crowd") for layer in ("l1", "l2")])
    last = both[[*(name for name in both if name != "layer"), "layer"]]
    (shown,) = gallery_section(crowd_inputs(scores, gallery=last)).blocks
    units = shown.units  # type: ignore[union-attr]
    assert [unit.title for unit in units] == ["Unit 0 · l1", "Unit 0 · l2"]
    found = [[(each.method, each.score[:5], each.first) for each in unit.opinions] for unit in units]
    assert found[0] == [("csv · oracle", "0.900", True), ("csv · crowd", "0.500", False)]
    assert found[1] == [("csv", "0.100", True)]


def test_a_point_that_no_explainer_is_told_of_is_named_by_its_settings() -> None:
    inputs = crowd_inputs(crowd_scores(FAR))
    nameless = [{**row, "explainer": ""} for row in inputs.points]
    assert [p.method for p in replace(inputs, points=nameless).planned] == ["dissect", "csv", "random"]


@pytest.mark.parametrize("track", NAMES)
def test_an_empty_track_says_so(track: str) -> None:
    page = Report(sweep_report(ReportInputs(track, "trial", KEY, {})))
    assert "nothing is ranked" in page.text or "no method is ranked" in page.text
    assert "vegaEmbed(live" in sweep_report(ReportInputs(track, "trial", KEY, {}))
    assert page.text.count("Points and settings") == 2


@pytest.mark.parametrize("levels", [{"csv": 0.2}, {"csv": nan, "random": nan}])
@pytest.mark.parametrize("n_units", [1, 3])
def test_one_method_one_unit_and_no_score_at_all_give_a_page(levels: dict[str, float], n_units: int) -> None:
    inputs = crowd_inputs(crowd_scores(levels, n_units=n_units), gallery=gallery(units=(0,)))
    page = Report(sweep_report(inputs))
    assert "No score of csv and random is known" in page.text or "the only method with a score" in page.text


def test_a_vlm_sweep_without_any_f_gives_a_page_that_says_so() -> None:
    inputs = vlm_inputs(n_samples=2)
    scores = inputs.tables["scores"].assign(f=nan)
    from pipeline.statistics.vlm_explainers import explainer_table

    tables = {**inputs.tables, "scores": scores, "explainers": explainer_table(scores, inputs.factors)}
    page = Report(sweep_report(replace(inputs, tables=tables, sheets=[])))
    assert "so nothing is ranked." in page.text
    assert "SII was not computed" in page.text


def test_the_sheets_of_samples_are_those_of_their_own_page(tmp_path: Path) -> None:
    inputs = vlm_inputs(tmp_path)
    page = Report(sweep_report(inputs))
    assert len([each for each in page.all("article") if each.get("class") == "sheet"]) == 6
    assert "The first 6 of 6 samples" in page.text
    assert [name for name, each in page.tags if each.get("class") == "question"] == ["h3"] * 6


def test_saes_have_their_keys_and_the_figures_of_the_paper(tmp_path: Path) -> None:
    inputs = sae_inputs(figures={name: figure(tmp_path, name) for name in ("sizes", "training")})
    page = Report(sweep_report(inputs))
    shown = [each["alt"] for each in page.all("img")]
    assert shown == [
        "Scores by dictionary size, the figure of the comparison",
        "Training, the figure of the comparison",
    ]
    assert "Trained SAEs are told from untrained ones by" in page.text or "trained SAEs" in page.text


def test_the_same_inputs_give_the_same_page() -> None:
    inputs = crowd_inputs(crowd_scores(FAR), gallery=gallery())
    assert sweep_report(inputs) == sweep_report(inputs)


def test_an_unknown_track_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(AssayError, match="track='audio' has no report; there are crowd, sae, vlm"):
        sweep_report(ReportInputs("audio", "trial", KEY, {}))
