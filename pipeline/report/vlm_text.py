"""A sweep over explainers of vision-language models as text for a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.report.aligned import MISSING, aligned
from pipeline.statistics.vlm_explainers import REFERENCE
from pipeline.statistics.vlm_metrics import METRICS

Tables = Mapping[str, pd.DataFrame]

ONE_MODALITY = ("image_auc_del", "text_auc_del", "image_srg", "text_srg")
TITLES = {
    "f": "F",
    "image_auc_del": "image deletion",
    "text_auc_del": "text deletion",
    "image_srg": "image SRG",
    "text_srg": "text SRG",
    "pointing": "pointing",
    "iou": "IoU",
    "sii": "SII",
}
PAIRS = {("f", "sii"): "F with SII", ("dividend", "sii"): "D with SII", ("f", "dividend"): "F with D"}
FLAGS = {
    "constant_patches": "all patches have one score: their order, and so F, is the tie rule's.",
    "constant_tokens": "all tokens have one score: their order, and so F, is the tie rule's.",
    "incomplete": "the scores do not add up to what they explain within the explainer's tolerance.",
    "failed": "the explainer gave no scores for these samples; the reason is in the table scores.",
    "absent_cells": "cells that were not asked for this explainer; they are in none of its means.",
    "no_score": "the explainer has no F at all, so it has no rank.",
    "one_sample": "a cell has one F of this explainer alone, so there is no interval.",
    "constant": "F is the same for all samples of a cell.",
    "no_common_sample": "no sample has an F of every explainer, so there is no rank.",
    "tied": "another explainer has the same mean; equal ones are ranked by name.",
}
SHOWN = ("missing", "common_samples_only")
"""Flags that columns of the ranking say."""
WIDE = 3
"""Strata of more answers than this are shown without intervals."""


def vlm_text(tables: Tables, confidence: float) -> str:
    """Return the ranking of each cell and what the other tables say of it, as aligned text and notes.

    tables: samples, explainers, strata, taus, agreement and states of the vlm_comparison stage, and mixed
    where it was fitted; all but samples and explainers may be empty.
    """
    parts = [
        _rankings(tables, confidence),
        _strata(tables, confidence),
        _taus(tables["taus"], _factors(tables), confidence),
        _agreement(tables["agreement"], _factors(tables), confidence),
        _states(tables["states"], _factors(tables)),
        _mixed(tables.get("mixed", pd.DataFrame()), _factors(tables), confidence),
    ]
    return "\n".join(part for part in parts if part)


def _factors(tables: Tables) -> list[str]:
    columns = list(tables["explainers"].columns)
    return columns[columns.index("level") + 1 : columns.index("rank")]


def _rankings(tables: Tables, confidence: float) -> str:
    explainers, samples, factors = tables["explainers"], tables["samples"], _factors(tables)
    overall = explainers[explainers["level"] == "overall"]
    n_cells = len(explainers[explainers["level"] == "cell"].drop_duplicates(factors))
    parts = []
    if len(overall):
        parts.append(f"mean over {n_cells} cells\n" + _ranked(overall, confidence))
    for key, asked in _cells(samples, factors):
        rows = _of_cell(explainers[explainers["level"] == "cell"], factors, key)
        parts.append(_head(key, factors, asked) + (_ranked(rows, confidence) if len(rows) else _NOTHING))
    return "\n".join(parts) + ("\n" + _ranking_notes(explainers, confidence) if len(explainers) else "")


_NOTHING = "no explainer was scored on any sample\n"


def _cells(table: pd.DataFrame, factors: Sequence[str]) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    grouped = table.groupby(list(factors), sort=True)
    return [(tuple(str(value) for value in key), rows) for key, rows in grouped]


def _of_cell(table: pd.DataFrame, factors: Sequence[str], key: Sequence[str]) -> pd.DataFrame:
    for name, value in zip(factors, key, strict=True):
        table = table[table[name].astype(str) == value]
    return table


def _title(key: Sequence[str], factors: Sequence[str]) -> str:
    """Return a cell's name: its model and questions, and other factors with their names."""
    named = zip(factors, key, strict=True)
    return ", ".join(value if name in ("vlm", "questions") else f"{name} {value}" for name, value in named)


