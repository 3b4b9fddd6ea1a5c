"""A sweep over explainers of vision-language models as text for a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from math import factorial

import pandas as pd

from pipeline.report.aligned import MISSING, aligned
from pipeline.report.mixed_text import mixed_text
from pipeline.report.wording import estimates, number, p_value, percent, wrapped
from pipeline.statistics.intervals import error_level, fewest_values
from pipeline.statistics.vlm_agreement import EXCESS, SHARE
from pipeline.statistics.vlm_explainers import REFERENCE
from pipeline.statistics.vlm_metrics import EXACT, METRICS

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
    "sii": "SII sum",
    "sii_top": "SII top pair",
}
REFERENCES = ("f", "sii", "sii_top")
"""What other metrics are compared with, a column each."""
PAIRS = {
    ("f", "sii"): "F, sum",
    ("dividend", "sii"): "D, sum",
    ("f", "sii_top"): "F, top pair",
    ("dividend", "sii_top"): "D, top pair",
}
MEASURE = "spearman"
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
FEW = 10
"""Fewer samples: a percentile interval is told to be too narrow. Of 10 it holds a mean in .90, of 5 in .8."""
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
        mixed_text(tables.get("mixed", pd.DataFrame()), "F", "explainer", confidence, _title),
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
        size = _shared(overall, "n_samples", ", {} samples") + _shared(overall, "n_masks", MASKS)
        parts.append(f"mean over {n_cells} cells{size}\n" + _ranked(overall, confidence))
    for key, asked in _cells(samples, factors):
        rows = _of_cell(explainers[explainers["level"] == "cell"], factors, key)
        head = _head(key, factors, asked, _shared(rows, "n_masks", MASKS))
        parts.append(head + (_ranked(rows, confidence) if len(rows) else _NOTHING))
    return "\n".join(parts) + ("\n" + _ranking_notes(explainers, confidence) if len(explainers) else "")


TOO_NARROW = f"The interval of fewer than {FEW} samples is too narrow: resampling cannot show what they lack."
_NOTHING = "no explainer was scored on any sample\n"
MASKS = ", {} with a mask"


def _shared(rows: pd.DataFrame, count: str, words: str) -> str:
    """Return in words a count that all explainers have alike, else nothing."""
    n = int(rows[count].max()) if len(rows) else 0
    return words.format(f"{n:,}") if n and (rows[count] == n).all() else ""


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


def _head(key: Sequence[str], factors: Sequence[str], asked: pd.DataFrame, masks: str) -> str:
    """Return a cell's title, the accuracy of its model, and which samples are left out and why."""
    asked = asked.assign(flag=asked["flag"].fillna("").astype(str))
    answered = asked[asked["flag"] == ""]
    line = f"{_title(key, factors)}: {_counted(len(answered), 'sample')}"
    if len(answered):
        line += f", accuracy of the model {answered['correct'].astype(float).mean():.1%}{masks}"
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
    interval = f"({percent(confidence)} interval)"
    shown = pd.DataFrame(
        {
            "rank": rows["rank"].map(lambda rank: MISSING if pd.isna(rank) else f"{rank:.0f}"),
            "explainer": rows["explainer"],
            f"mean F {interval}": estimates(rows, "mean_f", "low", "high"),
            "over random": estimates(rows, "over_random", "over_random_low", "over_random_high"),
            "p (Holm)": rows["p_random"].map(p_value),
            "P(first)": rows["p_first"].map(_share),
            "F / D": rows["ratio_of_means"].map(number),
            "tied": rows["tie_share"].map(_part),
            "pointing (chance)": _beside(rows, "pointing", "pointing_chance"),
            "IoU": rows["iou"].map(number),
            "masks": rows["n_masks"].astype(str),
            "samples": rows["n_samples"].astype(str),
            "missing": rows["n_missing"].astype(str),
            "common samples": rows["n_common"].astype(str),
            "mean on these": rows["mean_common"].map(number),
        }
    )
    unneeded = {
        "over random": rows["over_random"].isna().all(),
        "p (Holm)": rows["p_random"].isna().all(),
        "missing": (rows["n_missing"] == 0).all(),
        "common samples": (rows["n_common"] == rows["n_samples"]).all(),
        "mean on these": (rows["n_common"] == rows["n_samples"]).all(),
        "samples": (rows["n_missing"] == 0).all() and bool(_shared(rows, "n_samples", "{}")),
        "masks": bool(_shared(rows, "n_masks", "{}")) or (rows["n_masks"] == 0).all(),
        **dict.fromkeys(("pointing (chance)", "IoU"), (rows["n_masks"] == 0).all()),
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
    level = percent(confidence)
    notes = [
        f"{level} interval: percentiles over samples drawn anew, the same ones for every explainer. It is",
        "about these models and question sets, not about others.",
        "P(first): share of these draws in which the explainer has the highest mean F.",
        "F / D: mean F over mean D; D is what image and text do together, whatever the explainer.",
        "tied: patches whose score another patch has too; their order is the tie rule's.",
    ]
    if compared:
        notes += [
            "p: signed-rank test (Pratt) of the samples' differences from random; Holm over explainers. It",
            "weighs ranks and the mean weighs sizes: where many samples have a D near 0 they may disagree.",
        ]
    elif REFERENCE not in set(explainers["explainer"]):
        notes.append("There is no explainer random, so nothing is compared with chance.")
    if explainers["n_samples"].between(2, FEW - 1).any():
        notes.append(TOO_NARROW)
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
        means = estimates(known, "mean_f", "low", "high") if with_interval else known["mean_f"].map(number)
        title = f"{answer or '(blank)'} ({own['n_samples'].max()})"
        columns[title] = [number(own["mean_dividend"].mean()), *means]
    interval = f", {percent(confidence)} interval" if with_interval else ""
    where = "; mean over cells, each cell's is in the table strata" if level == "overall" else ""
    return (
        f"mean F by the model's answer (samples){interval}{where}\n"
        + aligned(pd.DataFrame(columns))
        + "Where D is near 0 there is little to find, and F says little of an explainer.\n"
        + (f"{TOO_NARROW}\n" if with_interval and rows["n_samples"].between(2, FEW - 1).any() else "")
    )


def _taus(taus: pd.DataFrame, factors: Sequence[str], confidence: float) -> str:
    """Return how each metric's ranking agrees with F's and with those of SII."""
    if taus.empty:
        return ""
    alpha = error_level(confidence)
    parts = [
        f"{_title(key, factors)}\n{aligned(_tau_rows(own, alpha))}" for key, own in _cells(taus, factors)
    ]
    return (
        "do the metrics rank the explainers alike? Kendall's tau (p; explainers, samples)\n"
        + "".join(parts)
        + _collapse(taus, alpha)
    )


def _tau_rows(own: pd.DataFrame, alpha: float) -> pd.DataFrame:
    there = {*own["left"], *own["right"]}
    columns = [name for name in REFERENCES if name in there]
    rows = [metric for metric in METRICS if metric in there and metric != "f"]
    named = {f"with {TITLES[name]}": [_tau(own, name, metric, alpha) for metric in rows] for name in columns}
    shown = pd.DataFrame({"metric": [TITLES[metric] for metric in rows]} | named)
    return shown[(shown.drop(columns="metric") != MISSING).any(axis=1)]


def _tau(rows: pd.DataFrame, reference: str, metric: str, alpha: float) -> str:
    """Return a tau, with a "?" where its p does not tell it from 0."""
    pair = {reference, metric}
    found = rows[rows["left"].isin(pair) & rows["right"].isin(pair)]
    if found.empty:
        return MISSING
    row = found.iloc[0]
    size = f"{row['n']}, {row['n_samples']}"
    if pd.isna(row["tau"]):
        return f"{MISSING} ({size})"
    return f"{row['tau']:.2f}{'' if row['p'] < alpha else '?'} ({p_value(row['p'])}; {size})"


def _collapse(taus: pd.DataFrame, alpha: float) -> str:
    """Return in words whether metrics of one modality can stand for F."""
    lines = [
        "tau +1: the same order of quality, 0: none in common, -1: reversed; on the explainers and samples"
        " that both have.",
        f"?: p is not below {alpha:.2g}. p is not adjusted; it is of the explainers here and knows nothing of"
        " how firm their means are.",
    ]
    least = _least(alpha)
    if (taus["n"] < least).any():
        lines.append(
            f"Fewer than {least} explainers cannot show a p below {alpha:.2g}, whatever their order."
        )
    own = taus[(taus["left"] == "f") & taus["right"].isin(ONE_MODALITY) & taus["tau"].notna()]
    if len(own):
        n = int(((own["tau"] > 0) & (own["p"] < alpha)).sum())
        lines.append(
            f"{n} of {len(own)} rankings by deletion or SRG in one modality agree with F's (p < {alpha:.2g})."
            " One that does not is not shown to be able to stand for F (evaluation collapse)."
        )
    return wrapped(lines)


def _least(alpha: float) -> int:
    """Return how many explainers can have a p below alpha: 2 of their n! orders are as far from chance."""
    return next(n for n in count(2) if 2 / factorial(n) < alpha)


def _agreement(agreement: pd.DataFrame, factors: Sequence[str], confidence: float) -> str:
    """Return how F and D alone follow the sum of SII and that of the top pair, across and within samples."""
    if agreement.empty:
        return ""
    parts = []
    for key, own in _cells(agreement, factors):
        first = own.iloc[0]
        size = f"{_counted(first['n_samples'], 'sample')}, {_counted(first['n_explainers'], 'explainer')}"
        parts += [f"{_title(key, factors)}: {size}\n", aligned(_correlated(own)), *_findings(own, confidence)]
    return (
        f"does F follow the exact interaction (SII)? Spearman, {percent(confidence)} interval\n"
        + "".join(parts)
        + wrapped(
            [
                "sum: over all pairs of a group of patches and a group of tokens. Together the groups are the"
                " whole image and question, so it is near D whatever the explainer, and exactly D where the"
                " model's interactions are of one patch and one token.",
                "top pair: the first group of both, so it is about what the explainer ranks first.",
                "across: over samples, mean over explainers; within: over explainers, mean over samples;"
                " pooled: all at once. D is one number a sample, so it ranks no explainers within one."
                " Kendall's tau is in the table agreement.",
            ]
        )
    )


def _correlated(own: pd.DataFrame) -> pd.DataFrame:
    rows = own[own["measure"] == MEASURE]
    return pd.DataFrame(
        [
            {"level": str(level)}
            | {
                title: _correlation(part[(part["left"] == left) & (part["right"] == right)])
                for (left, right), title in PAIRS.items()
            }
            for level, part in rows.groupby("level", sort=False)
        ]
    )


def _findings(own: pd.DataFrame, confidence: float) -> list[str]:
    """Return in words what the correlations of one cell say, and which measure tells explainers apart."""
    rows = own[own["measure"] == MEASURE]
    of_each = {TITLES[name]: rows[rows["right"] == name] for name in EXACT}
    found = [line for title, each in of_each.items() for line in _finding(each, title, confidence)]
    shares = own[(own["measure"] == SHARE) & own["value"].notna()]
    told = [f"{TITLES[row['left']]} {_part(row['value'])}" for _, row in shares.iterrows()]
    if told:
        found.append(f"variance within samples, between explainers: {', '.join(told)}.")
    return [f"  {line}\n" for line in found or ["too few samples and explainers to say."]]


def _finding(rows: pd.DataFrame, title: str, confidence: float) -> list[str]:
    least = fewest_values(confidence)
    across, within = (rows[rows["level"] == level] for level in ("across", "within"))
    f, alone, more = (across[across["left"] == left].iloc[0] for left in ("f", "dividend", EXCESS))
    order = within[within["left"] == "f"].iloc[0]
    found = []
    if pd.notna(f["value"]) and pd.notna(alone["value"]):
        words = (
            "more than D alone"
            if more["low"] > 0 and more["n_samples"] >= least
            else "not shown to be more than D alone, which knows no explainer"
        )
        found.append(f"{title} across samples: F {f['value']:.2f}, D {alone['value']:.2f}: {words}.")
    if pd.notna(order["value"]):
        found.append(f"{title} within samples: F {order['value']:.2f}: {_sign(order, least)}.")
    return found


def _sign(row: pd.Series, least: int) -> str:
    if row["n"] < least:
        return f"{_counted(int(row['n']), 'sample')} with an order to compare, too few to say"
    if row["low"] > 0:
        return "F orders a sample's explainers as it does, more than by chance"
    if row["high"] < 0:
        return "F orders a sample's explainers against it"
    return "it is not shown that F orders a sample's explainers as it does"


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
        + "Asked together: the four corners are asked once for all; with insertion where it is asked.\n"
        + "As published: 6 K + 2 an explainer, one order each, without insertion.\n"
    )


def _beside(rows: pd.DataFrame, value: str, chance: str) -> list[str]:
    both = zip(rows[value], rows[chance], strict=True)
    return [MISSING if pd.isna(one) else f"{one:.2f} ({other:.2f})" for one, other in both]


def _part(share: float) -> str:
    return MISSING if pd.isna(share) else f"{share:.0%}"


def _count(value: float) -> str:
    return MISSING if pd.isna(value) else f"{value:,.0f}"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _share(p: float) -> str:
    """Return two digits, but never 1.00 or 0.00: a bootstrap does not show certainty."""
    if pd.isna(p):
        return MISSING
    return {"1.00": ">0.99", "0.00": "<0.01"}.get(f"{p:.2f}", f"{p:.2f}")
