"""The VLM track as text: what a reader sees of ranks, intervals, samples left out, and what F is beside."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.report.vlm_text import vlm_text
from pipeline.statistics.vlm_agreement import agreement_table
from pipeline.statistics.vlm_explainers import explainer_table
from pipeline.statistics.vlm_metrics import rankings_table, tau_table
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
        sii=scores["f"] + scores["dividend"], n_states=1024
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
    rankings = rankings_table(scores, sii, FACTORS)
    return {
        "samples": asked(scores),
        "explainers": explainer_table(scores, FACTORS, n_bootstrap=200),
        "strata": strata_table(scores, FACTORS, n_bootstrap=50),
        "taus": tau_table(rankings, FACTORS),
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
    assert (best["tied patches"], best["samples"], best["masks"]) == ("25%", "8", "8")
    assert best["pointing (chance)"].endswith("(0.06)")
    assert "missing" not in best and "common samples" not in best


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
        "tiny, shapes: 8 samples, accuracy of the model 87.5%; 3 left out: "
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
        "m1, shapes: 8 samples, accuracy of the model 87.5%",
        "m2, shapes: 8 samples, accuracy of the model 100.0%",
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


def test_taus_are_shown_with_f_and_with_sii_and_counted() -> None:
    scores = scored(means={name: k / 10 for k, name in enumerate(["a", "b", "c", "d", "e", "random"])})
    scores["image_auc_del"] = -scores["image_auc_del"]
    text = lines(tables_of(scores, exact(scores)))
    f, sii = table_after(text, "do the metrics rank the explainers alike", 2)
    assert (f["with"], sii["with"]) == ("F", "SII")
    assert f["image deletion"] == f["image SRG"] == f["SII"] == "1.00 (0.0028; 6)"
    assert f["text deletion"] == "-1.00 (0.0028; 6)"
    assert sii["SII"] == "-" and sii["text SRG"] == "1.00 (0.0028; 6)"
    assert "3 of 4 rankings by deletion or SRG in one modality agree with F's (p < 0.05)." in text


@pytest.mark.parametrize(
    ("weight", "words"),
    [(0.0, "D's is no lower, so agreement across samples need not come from"), (1.0, "F's is higher than")],
)
def test_f_stands_beside_d_alone_and_its_order_within_samples(weight: float, words: str) -> None:
    rng = np.random.default_rng(3)
    scores = scored(n=20)
    scores["f"] = scores["dividend"] + 0.2 * rng.standard_normal(len(scores))
    noise = 1e-3 * rng.standard_normal(len(scores))
    sii = exact(scores).assign(sii=weight * scores["f"] + (1 - weight) * scores["dividend"] + noise)
    text = lines(tables_of(scores, sii))
    assert "tiny, shapes (20 samples and 3 explainers with SII):" in text
    assert any(line.startswith("  across samples F ") and words in line for line in text)
    within = next(line for line in text if line.startswith("  within samples F "))
    shown = "as SII does, more than by chance" if weight else "it is not shown that"
    assert shown in within
    rows = table_after(text, "does F follow the exact interaction (SII)? correlations, 95% interval", 6)
    assert {row["D with SII"] for row in rows if row["level"] == "within"} == {"-"}


def test_states_are_beside_the_published_ones() -> None:
    scores = scored().assign(n_insertion_states=14)
    (row,) = table_after(lines(tables_of(scores, exact(scores))), "states of the model a sample", 1)
    assert row == {
        "cell": "tiny, shapes", "explainers": "3", "asked together": "120", "one by one": "150",
        "insertion, more": "42", "as published": "204", "SII, an explainer": "1,024",
    }  # fmt: skip


def test_findings_of_mixed_models_have_a_line_each_and_models_their_notes() -> None:
    columns = ["model", "explainer", "estimate", "low", "high", "p", "p_holm"]
    rows = [("paper", "best", 0.8, 0.7, 0.9, 1e-9, 2e-9), ("paper", "middle", -0.1, NAN, NAN, NAN, NAN)]
    mixed = pd.DataFrame(rows, columns=columns)
    text = lines(tables_of(scored(), mixed=mixed), 0.9)
    assert [cells(line) for line in text[-3:]] == [
        ["model", "explainer", "over random (90% interval)", "p", "p (Holm)"],
        ["paper", "best", "0.800 (0.700 to 0.900)", "<.0001", "<.0001"],
        ["paper", "middle", "-0.100", "-", "-"],
    ]
    noted = mixed.assign(formula="f ~ explainer + (1|sample)", notes="2 rows have no F.")
    assert lines(tables_of(scored(), mixed=noted), 0.9) == [
        *text,
        "paper: f ~ explainer + (1|sample). 2 rows have no F.",
    ]
    for none in (mixed.iloc[:0], pd.DataFrame()):
        assert lines(tables_of(scored(), mixed=none)) == lines(tables_of(scored()))


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