def _head(key: Sequence[str], factors: Sequence[str], asked: pd.DataFrame) -> str:
    """Return a cell's title, the accuracy of its model, and which samples are left out and why."""
    asked = asked.assign(flag=asked["flag"].fillna("").astype(str))
    answered = asked[asked["flag"] == ""]
    line = f"{_title(key, factors)}: {_counted(len(answered), 'sample')}"
    if len(answered):
        line += f", accuracy of the model {answered['correct'].astype(float).mean():.1%}"
    flags = [flag for flag in asked["flag"] if flag]
    if not flags:
        return line + "\n"
    counts = Counter(_name(flag) for flag in flags)
    first = {name: next(flag for flag in flags if _name(flag) == name) for name in counts}
    reasons = [
        f"{first[name]}{'' if n == 1 else f' (and {n - 1} more)'}" for name, n in sorted(counts.items())
    ]
    return f"{line}; {len(flags)} left out: {'; '.join(reasons)}\n"


def _ranked(rows: pd.DataFrame, confidence: float) -> str:
    interval = f"({_percent(confidence)} interval)"
    shown = pd.DataFrame(
        {
            "rank": rows["rank"].map(lambda rank: MISSING if pd.isna(rank) else f"{rank:.0f}"),
            "explainer": rows["explainer"],
            f"mean F {interval}": _estimates(rows, "mean_f", "low", "high"),
            "over random": _estimates(rows, "over_random", "over_random_low", "over_random_high"),
            "p (Holm)": rows["p_random"].map(_p),
            "P(first)": rows["p_first"].map(_share),
            "F / D": rows["ratio_of_means"].map(_number),
            "tied patches": rows["tie_share"].map(_part),
            "pointing (chance)": _beside(rows, "pointing", "pointing_chance"),
            "IoU": rows["iou"].map(_number),
            "masks": rows["n_masks"].astype(str),
            "samples": rows["n_samples"].astype(str),
            "missing": rows["n_missing"].astype(str),
            "common samples": rows["n_common"].astype(str),
            "mean on these": rows["mean_common"].map(_number),
        }
    )
    unneeded = {
        "over random": rows["over_random"].isna().all(),
        "p (Holm)": rows["p_random"].isna().all(),
        "missing": (rows["n_missing"] == 0).all(),
        "common samples": (rows["n_common"] == rows["n_samples"]).all(),
        "mean on these": (rows["n_common"] == rows["n_samples"]).all(),
        **dict.fromkeys(("pointing (chance)", "IoU", "masks"), (rows["n_masks"] == 0).all()),
    }
    dropped = [name for name, drop in unneeded.items() if drop]
    return aligned(shown.drop(columns=dropped)) + _flag_lines(rows)


def _flag_lines(rows: pd.DataFrame) -> str:
    """Return a line an explainer with flags that no column shows."""
    flags = {
        str(row["explainer"]): [
            flag for flag in str(row["flags"]).split(";") if _name(flag) not in ("", *SHOWN)
        ]
        for _, row in rows.iterrows()
    }
    return "".join(f"flags of {name}: {', '.join(raised)}\n" for name, raised in flags.items() if raised)


def _name(flag: str) -> str:
    return flag.partition(":")[0]


