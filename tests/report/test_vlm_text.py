"""The VLM track as text: what a reader sees of ranks, intervals, samples left out, and what F is beside."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.report.vlm_text import vlm_text
from pipeline.statistics.vlm_agreement import EXCESS, agreement_table
from pipeline.statistics.vlm_explainers import explainer_table
from pipeline.statistics.vlm_metrics import tau_table
from pipeline.statistics.vlm_states import state_table
from pipeline.statistics.vlm_strata import strata_table

FACTORS = ["vlm", "questions"]
MEASURES = ("image_auc_del", "text_auc_del", "image_srg", "text_srg", "pointing", "iou")
NAN = float("nan")


def scored(n: int = 8, means: dict[str, float] | None = None, seed: int = 0, **cell: str) -> pd.DataFrame:
    means = means or {"best": 0.9, "middle": 0.5, "random": 0.1}
    rng = np.random.default_rng(seed)
    rows = [
        {"vlm": "tiny", "questions": "shapes", "explainer": name, "sample_id": f"s{s:02d}", "flags": ""}
        | {"answer": "no" if s % 2 else "yes", "f": means[name] + 0.05 * rng.standard_normal()}
        | {"dividend": 0.5 + s / 100, "patch_tie_share": 0.25, "pointing_chance": 0.0625}
        | {"n_states": 50, "n_tie_states": 0, "n_insertion_states": 0}
        | {measure: means[name] + 0.01 * rng.standard_normal() for measure in MEASURES}
        for s, name in product(range(n), means)
    ]
    return pd.DataFrame(rows).assign(**cell)


def exact(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[[*FACTORS, "explainer", "sample_id"]].assign(
        sii=scores["f"] + scores["dividend"], sii_top=scores["f"], n_states=1024
    )


def asked(scores: pd.DataFrame, left_out: tuple[str, ...] = ()) -> pd.DataFrame:
    samples = scores.drop_duplicates([*FACTORS, "sample_id"])[[*FACTORS, "sample_id"]]
    samples = samples.assign(correct=[i != 0 for i in range(len(samples))], flag="")
    more = samples.iloc[[0] * len(left_out)].assign(
        sample_id=range(len(left_out)), flag=left_out, correct=False
    )
    return pd.concat([samples, more], ignore_index=True)


def tables_of(
    scores: pd.DataFrame, sii: pd.DataFrame | None = None, **more: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    sii = exact(scores).iloc[:0] if sii is None else sii
    return {
        "samples": asked(scores),
        "explainers": explainer_table(scores, FACTORS, n_bootstrap=200),
        "strata": strata_table(scores, FACTORS, n_bootstrap=50),
        "taus": tau_table(scores, sii, FACTORS),
        "agreement": agreement_table(scores, sii, FACTORS, n_bootstrap=50),
        "states": state_table(scores, sii, {("tiny", "shapes"): 120.0}, FACTORS, 11),
    } | more  # fmt: skip


def lines(tables: dict[str, pd.DataFrame], confidence: float = 0.95) -> list[str]:
    text = vlm_text(tables, confidence)
    assert text.endswith("\n") and not any(line.endswith(" ") for line in text.splitlines())
    return text.splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def table_after(text: list[str], start: str, n: int) -> list[dict[str, str]]:
    at = next(i for i, line in enumerate(text) if line.startswith(start)) + 1
    return [dict(zip(cells(text[at]), cells(line), strict=True)) for line in text[at + 1 : at + 1 + n]]


def test_the_ranking_has_mean_interval_and_what_is_over_random() -> None:
    scores = scored()
    text = lines(tables_of(scores), 0.95)
    best, middle, random = table_after(text, "tiny, shapes: 8 samples, accuracy of the model 87.5%", 3)
    row = explainer_table(scores, FACTORS, n_bootstrap=200).iloc[0]
    assert [r["explainer"] for r in (best, middle, random)] == ["best", "middle", "random"]
    assert best["rank"] == "1"
    assert best["mean F (95% interval)"] == f"{row['mean_f']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
    over = f"{row['over_random']:.3f} ({row['over_random_low']:.3f} to {row['over_random_high']:.3f})"
    assert (best["over random"], random["over random"]) == (over, "-")
    assert (best["p (Holm)"], random["p (Holm)"]) == (f"{2 * 2 / 2**8:.2g}", "-")
    assert (best["P(first)"], random["P(first)"]) == (">0.99", "<0.01")
    assert best["tied"] == "25%"
    assert best["pointing (chance)"].endswith("(0.06)")
    assert not {"missing", "common samples", "samples", "masks"} & {*best}
    assert text[0] == "tiny, shapes: 8 samples, accuracy of the model 87.5%, 8 with a mask"


def test_masks_are_counted_by_explainer_where_they_differ() -> None:
    scores = scored()
    scores.loc[(scores["explainer"] == "best") & (scores["sample_id"] < "s03"), "pointing"] = NAN
    text = lines(tables_of(scores))
    assert [row["masks"] for row in table_after(text, "tiny, shapes", 3)] == ["5", "8", "8"]
    assert "mask" not in text[0]


def test_the_notes_say_what_the_interval_is_about() -> None:
    text = "\n".join(lines(tables_of(scored()), 0.9))
    assert "90% interval: percentiles over samples drawn anew, the same ones for every explainer" in text
    assert "about these models and question sets, not about others" in text
    assert "Holm over explainers" in text


def test_samples_left_out_are_counted_with_their_reason() -> None:
    scores = scored()
    flags = (
        "cannot_be_asked: a side below one visual token",
        "empty_answer",
        "cannot_be_asked: unknown word",
    )
    text = lines(tables_of(scores, samples=asked(scores, flags)))
    assert text[0] == (
        "tiny, shapes: 8 samples, accuracy of the model 87.5%, 8 with a mask; 3 left out: "
        "cannot_be_asked: a side below one visual token (and 1 more); empty_answer"
    )


def test_missing_scores_show_the_samples_that_the_ranking_is_over() -> None:
    scores = scored()
    scores.loc[(scores["explainer"] == "middle") & (scores["sample_id"] < "s03"), ["f", "dividend"]] = NAN
    scores.loc[(scores["explainer"] == "middle") & (scores["sample_id"] < "s03"), "flags"] = (
        "failed: no memory"
    )
    text = lines(tables_of(scores))
    best, middle, _ = table_after(text, "tiny, shapes", 3)
    assert (best["samples"], best["missing"], best["common samples"]) == ("8", "0", "5")
    assert (middle["samples"], middle["missing"], middle["common samples"]) == ("5", "3", "5")
    assert best["mean on these"] != best["mean F (95% interval)"].split()[0]
    assert "flags of middle: failed: 3 of 8" in text
    assert any(line.startswith("failed: the explainer gave no scores") for line in text)
    assert any(line.startswith("Rank and P(first) are over the common samples") for line in text)


def test_without_random_and_masks_their_columns_go_and_it_is_said() -> None:
    scores = scored(means={"a": 0.5, "b": 0.4}).assign(pointing=NAN, iou=NAN, pointing_chance=NAN)
    text = lines(tables_of(scores))
    assert not {"over random", "p (Holm)", "pointing (chance)", "IoU", "masks"} & set(cells(text[1]))
    assert "There is no explainer random, so nothing is compared with chance." in text


def test_several_cells_begin_with_their_mean() -> None:
    scores = pd.concat([scored(vlm="m1"), scored(seed=1, vlm="m2", means={"best": 0.3, "random": 0.2})])
    text = lines(tables_of(scores))
    assert text[0] == "mean over 2 cells"
    assert [line for line in text if line.startswith("m")][1:3] == [
        "m1, shapes: 8 samples, accuracy of the model 87.5%, 8 with a mask",
        "m2, shapes: 8 samples, accuracy of the model 100.0%, 8 with a mask",
    ]
    assert "flags of middle: absent_cells: 1 of 2" in text
    assert any(
        line.startswith("mean F by the model's answer (samples), 95% interval; mean over cells")
        for line in text
    )


def test_another_factor_is_shown_with_its_name() -> None:
    scores = scored().assign(**{"synergy.rule": "left"})
    factors = [*FACTORS, "synergy.rule"]
    tables = tables_of(scores, samples=asked(scores).assign(**{"synergy.rule": "left"}))
    tables["explainers"] = explainer_table(scores, factors, n_bootstrap=5)
    empty = {name: tables[name].iloc[:0] for name in ("strata", "taus", "agreement", "states")}
    assert lines(tables | empty)[0].startswith("tiny, shapes, synergy.rule left: 8 samples")


def test_f_by_answer_stands_under_d_and_in_the_order_of_the_ranking() -> None:
    scores = scored()
    text = lines(tables_of(scores))
    rows = table_after(text, "mean F by the model's answer (samples), 95% interval", 4)
    assert [row["explainer"] for row in rows] == ["(mean D)", "best", "middle", "random"]
    assert list(rows[0]) == ["explainer", "no (4)", "yes (4)"]
    mean = scores.loc[(scores["explainer"] == "best") & (scores["answer"] == "no"), "f"].mean()
    assert rows[1]["no (4)"].startswith(f"{mean:.3f} (")
    many = scored(n=10).assign(answer=lambda t: t["sample_id"].map(lambda s: "abcde"[int(s[1:]) % 5]))
    wide = table_after(lines(tables_of(many)), "mean F by the model's answer (samples)", 4)
    assert set(wide[1]) == {"explainer", *(f"{answer} (2)" for answer in "abcde")}
    assert "(" not in "".join(wide[1].values())


def test_taus_are_shown_with_f_and_with_both_of_sii_and_counted() -> None:
    scores = scored(means={name: k / 10 for k, name in enumerate(["a", "b", "c", "d", "e", "random"])})
    scores["image_auc_del"] = -scores["image_auc_del"]
    sii = exact(scores).assign(sii_top=-scores["f"])[scores["sample_id"] < "s03"]
    text = lines(tables_of(scores, sii))
    rows = {row["metric"]: row for row in table_after(text[1:], "tiny, shapes", 8) if "metric" in row}
    at = text.index("do the metrics rank the explainers alike? Kendall's tau (p; explainers, samples)")
    rows = {row["metric"]: row for row in table_after(text[at:], "tiny, shapes", 8)}
    assert list(rows["IoU"]) == ["metric", "with F", "with SII sum", "with SII top pair"]
    assert rows["image deletion"]["with F"] == rows["image SRG"]["with F"] == "1.00 (0.0028; 6, 8)"
    assert rows["text deletion"]["with F"] == "-1.00 (0.0028; 6, 8)"
    assert list(rows["SII sum"].values())[1:] == ["1.00 (0.0028; 6, 3)", "-", "-1.00 (0.0028; 6, 3)"]
    assert rows["text SRG"]["with SII top pair"] == "-1.00 (0.0028; 6, 3)"
    said = " ".join(text)
    assert "3 of 4 rankings by deletion or SRG in one modality agree with F's (p < 0.05)." in said
    assert "explainers cannot show" not in said


def test_a_tau_that_is_not_told_from_none_has_a_question_mark() -> None:
    scores = scored(n=3, means={"a": 0.8, "b": 0.4, "random": 0.1})
    text = lines(tables_of(scores, exact(scores)))
    at = text.index("do the metrics rank the explainers alike? Kendall's tau (p; explainers, samples)")
    rows = table_after(text[at:], "tiny, shapes", 8)
    assert rows[-1]["with F"] == "1.00? (0.33; 3, 3)"
    assert "Fewer than 5 explainers cannot show a p below 0.05, whatever their order." in text
    assert "Fewer than 4 explainers cannot show a p below 0.1, whatever their order." in lines(
        tables_of(scores, exact(scores)), 0.9
    )


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_f_stands_beside_d_alone_and_its_order_within_samples(weight: float) -> None:
    rng = np.random.default_rng(3)
    scores = scored(n=20)
    scores["f"] = scores["dividend"] + 0.2 * rng.standard_normal(len(scores))
    noise = 1e-3 * rng.standard_normal(len(scores))
    sii = exact(scores).assign(
        sii=scores["dividend"] + noise,
        sii_top=weight * scores["f"] + (1 - weight) * scores["dividend"] + noise,
    )
    text = lines(tables_of(scores, sii))
    at = text.index("does F follow the exact interaction (SII)? Spearman, 95% interval")
    rows = table_after(text[at:], "tiny, shapes: 20 samples, 3 explainers", 3)
    assert list(rows[0]) == ["level", "F, sum", "D, sum", "F, top pair", "D, top pair"]
    within = next(row for row in rows if row["level"] == "within")
    assert (within["D, sum"], within["D, top pair"]) == ("-", "-")
    found = {line.split(": F ")[0].strip(): line for line in text if line.startswith("  SII ")}
    assert found["SII sum across samples"].endswith(
        "not shown to be more than D alone, which knows no explainer."
    )
    assert "it is not shown that F orders" in found["SII sum within samples"]
    across, order = found["SII top pair across samples"], found["SII top pair within samples"]
    assert across.endswith("more than D alone.") == bool(weight)
    assert order.endswith("as it does, more than by chance.") == bool(weight)


@pytest.mark.parametrize(
    ("f", "low", "n", "words"),
    [
        (0.97, -0.01, 20, "not shown to be more than D"),  # above D's interval, and F's own reaches below it
        (0.97, 0.01, 5, "not shown to be more than D"),
        (0.90, 0.01, 20, "more than D alone."),
    ],
)
def test_f_is_more_than_d_alone_only_where_their_difference_is_above_0(
    f: float, low: float, n: int, words: str
) -> None:
    scores = scored()
    table = agreement_table(scores, exact(scores), FACTORS, n_bootstrap=50)
    across = (table["level"] == "across") & (table["measure"] == "spearman") & (table["right"] == "sii")
    table.loc[across & (table["left"] == "f"), "value"] = f
    table.loc[across & (table["left"] == "dividend"), ["value", "low", "high"]] = [0.79, 0.32, 0.96]
    table.loc[across & (table["left"] == EXCESS), ["low", "n_samples"]] = [low, n]
    text = lines(tables_of(scores, agreement=table))
    (line,) = (line for line in text if line.startswith("  SII sum across samples: "))
    assert line.startswith(f"  SII sum across samples: F {f:.2f}, D 0.79: {words}")


def test_how_much_each_measure_tells_explainers_apart_is_a_share_of_its_variance() -> None:
    scores = scored(n=20)
    table = agreement_table(scores, exact(scores).assign(sii=scores["dividend"]), FACTORS, n_bootstrap=50)
    own = table[table["measure"] == "share_within"].set_index("left")["value"]
    text = lines(tables_of(scores, exact(scores).assign(sii=scores["dividend"])))
    top = f"{own['sii_top']:.0%}"
    assert f"  variance within samples, between explainers: F {top}, SII sum 0%, SII top pair {top}." in text
    assert own["sii_top"] > 0.9
    assert any(line.startswith("sum: over all pairs of a group of patches and a group of") for line in text)


def test_states_are_beside_the_published_ones() -> None:
    scores = scored().assign(n_insertion_states=14)
    (row,) = table_after(lines(tables_of(scores, exact(scores))), "states of the model a sample", 1)
    assert row == {
        "cell": "tiny, shapes", "explainers": "3", "asked together": "120", "one by one": "150",
        "insertion, more": "42", "as published": "204", "SII, an explainer": "1,024",
    }  # fmt: skip


MIXED = ["model", "explainer", "estimate", "low", "high", "p", "p_holm", "formula", "same_as_paper", "notes"]
WORDS = "One model and one question set: nothing is said about others."


def mixed_of(*rows: tuple[object, ...], formula: str = "f ~ explainer + (1|sample)") -> pd.DataFrame:
    ends = ("paper" in formula or len({row[0] for row in rows}) == 1, WORDS)
    return pd.DataFrame([(*row, formula, *ends) for row in rows], columns=MIXED).assign(reference="random")


def test_a_mixed_model_that_is_the_papers_is_one_table_with_its_formula_and_notes() -> None:
    mixed = mixed_of(
        ("default", "best", 0.8, 0.7, 0.9, 1e-9, 2e-9), ("default", "middle", -0.1, NAN, NAN, NAN, NAN)
    )
    text = lines(tables_of(scored(), mixed=mixed), 0.9)
    at = text.index("F over random by a mixed model (90% interval)")
    assert [cells(line) for line in text[at + 1 : at + 4]] == [
        ["explainer", "default", "p (Holm, default)"],
        ["best", "0.800 (0.700 to 0.900)", "<.0001"],
        ["middle", "-0.100", "-"],
    ]
    assert text[at + 4 :] == [
        "default: f ~ explainer + (1|sample); the paper's model is the same here",
        WORDS,
    ]
    for none in (mixed.iloc[:0], pd.DataFrame()):
        assert lines(tables_of(scored(), mixed=none)) == lines(tables_of(scored()))


def test_two_mixed_models_stand_side_by_side_in_the_order_of_the_chosen_one() -> None:
    one = mixed_of(("fixed", "b", 0.8, 0.7, 0.9, 0.01, 0.02), ("fixed", "a", 0.1, 0.0, 0.2, 0.04, 0.04))
    other = mixed_of(("paper", "a", 0.3, 0.2, 0.4, 0.01, 0.02), ("paper", "b", 0.2, 0.1, 0.3, 0.03, 0.03))
    text = lines(tables_of(scored(), mixed=pd.concat([one.assign(formula="f ~ x"), other])))
    at = text.index("F over random by a mixed model (95% interval)")
    assert [cells(line) for line in text[at + 1 : at + 4]] == [
        ["explainer", "fixed", "p (Holm, fixed)", "paper", "p (Holm, paper)"],
        ["b", "0.800 (0.700 to 0.900)", "0.02", "0.200 (0.100 to 0.300)", "0.03"],
        ["a", "0.100 (0.000 to 0.200)", "0.04", "0.300 (0.200 to 0.400)", "0.02"],
    ]
    assert text[at + 4 :] == ["fixed: f ~ x", "paper: f ~ explainer + (1|sample)", WORDS]


def test_the_paper_as_chosen_model_is_not_said_to_be_itself() -> None:
    mixed = mixed_of(("paper", "a", 0.3, 0.2, 0.4, 0.01, 0.02))
    assert "paper: f ~ explainer + (1|sample)" in lines(tables_of(scored(), mixed=mixed))


def test_notes_are_not_wider_than_a_page() -> None:
    scores = scored(n=3)
    mixed = mixed_of(("default", "a", 0.3, 0.2, 0.4, 0.01, 0.02)).assign(notes="word " * 60 + "end.")
    text = lines(tables_of(scores, exact(scores), mixed=mixed))
    after = text.index("do the metrics rank the explainers alike? Kendall's tau (p; explainers, samples)")
    assert max(map(len, text[after:])) <= 120


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_or_no_samples_are_said_and_not_made_up(n: int) -> None:
    whole = scored(n=3)
    scores = whole[whole["sample_id"] < f"s{n:02d}"]
    flags = ("empty_answer",) * 2
    samples = asked(whole, flags) if n else asked(whole, flags).iloc[3:]
    text = lines(tables_of(scores, exact(scores), samples=samples))
    if n == 0:
        assert text == [
            "tiny, shapes: 0 samples; 2 left out: empty_answer (and 1 more)",
            "no explainer was scored on any sample",
        ]
        return
    best = table_after(text, "tiny, shapes", 1)[0]
    assert ("(" in best["mean F (95% interval)"]) == (n > 1)
    assert (best["P(first)"] == "-") == (n == 1)
    assert any(line.startswith("one_sample: ") for line in text) == (n == 1)


@pytest.mark.filterwarnings("error")
def test_an_explainer_that_failed_everywhere_is_a_row_of_dashes() -> None:
    scores = scored()
    unknown: dict[str, Any] = dict.fromkeys(("f", "dividend", *MEASURES, "patch_tie_share"), NAN)
    scores = scores.assign(flags=np.where(scores["explainer"] == "middle", "failed: no memory", ""))
    scores.loc[scores["explainer"] == "middle", list(unknown)] = NAN
    text = lines(tables_of(scores))
    last = table_after(text, "tiny, shapes", 3)[-1]
    assert (last["rank"], last["explainer"], last["mean F (95% interval)"], last["F / D"]) == (
        "-",
        "middle",
        "-",
        "-",
    )
    assert "flags of middle: failed: 8 of 8, no_score" in text


def test_what_rounds_to_zero_has_no_sign() -> None:
    scores = scored().assign(f=lambda t: -1e-5 * (1 + t.index % 3))
    assert not any("-0.000" in line for line in lines(tables_of(scores)))


@pytest.mark.parametrize("n", [1, 4])
def test_of_few_samples_nothing_is_said_of_how_f_orders_their_explainers(n: int) -> None:
    """One sample has an interval of no width, which is no evidence."""
    scores = scored(n=n)
    text = " ".join(lines(tables_of(scores, exact(scores))))
    assert "with an order to compare, too few to say" in text
    assert "more than by chance" not in text and "against it" not in text


def test_the_interval_of_few_samples_is_told_to_be_too_narrow() -> None:
    """Percentile intervals hold a mean of 5 samples in .8 and of 2 in .5 of cases."""
    told = ["is too narrow" in "\n".join(lines(tables_of(scored(n=n)))) for n in (6, 20)]
    assert told == [True, False]
