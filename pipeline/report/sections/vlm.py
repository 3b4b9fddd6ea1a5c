"""The report of the VLM track: which explainer finds what image and text do together."""

from collections.abc import Sequence

import pandas as pd

from pipeline.report.interactive import as_rows, ranking_chart, scatter_chart
from pipeline.report.report_inputs import ReportInputs
from pipeline.report.sections.findings import (
    Difference,
    firsts,
    in_order,
    lead,
    missing,
    mixed_block,
    mixed_difference,
    over_reference,
    paired_difference,
    resamples,
    rivals,
    scope,
)
from pipeline.report.sections.section import Block, Samples, Section, pictures
from pipeline.report.sections.settings import settings_section
from pipeline.report.sections.tables import Columns, Shown, all_tables, data_table, keys_of_rows, varying
from pipeline.report.sections.wording import counted, estimate, listed, measured
from pipeline.report.vlm_drawing import BOUNDS
from pipeline.report.vlm_text import MEASURE
from pipeline.report.vlm_text import TITLES as METRIC_TITLES
from pipeline.statistics.vlm_explainers import REFERENCE

MEASURED = (
    "F is how soon an explainer's order of image patches and words brings in what image and text do "
    "together; higher is better, and a random order stands beside it. D is that synergy of the whole input, "
    "whatever the explainer: where it is near 0, there is nothing to find."
)
N_SHEETS = 6
LITTLE = 0.1
"""A mean D below this leaves little for an explainer to find."""
TITLES = {
    "ranking": "Mean F by explainer",
    "f_against_sii": "F against the exact interaction",
    "evaluation_collapse": "Do metrics of one modality agree with F?",
    "synergy_curves": "Synergy by share of the parts",
}
NAMES = {**METRIC_TITLES, "dividend": "D"}
EXPLAINERS: Columns = {
    "rank": "rank",
    "explainer": "explainer",
    "mean_f": Shown("mean F (interval)", ("low", "high")),
    "over_random": Shown("over random (interval)", ("over_random_low", "over_random_high")),
    "p_random": "p (Holm)",
    "p_first": "P(first)",
    "ratio_of_means": "F / D",
    "tie_share": "tied patches",
    "pointing": "pointing",
    "pointing_chance": "by chance",
    "iou": "IoU",
    "n_samples": "samples",
    "n_missing": "missing",
    "n_common": "common samples",
    "flags": "flags",
}
PAIRS: Columns = {
    "explainer_a": "explainer",
    "explainer_b": "less",
    "difference": Shown("difference of F (interval)", ("low", "high")),
    "p_t_holm": "p (t, Holm)",
    "p_wilcoxon_holm": "p (signed ranks, Holm)",
    "n_tested": "samples",
}


def claim(inputs: ReportInputs) -> list[str]:
    """Return who is first, whether it leads every other, by how much over random, and what that rests on."""
    rows = main_rows(inputs)
    if rows.empty:
        return ["This sweep has no explainer with a sample, so nothing is ranked."]
    ranked = in_order(rows)
    if ranked.empty:
        return [_unranked(rows), *_caveats(rows, inputs)]
    told = [_first(ranked, inputs), _over_random(ranked, inputs)]
    return [*filter(None, told), *_caveats(rows, inputs)]


def main_rows(inputs: ReportInputs) -> pd.DataFrame:
    """Return the explainers of the mean over cells, or of the one cell."""
    return main_level(inputs.table("explainers"))