def _ranking_notes(explainers: pd.DataFrame, confidence: float) -> str:
    overall = (explainers["level"] == "overall").any()
    compared = explainers["over_random"].notna().any()
    level = _percent(confidence)
    notes = [
        f"{level} interval: percentiles over samples drawn anew, the same ones for every explainer. It is",
        "about these models and question sets, not about others.",
        "P(first): share of these draws in which the explainer has the highest mean F.",
        "F / D: mean F over mean D; D is what image and text do together, whatever the explainer.",
    ]
    if compared:
        notes += [
            "p: signed-rank test (Pratt) of the samples' differences from random; Holm over explainers. It",
            "weighs ranks and the mean weighs sizes: where many samples have a D near 0 they may disagree.",
        ]
    elif REFERENCE not in set(explainers["explainer"]):
        notes.append("There is no explainer random, so nothing is compared with chance.")
    if explainers["n_masks"].gt(0).any():
        notes.append("Pointing and IoU are over the samples with an object to point at (masks).")
    if (explainers["n_common"] != explainers["n_samples"]).any():
        notes.append("Rank and P(first) are over the common samples, those that every explainer with F has.")
    if explainers["n_missing"].gt(0).any():
        notes.append("Missing: samples without an F of the explainer; they are in none of its means.")
    if overall:
        notes.append(
            "The mean over cells weighs each cell alike; a question that several cells ask is drawn for all."
        )
    raised = {_name(flag) for flags in explainers["flags"] for flag in str(flags).split(";")}
    notes += [f"{name}: {words}" for name, words in FLAGS.items() if name in raised]
    return "\n".join(notes) + "\n"


def _strata(tables: Tables, confidence: float) -> str:
    """Return F by answer: of all cells together where there are several, else of the one cell."""
    strata, explainers = tables["strata"], tables["explainers"]
    if strata.empty:
        return ""
    level = "overall" if (strata["level"] == "overall").any() else "cell"
    rows = strata[strata["level"] == level]
    ranked = explainers.loc[explainers["level"] == level, "explainer"]
    order = [name for name in ranked if name in set(rows["explainer"])]
    with_interval = rows["answer"].nunique() <= WIDE
    columns = {"explainer": ["(mean D)", *order]}
    for answer in dict.fromkeys(rows["answer"].astype(str)):
        own = rows[rows["answer"] == answer]
        known = own.set_index("explainer").reindex(order)
        means = _estimates(known, "mean_f", "low", "high") if with_interval else known["mean_f"].map(_number)
        title = f"{answer or '(blank)'} ({own['n_samples'].max()})"
        columns[title] = [_number(own["mean_dividend"].mean()), *means]
    interval = f", {_percent(confidence)} interval" if with_interval else ""
    where = "; mean over cells, each cell's is in the table strata" if level == "overall" else ""
    return (
        f"mean F by the model's answer (samples){interval}{where}\n"
        + aligned(pd.DataFrame(columns))
        + "Where D is near 0 there is little to find, and F says little of an explainer.\n"
    )


def _taus(taus: pd.DataFrame, factors: Sequence[str], confidence: float) -> str:
    """Return how each metric's ranking agrees with F's and with SII's."""
    if taus.empty:
        return ""
    rows: list[dict[str, str]] = []
    for key, own in _cells(taus, factors):
        for reference in ("f", "sii"):
            found = {metric: _tau(own, reference, metric) for metric in METRICS if metric != reference}
            if any(found.values()):
                named = {TITLES[metric]: words or MISSING for metric, words in found.items()}
                rows.append({"cell": _title(key, factors), "with": TITLES[reference]} | named)
    table = pd.DataFrame(rows).fillna(MISSING)
    titles = [TITLES[metric] for metric in METRICS if metric != "f"]
    shown = ["cell", "with", *(t for t in titles if t in table and (table[t] != MISSING).any())]
    return (
        "do the metrics rank the explainers alike? Kendall's tau (p; explainers)\n"
        + aligned(table[shown])
        + _collapse(taus, confidence)
    )


def _tau(rows: pd.DataFrame, reference: str, metric: str) -> str:
    pair = {reference, metric}
    found = rows[rows["left"].isin(pair) & rows["right"].isin(pair)]
    if found.empty:
        return ""
    row = found.iloc[0]
    if pd.isna(row["tau"]):
        return f"{MISSING} ({row['n']})"
    return f"{row['tau']:.2f} ({_p(row['p'])}; {row['n']})"


def _collapse(taus: pd.DataFrame, confidence: float) -> str:
    """Return in words whether metrics of one modality can stand for F."""
    own = taus[(taus["left"] == "f") & taus["right"].isin(ONE_MODALITY) & taus["tau"].notna()]
    lines = [
        "tau +1: the same order of quality, 0: none in common, -1: reversed. p is not adjusted; it is of the",
        "explainers here and knows nothing of how firm their means are.",
    ]
    if len(own):
        alpha = 1 - confidence
        n = int(((own["tau"] > 0) & (own["p"] < alpha)).sum())
        lines.append(
            f"{n} of {len(own)} rankings by deletion or SRG in one modality agree with F's (p < {alpha:.2g})."
            "\nOne that does not cannot stand for F (evaluation collapse)."
        )
    if ((taus["left"] == "sii") | (taus["right"] == "sii")).any():
        lines.append(
            "SII ranks by the samples and explainers that have it, the others by all common samples."
        )
    return "\n".join(lines) + "\n"


def _agreement(agreement: pd.DataFrame, factors: Sequence[str], confidence: float) -> str:
    """Return how F follows SII across and within samples, beside D alone."""
    if agreement.empty:
        return ""
    rows: list[dict[str, str]] = []
    notes: list[str] = []
    for key, own in _cells(agreement, factors):
        for (level, measure), part in own.groupby(["level", "measure"], sort=False):
            values = {
                title: _correlation(part[(part["left"] == left) & (part["right"] == right)])
                for (left, right), title in PAIRS.items()
            }
            rows.append({"cell": _title(key, factors), "level": str(level), "measure": str(measure)} | values)
        first = own.iloc[0]
        size = f"{_counted(first['n_samples'], 'sample')} and {_counted(first['n_explainers'], 'explainer')}"
        notes += [f"{_title(key, factors)} ({size} with SII):", *_findings(own)]
    return (
        f"does F follow the exact interaction (SII)? correlations, {_percent(confidence)} interval\n"
        + aligned(pd.DataFrame(rows))
        + "across: over samples, mean over explainers; within: over explainers, mean over samples; "
        + "pooled: all at once.\nD is one number a sample: within a sample it ranks nothing.\n"
        + "\n".join(notes)
        + "\n"
    )


def _findings(own: pd.DataFrame) -> list[str]:
    """Return what Spearman's correlations of one cell say, in words."""
    with_sii = own[(own["measure"] == "spearman") & (own["right"] == "sii")]
    across, within = (with_sii[with_sii["level"] == level] for level in ("across", "within"))
    f, alone = (float(across.loc[across["left"] == left, "value"].iloc[0]) for left in ("f", "dividend"))
    own_order = within[within["left"] == "f"]
    found = []
    if pd.notna(f) and pd.notna(alone):
        words = (
            "D's is no lower, so agreement across samples need not come from the explainers' orders"
            if alone >= f
            else "F's is higher than that of D alone"
        )
        found.append(f"  across samples F {f:.2f}, D alone {alone:.2f}: {words}.")
    if own_order["value"].notna().any():
        found.append(f"  within samples F {_correlation(own_order)}: {_sign(own_order.iloc[0])}.")
    return found or ["  too few samples and explainers to say."]


def _sign(row: pd.Series) -> str:
    if row["low"] > 0:
        return "F orders a sample's explainers as SII does, more than by chance"
    if row["high"] < 0:
        return "F orders a sample's explainers against SII"
    return "it is not shown that F orders a sample's explainers as SII does"


def _correlation(rows: pd.DataFrame) -> str:
    if rows.empty or pd.isna(rows["value"].iloc[0]):
        return MISSING
    row = rows.iloc[0]
    words = f"{row['value']:.2f}"
    return words if pd.isna(row["low"]) else f"{words} ({row['low']:.2f} to {row['high']:.2f})"