def main_level(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the mean over cells, or of the one cell."""
    if table.empty:
        return table
    level = "overall" if (table["level"] == "overall").any() else "cell"
    return table[table["level"] == level]


def sections(inputs: ReportInputs) -> list[Section]:
    """Return the sections of the page, the ranking first."""
    return [
        _ranking(inputs),
        _exact(inputs),
        _metrics(inputs),
        _samples(inputs),
        settings_section(inputs),
        Section("tables", "All tables", (), all_tables(inputs)),
    ]


def _unranked(rows: pd.DataFrame) -> str:
    names = listed([*map(str, rows["explainer"])])
    if rows["mean_f"].isna().all():
        return f"No F of {names} is known ({int(rows['n_missing'].sum()):,} missing), so nothing is ranked."
    return f"No sample has an F of each of {names}: their means are of different samples; nothing is ranked."


def _first(ranked: pd.DataFrame, inputs: ReportInputs) -> str:
    first, confidence = ranked.iloc[0], inputs.confidence
    over = f"over {counted(int(first['n_common']), 'sample')}"
    mean = _mean(first, confidence)
    if len(ranked) == 1:
        return f"{_named(first)} has a mean F of {mean} {over}. It is the only explainer with an F."
    if len(tied := firsts(ranked)) > 1:
        return f"{listed([*map(str, tied['explainer'])])} tie for the first place: a mean F of {mean} {over}."
    others = rivals(ranked, "explainer", REFERENCE).iterrows()
    ahead = [(_named(row), _difference(first, row, inputs)) for _, row in others]
    opening = f"{_named(first)} has the highest mean F, {mean} {over}"
    return lead(opening, ahead, confidence, resamples(first))


def _difference(one: pd.Series, other: pd.Series, inputs: ReportInputs) -> Difference:
    """Return the paired difference of two explainers; without a row of both, that of their means alone."""
    names = str(one["explainer"]), str(other["explainer"])
    pairs, common = main_level(inputs.table("pairs")), ("n_samples", one["n_common"])
    found = paired_difference(pairs, "explainer", names, inputs.confidence, common)
    return found or Difference(one["mean_common"] - other["mean_common"])


def _named(row: pd.Series) -> str:
    """Return an explainer's name, and what it is where it is there to bound the metric."""
    name = str(row["explainer"])
    return f"{name} (the metric's own {BOUNDS[name]})" if name in BOUNDS else name


def _mean(row: pd.Series, confidence: float) -> str:
    if row["n_common"] == row["n_samples"]:
        return estimate(row["mean_f"], row["low"], row["high"], confidence)
    return f"{measured(row['mean_common'])}, on samples that all explainers have,"


def _over_random(ranked: pd.DataFrame, inputs: ReportInputs) -> str:
    first, names = ranked.iloc[0], list(ranked["explainer"])
    if first["explainer"] == REFERENCE:
        return "The random explainer comes first: none is shown to be better than chance." * (len(names) > 1)
    if REFERENCE not in names:
        return "The random explainer has no F here, so nothing is compared with chance."
    found = mixed_difference(inputs.table("mixed"), "explainer", str(first["explainer"]), REFERENCE)
    told = found or Difference(
        first["over_random"],
        first["over_random_low"],
        first["over_random_high"],
        first["p_random"],
        "signed-rank test",
    )
    return over_reference(str(first["explainer"]), told, inputs.confidence, "the random explainer")


def _caveats(rows: pd.DataFrame, inputs: ReportInputs) -> list[str]:
    about = scope(inputs.table("explainers"), inputs.factors)
    told = [about, missing(rows, "n_samples", "values of F"), _little(inputs)]
    found = " ".join(filter(None, told))
    return [found] if found else []


def _little(inputs: ReportInputs) -> str:
    """Say where there is little synergy, so that F says little."""
    strata = main_level(inputs.table("strata"))
    if strata.empty:
        return ""
    own = strata.groupby("answer", sort=False)
    parts = [
        f"“{answer}” ({counted(int(rows['n_samples'].max()), 'sample')})"
        for answer, rows in own
        if rows["mean_dividend"].abs().mean() < LITTLE
    ]
    return f"Where the model answers {listed(parts)}, D is near 0 and F says little." if parts else ""


def _ranking(inputs: ReportInputs) -> Section:
    rows = main_rows(inputs)
    if rows.empty:
        return Section("ranking", "Ranking", ("There is no explainer to rank.",))
    blocks: list[Block] = []
    if rows["mean_f"].notna().any():
        blocks.append(_ranking_chart(rows, inputs))
    blocks.append(_explainers_table("ranking", "explainers", rows, inputs))
    every = inputs.table("explainers")
    cells = every[every["level"] == "cell"]
    if len(cells) > len(rows):
        blocks.append(
            _explainers_table(
                "cells", f"explainers by {listed([*varying(cells, inputs.factors)])}", cells, inputs
            )
        )
    blocks += _pairs_block(inputs)
    blocks += mixed_block(inputs, "explainer", "F", "sample: a question about an image.")
    blocks += pictures(inputs.figures, TITLES, "ranking", "synergy_curves")
    return Section("ranking", "Ranking", (), blocks)


def _pairs_block(inputs: ReportInputs) -> list[Block]:
    pairs = main_level(inputs.table("pairs"))
    if pairs.empty:
        return []
    words = (
        "Differences of F of two explainers over the samples that both have. The t test is about the mean; "
        "signed ranks weigh ranks, and say less where many samples have a D near 0. Holm: over these pairs."
    )
    shown: Columns = {**varying(pairs, inputs.factors), **PAIRS}
    title = "pairs of explainers"
    table = data_table("pairs_shown", title, pairs, inputs.key, shown=shown, words=(words,), folded=True)
    return [table]


def _ranking_chart(rows: pd.DataFrame, inputs: ReportInputs) -> Block:
    columns = {
        "explainer": "method",
        "mean_f": "mean",
        "low": "low",
        "high": "high",
        "n_samples": "n_samples",
    }
    told = {
        "explainer": "method",
        "f": "value",
        "dividend": "D",
        "answer": "answer",
        "sample_id": "sample_id",
    }
    words = (
        f"A dot is a sample, a large mark a mean, its line the {100 * inputs.confidence:g}% interval over "
        "samples drawn anew: about these models and question sets, not about others."
    )
    means = as_rows(rows.sort_values("rank"), columns)
    dots = as_rows(inputs.table("scores"), told) if len(inputs.table("scores")) else _no_dots()
    return ranking_chart("ranking_chart", "Mean F by explainer", means, dots, "F", (words,))


def _no_dots() -> pd.DataFrame:
    return pd.DataFrame({"method": pd.Series(dtype=str), "value": pd.Series(dtype=float)})


def _explainers_table(name: str, title: str, rows: pd.DataFrame, inputs: ReportInputs) -> Block:
    empty = [key for key in ("over_random", "p_random") if rows[key].isna().all()]
    empty += ["pointing", "pointing_chance", "iou"] if (rows["n_masks"] == 0).all() else []
    empty += ["n_common"] if (rows["n_common"] == rows["n_samples"]).all() else []
    shown: Columns = {
        key: how for key, how in {**varying(rows, inputs.factors), **EXPLAINERS}.items() if key not in empty
    }
    keys = keys_of_rows(rows, inputs.planned, "synergy", "explainer")
    words = (
        "F / D: mean F over mean D, the synergy of the whole input. p: signed-rank test of the samples' "
        "differences from random. P(first): in how many resamples of the samples the mean F is the highest."
    )
    return data_table(name, title, rows, inputs.key, shown=shown, keys=keys, words=(words,))


def _exact(inputs: ReportInputs) -> Section:
    title = "F against the exact interaction"
    both = f_and_sii(inputs.table("scores"), inputs.table("sii"), inputs.factors)
    if both.empty:
        words = "SII was not computed for any sample, so F is not compared with the exact interaction."
        return Section("sii", title, (words,), pictures(inputs.figures, TITLES, "f_against_sii"))
    chart = scatter_chart(
        "f_sii",
        title,
        both,
        ("sii", "SII: exact interaction of the groups"),
        ("f", "F"),
        "explainer",
        words=("A mark is a sample and explainer. A click in the legend shows one explainer alone.",),
    )
    agreement = _correlations(inputs.table("agreement"))
    shown: Columns = {
        **varying(agreement, inputs.factors),
        "level": "level",
        "left": "of",
        "right": "with",
        "value": Shown("Spearman's correlation (interval)", ("low", "high")),
        "n_samples": "samples",
        "n_explainers": "explainers",
    }
    told = (
        "across: over samples, mean over explainers; within: over explainers, mean over samples; pooled: all "
        "at once. Within is what says that F orders a sample's explainers as SII does. The table agreement "
        "below also has Kendall's tau, and how much of each varies within samples.",
    )
    table = data_table("sii_agreement", "agreement with SII", agreement, inputs.key, shown=shown, words=told)
    blocks: list[Block] = [chart, *([table] if len(agreement) else [])]
    blocks += pictures(inputs.figures, TITLES, "f_against_sii")
    return Section("sii", title, (), blocks)


def _correlations(agreement: pd.DataFrame) -> pd.DataFrame:
    """Return the known correlations of F and of D with SII, in words."""
    if agreement.empty:
        return agreement
    own = agreement["left"].isin(["f", "dividend"]) & agreement["right"].isin(["sii", "sii_top"])
    kept = agreement[own & (agreement["measure"] == MEASURE) & agreement["value"].notna()]
    return kept.replace({"left": NAMES, "right": NAMES})


def f_and_sii(scores: pd.DataFrame, sii: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return f, sii, dividend and answer of every sample and explainer that has both."""
    if scores.empty or sii.empty:
        return pd.DataFrame()
    keys = [*(name for name in factors if name in scores and name in sii), "explainer", "sample_id"]
    both = scores[[*keys, "f", "dividend", "answer"]].merge(sii[[*keys, "sii"]], on=keys, how="inner")
    return both.dropna(subset=["f", "sii"]).reset_index(drop=True)


def _metrics(inputs: ReportInputs) -> Section:
    taus = inputs.table("taus")
    taus = taus.replace({"left": NAMES, "right": NAMES}) if len(taus) else taus
    blocks: list[Block] = []
    if len(taus):
        shown: Columns = {
            **varying(taus, inputs.factors),
            "left": "ranking by",
            "right": "and by",
            "tau": "Kendall's tau",
            "p": "p",
            "n": "explainers",
        }
        told = (
            "+1: the same order of quality, 0: none in common, -1: reversed. A metric of one modality whose "
            "order is not F's cannot stand for F; a p that is not small does not show that it is not. p is "
            "not adjusted.",
        )
        blocks.append(
            data_table("taus_shown", "do metrics agree?", taus, inputs.key, shown=shown, words=told)
        )
    blocks += pictures(inputs.figures, TITLES, "evaluation_collapse")
    words = () if blocks else ("No ranking by another metric is there to compare with.",)
    return Section("metrics", "Other metrics", words, blocks)


def _samples(inputs: ReportInputs) -> Section:
    if not inputs.sheets:
        return Section("samples", "Samples", ("No sheets of samples were kept for this report.",))
    shown = tuple(inputs.sheets[:N_SHEETS])
    n_all = len(inputs.table("samples")) or len(inputs.sheets)
    words = f"The first {len(shown)} of {counted(n_all, 'sample')}; the pages of samples have more."
    return Section("samples", "Samples", (words,), (Samples(shown),))