def _states(states: pd.DataFrame, factors: Sequence[str]) -> str:
    """Return what was asked of the model beside what the metric asks as published."""
    if states.empty:
        return ""
    shown = pd.DataFrame(
        {
            "cell": [_title(key, factors) for key in states[list(factors)].astype(str).to_numpy().tolist()],
            "explainers": states["n_explainers"].astype(str),
            "asked together": states["together"].map(_count),
            "one by one": states["alone"].map(_count),
            "of these tie-breaks": states["ties"].map(_count),
            "insertion, more": states["insertion"].map(_count),
            "as published": states["published"].map(_count),
            "SII, an explainer": states["sii"].map(_count),
        }
    )
    empty = {
        "of these tie-breaks": (states["ties"] == 0).all(),
        "insertion, more": (states["insertion"] == 0).all(),
        "SII, an explainer": states["sii"].isna().all(),
    }
    return (
        "states of the model a sample, for all explainers\n"
        + aligned(shown.drop(columns=[name for name, drop in empty.items() if drop]))
        + "Asked together: what several explainers need is asked once; with insertion where it is asked.\n"
        + "As published: 6 K + 2 an explainer, one order each, without insertion.\n"
    )


def _mixed(mixed: pd.DataFrame, factors: Sequence[str], confidence: float) -> str:
    """Return a line a finding of the mixed models, then each model's formula and notes, where it has them."""
    if mixed.empty:
        return ""
    apart = [name for name in factors if name in mixed]
    shown = pd.DataFrame(
        {
            **{name: mixed[name].astype(str) for name in apart},
            "model": mixed["model"],
            "explainer": mixed["explainer"],
            f"over random ({_percent(confidence)} interval)": _estimates(mixed, "estimate", "low", "high"),
            "p": mixed["p"].map(_p),
            "p (Holm)": mixed["p_holm"].map(_p),
        }
    )
    return (
        "F over random by mixed models; a factor of one level says nothing of others\n"
        + aligned(shown)
        + "".join(f"{line}\n" for line in _asides(mixed, apart))
    )


def _asides(mixed: pd.DataFrame, apart: Sequence[str]) -> list[str]:
    """Return the formula and notes of each model, once each."""
    found: list[str] = []
    for _, row in mixed.iterrows():
        words = [str(row[name]) for name in ("formula", "notes") if name in mixed and row[name]]
        title = " ".join([str(row["model"]), *(f"{name}={row[name]}" for name in apart)])
        found += [f"{title}: {'. '.join(words)}"] if words else []
    return list(dict.fromkeys(found))


def _estimates(rows: pd.DataFrame, value: str, low: str, high: str) -> list[str]:
    return [_estimate(*three) for three in zip(rows[value], rows[low], rows[high], strict=True)]


def _estimate(value: float, low: float, high: float) -> str:
    if pd.isna(value) or pd.isna(low):
        return _number(value)
    return f"{_number(value)} ({_number(low)} to {_number(high)})"


def _beside(rows: pd.DataFrame, value: str, chance: str) -> list[str]:
    both = zip(rows[value], rows[chance], strict=True)
    return [MISSING if pd.isna(one) else f"{one:.2f} ({other:.2f})" for one, other in both]


def _number(value: float) -> str:
    """Return three digits; what rounds to 0 has no sign."""
    return MISSING if pd.isna(value) else f"{value:.3f}".replace("-0.000", "0.000")


def _part(share: float) -> str:
    return MISSING if pd.isna(share) else f"{share:.0%}"


def _count(value: float) -> str:
    return MISSING if pd.isna(value) else f"{value:,.0f}"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g}%"


def _p(p: float) -> str:
    if pd.isna(p):
        return MISSING
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


def _share(p: float) -> str:
    """Return two digits, but never 1.00 or 0.00: a bootstrap does not show certainty."""
    if pd.isna(p):
        return MISSING
    return {"1.00": ">0.99", "0.00": "<0.01"}.get(f"{p:.2f}", f"{p:.2f}")
