"""The report of the crowd track: which method explains units best, by people, a scorer or attributes."""

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from pipeline.report.interactive import ranking_chart, scatter_chart
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
from pipeline.report.sections.gallery import gallery_section
from pipeline.report.sections.section import Block, Section, pictures
from pipeline.report.sections.settings import settings_section
from pipeline.report.sections.tables import Columns, Shown, all_tables, data_table, keys_of_rows, varying
from pipeline.report.sections.wording import counted, estimate, listed, measured
from pipeline.statistics.cells import kept_apart
from pipeline.statistics.ratings import PAPER

MEASURED = (
    "A score is the correlation, over images, between how active a unit is and whether a method's text is "
    "true of the image: 1 is a perfect explanation, 0 is what chance gives."
)
TITLES = {"comparison": "Score by method, in all cells and in each"}
REFERENCE = "random"
JUDGES = ("crowd", "automatic", "oracle")
"""Ways of scoring, the first of which the claim is about."""
FEW_RATINGS = 3.0
"""Ratings of an image and text; with fewer, one rater's mistake decides."""
Row = pd.Series
METHODS: Columns = {
    "rank": "rank",
    "method": "method",
    "mean": Shown("mean score (interval)", ("low", "high")),
    "n_units": "units",
    "n_texts": "texts",
    "n_missing": "missing",
    "n_common": "common units",
    "mean_common": "mean on these",
    "p_first": "P(first)",
    "n_ratings": "ratings used",
    "flags": "flags",
}
PAIRS: Columns = {
    "method_a": "method",
    "method_b": "over",
    "difference": Shown("difference (interval)", ("low", "high")),
    "p_t_holm": "p (t, Holm)",
    "p_wilcoxon_holm": "p (signed ranks, Holm)",
    "n_units": "units of both",
    "n_missing": "missing",
    "flags": "flags",
}
ERRORS: Columns = {
    "method": "method",
    "n_pairs": "pairs",
    "mae": "MAE",
    "bias": "bias",
    "rce_median": "median RCE",
    "rce_large": "mean RCE, large truths",
    "n_large": "of these",
    "rce": "mean RCE",
    "flags": "flags",
}
COST: Columns = {
    "method": "method",
    "n_units": "units",
    "n_texts": "texts",
    "n_inputs": "images with a text",
    "n_ratings": "ratings",
    "n_workers": "raters",
    "n_assignments": "assignments",
    "dollars": "dollars",
    "n_everything": "ratings of every image",
    "saved": "saved",
    "flags": "flags",
}
AGREEMENT: Columns = {
    "method": "method",
    "n_ratings": "ratings",
    "n_workers": "raters",
    "n_shared": "rated twice or more",
    "yes": "yes",
    "agreement": Shown("pairs that agree (rater)", ("worker_agreement_low", "worker_agreement_high")),
    "alpha": "alpha",
    "n_known": "truth known",
    "accuracy": Shown("right (rater)", ("worker_accuracy_low", "worker_accuracy_high")),
    "miss": "missed",
    "false_alarm": "false alarms",
}
UNTOLD = {
    "one_worker": "One rater alone agrees with nobody: there is no agreement to tell.",
    "one_rating_each": "No image and text was rated twice, so agreement cannot be told.",
    "all_equal": "All ratings are equal, so alpha is undefined.",
    "no_truth": "Where no label says what is true, it is not known how often raters are right.",
}
"""Flags of the table of agreement in words."""


def claim(inputs: ReportInputs) -> list[str]:
    """Return who is first, whether it leads every other, by how much over random, and what that rests on."""
    rows = main_rows(inputs)
    if rows.empty:
        return ["This sweep has no scores, so no method is ranked."]
    ranked = in_order(rows)
    if ranked.empty:
        return [_unranked(rows), *_caveats(rows, inputs)]
    told = [_first(ranked, inputs), _over_random(ranked, inputs)]
    return [*filter(None, told), *_caveats(rows, inputs)]


def main_rows(inputs: ReportInputs) -> pd.DataFrame:
    """Return the overall rows of one way of judging the methods: people, else a scorer, else attributes."""
    methods = inputs.table("methods")
    if methods.empty:
        return methods
    overall = methods[methods["level"] == "overall"]
    apart = [name for name in kept_apart(inputs.factors) if name in overall]
    if not apart or overall.empty:
        return overall
    keys = list(overall[apart].astype(str).itertuples(index=False, name=None))
    chosen = min(set(keys), key=_judge)
    return overall.loc[[key == chosen for key in keys]]


def sections(inputs: ReportInputs) -> list[Section]:
    """Return the sections of the page, the ranking first."""
    return [
        _ranking(inputs),
        _agreeing(inputs),
        _errors(inputs),
        _cost(inputs),
        _raters(inputs),
        gallery_section(inputs),
        settings_section(inputs),
        Section("tables", "All tables", (), all_tables(inputs)),
    ]


def _judge(key: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return min((place for place, name in enumerate(JUDGES) if name in key), default=len(JUDGES)), key


def _unranked(rows: pd.DataFrame) -> str:
    names = listed([*map(str, rows["method"])])
    if rows["mean"].isna().all():
        n_missing = int(rows["n_missing"].sum())
        return f"No score of {names} is known ({counted(n_missing, 'score')} missing), so nothing is ranked."
    return (
        f"No unit has a score of each of {names}: their means are of different units, so nothing is ranked."
    )


def _first(ranked: pd.DataFrame, inputs: ReportInputs) -> str:
    first = ranked.iloc[0]
    over = f"over {counted(int(first['n_common']), 'unit')}"
    mean = _mean(first, inputs.confidence)
    if len(ranked) == 1:
        return f"{first['method']} has a mean score of {mean} {over}. It is the only method with a score."
    if len(tied := firsts(ranked)) > 1:
        return (
            f"{listed([*map(str, tied['method'])])} tie for the first place: a mean score of {mean} {over}."
        )
    others = rivals(ranked, "method", REFERENCE).iterrows()
    ahead = [(str(row["method"]), _difference(first, row, inputs)) for _, row in others]
    opening = f"{first['method']} has the highest mean score, {mean} {over}"
    return lead(opening, ahead, inputs.confidence, resamples(first))


def _mean(row: Row, confidence: float) -> str:
    """Return the mean that ranks, with the interval of the method's own units where these are the same."""
    if row["n_common"] == row["n_units"]:
        return estimate(row["mean"], row["low"], row["high"], confidence)
    return f"{measured(row['mean_common'])}, on units that all methods scored,"


def _difference(one: Row, other: Row, inputs: ReportInputs) -> Difference:
    """Return the paired difference of two methods; without a row of both, that of their means alone."""
    pairs = inputs.table("pairs")
    pairs = pairs[pairs["level"] == "overall"] if len(pairs) else pairs
    for name in kept_apart(inputs.factors):
        pairs = pairs[pairs[name].astype(str) == str(one[name])] if name in pairs else pairs
    names = str(one["method"]), str(other["method"])
    found = paired_difference(pairs, "method", names, inputs.confidence, ("n_units", one["n_common"]))
    return found or Difference(one["mean_common"] - other["mean_common"])


def _over_random(ranked: pd.DataFrame, inputs: ReportInputs) -> str:
    first, names = ranked.iloc[0], list(ranked["method"])
    if first["method"] == REFERENCE:
        return (
            "Random texts come first: no method is shown to be better than chance." if len(names) > 1 else ""
        )
    if REFERENCE not in names:
        return "No method of random texts was scored, so nothing is compared with chance."
    kept = {name: str(first[name]) for name in kept_apart(inputs.factors)}
    found = mixed_difference(inputs.table("mixed"), "method", str(first["method"]), REFERENCE, **kept)
    random = ranked[ranked["method"] == REFERENCE].iloc[0]
    if names.index(REFERENCE) == 1 and found is None:
        return "The runner-up is what stands for chance: texts drawn at random."
    told = found or _difference(first, random, inputs)
    return over_reference(str(first["method"]), told, inputs.confidence, "random texts")


def _caveats(rows: pd.DataFrame, inputs: ReportInputs) -> list[str]:
    about = scope(inputs.table("methods"), inputs.factors)
    told = [about, missing(rows, "n_units", "scores"), _few(rows, inputs), _simulated(inputs)]
    found = " ".join(filter(None, told))
    return [found] if found else []


def _few(rows: pd.DataFrame, inputs: ReportInputs) -> str:
    scores = inputs.table("scores")
    if scores.empty or "n_images" not in scores or not rows["n_ratings"].sum():
        return ""
    rated = scores[scores["n_ratings"] > 0]
    each = float(rated["n_ratings"].sum() / max(rated["n_images"].sum(), 1))
    return f"Ratings are few: {each:.1f} an image and text." if each < FEW_RATINGS else ""


def _simulated(inputs: ReportInputs) -> str:
    crowds = [point.settings.get("crowd") or {} for point in inputs.planned]
    simulated = bool(crowds) and all(crowd.get("name") == "simulated" for crowd in crowds)
    rated = "n_ratings" in inputs.table("methods") and inputs.table("methods")["n_ratings"].sum() > 0
    return "The raters are simulated, not people." if simulated and rated else ""


def _ranking(inputs: ReportInputs) -> Section:
    methods, scores = inputs.table("methods"), inputs.table("scores")
    if methods.empty:
        return Section("ranking", "Ranking", ("There is no score to rank by.",))
    rows = main_rows(inputs)
    blocks: list[Block] = []
    if rows["mean"].notna().any():
        blocks.append(_ranking_chart(rows, scores, inputs))
    blocks.append(_methods_table("ranking", "methods", methods[methods["level"] == "overall"], inputs))
    cells = methods[methods["level"] == "cell"]
    if _n_cells(cells, inputs.factors) > 1:
        blocks.append(
            _methods_table("cells", f"methods by {listed([*varying(cells, inputs.factors)])}", cells, inputs)
        )
    pairs = inputs.table("pairs")
    if len(pairs):
        own = pairs[pairs["level"] == "overall"]
        words = "Differences of two methods over the units that both have."
        shown: Columns = {**varying(own, inputs.factors), **PAIRS}
        blocks.append(
            data_table("pairs_shown", "pairs of methods", own, inputs.key, shown=shown, words=(words,))
        )
    blocks += mixed_block(inputs, "method", "score", "sample: a unit; place: its layer.")
    blocks += pictures(inputs.figures, TITLES, *TITLES)
    return Section("ranking", "Ranking", (), blocks)


def _ranking_chart(rows: pd.DataFrame, scores: pd.DataFrame, inputs: ReportInputs) -> Block:
    means = rows.sort_values("rank")[["method", "mean", "low", "high", "n_units", "n_missing", "p_first"]]
    names = [name for name in kept_apart(inputs.factors) if name in scores and name in rows]
    for name in names:
        scores = scores[scores[name].astype(str) == str(rows[name].iloc[0])]
    columns = ["method", "estimate", "unit", "description", *inputs.factors]
    dots = scores[[name for name in columns if name in scores and name not in names]]
    words = (
        f"A dot is a unit, a large mark a mean, its line the {100 * inputs.confidence:g}% interval over "
        "units: for these images and raters, not the error against the truth."
    )
    return ranking_chart(
        "ranking_chart",
        "Score by method",
        means,
        dots.rename(columns={"estimate": "value"}),
        "score of an explanation",
        (words,),
    )


def _methods_table(name: str, title: str, rows: pd.DataFrame, inputs: ReportInputs) -> Block:
    shown: Columns = {**varying(rows, inputs.factors), **METHODS}
    if (rows["n_common"] == rows["n_units"]).all():
        shown = {key: how for key, how in shown.items() if key not in ("n_common", "mean_common")}
    keys = keys_of_rows(rows, inputs.planned, "scoring", "method")
    words = "P(first): in how many resamples of the units the method's mean is the highest."
    return data_table(name, title, rows, inputs.key, shown=shown, keys=keys, words=(words,))


def _agreeing(inputs: ReportInputs) -> Section:
    """Show the units' scores of the first two methods, and of estimate and truth where that is known."""
    scores, rows = inputs.table("scores"), main_rows(inputs)
    blocks: list[Block] = []
    if len(rows) > 1 and len(scores):
        names = [*rows.sort_values("rank")["method"]]
        blocks += [_against(scores, *pair, inputs) for pair in combinations(names[:3], 2)][:2]
    if len(truth := _with_truth(scores, inputs)):
        blocks.append(
            scatter_chart(
                "truth",
                "Score against the truth",
                truth,
                ("truth", "correlation with the attribute itself"),
                ("estimate", "score"),
                "method",
                diagonal=True,
            )
        )
    words = () if blocks else ("There are not two methods with scores to set against each other.",)
    return Section("units-by-method", "Unit by unit", words, blocks)


def _against(scores: pd.DataFrame, one: str, other: str, inputs: ReportInputs) -> Block:
    place = [name for name in (*inputs.factors, "unit") if name in scores]
    parts = []
    for name, column in ((one, "estimate_a"), (other, "estimate_b")):
        own = scores[scores["method"] == name].set_index(place)[["estimate", "description"]]
        parts.append(own.rename(columns={"estimate": column, "description": name}))
    both = parts[0].join(parts[1], how="inner").reset_index()
    return scatter_chart(
        f"against_{place.index('unit')}_{_slug(one)}_{_slug(other)}",
        f"{one} and {other}",
        both,
        ("estimate_b", f"score of {other}"),
        ("estimate_a", f"score of {one}"),
        _splitting(both, inputs.factors),
        diagonal=True,
        words=(f"A mark is a unit; above the line {one} explains it better.",),
    )


def _with_truth(scores: pd.DataFrame, inputs: ReportInputs) -> pd.DataFrame:
    if scores.empty or "scoring" not in scores or "oracle" not in set(scores["scoring"]):
        return pd.DataFrame()
    same = [n for n in inputs.factors if n in scores and n not in kept_apart(inputs.factors)]
    keys = [*same, "method", "unit", "description"]
    truth = scores[scores["scoring"] == "oracle"].drop_duplicates(keys)[[*keys, "estimate"]]
    judged = scores[scores["scoring"] != "oracle"][[*keys, "estimate", "scoring"]]
    found = judged.merge(truth.rename(columns={"estimate": "truth"}), on=keys, how="inner")
    return found[found["truth"].notna()]


def _errors(inputs: ReportInputs) -> Section:
    errors = inputs.table("errors")
    if errors.empty:
        words = "The truth is not known here: no point has scoring=oracle, so there is no RCE."
        return Section("errors", "Error against the truth", (words,))
    rows = errors[errors["level"] == "overall"]
    shown: Columns = {**varying(rows, inputs.factors), **ERRORS}
    words = (
        "RCE is |score - truth| / |truth|; its mean is large where a truth is near 0, so that over large "
        f"truths (at least {inputs.facts.get('rce_min_truth', 0.05):g}) stands beside it."
    )
    table = data_table("rce", "error against the truth", rows, inputs.key, shown=shown)
    return Section("errors", "Error against the truth", (words,), (table,))


def _cost(inputs: ReportInputs) -> Section:
    cost = inputs.table("cost")
    if cost.empty or not cost["n_ratings"].sum():
        return Section("cost", "Cost", ("No rating was used: nothing was paid.",))
    rows = cost[cost["level"] == "overall"]
    words = [
        "A rating that several units or methods use counts once, so all methods together may have fewer than "
        "their sum. Saved: against asking as many people about every image that the units are judged on.",
    ]
    if rows["dollars"].notna().any():
        words.append(
            f"The raters are simulated; dollars are what MTurk would take, its fee included, at "
            f"${PAPER.reward:g} for a task of {PAPER.inputs_per_task} images. assay cost has other prices."
        )
    if rows["dollars"].isna().any():
        words.append(
            "What people were paid is not in the results: the command assay cost --study NAME has it."
        )
    if rows["flags"].str.contains("unrated_inputs", regex=False).any():
        words.append("unrated_inputs: some images that were drawn have no rating.")
    shown = {**varying(rows, inputs.factors), **COST}
    keys = keys_of_rows(rows, inputs.planned, "crowd", "method")
    table = data_table("cost_shown", "cost", rows, inputs.key, shown=shown, keys=keys)
    return Section("cost", "Cost", tuple(words), (table,))


def _raters(inputs: ReportInputs) -> Section:
    agreement = inputs.table("agreement")
    if agreement.empty:
        return Section("raters", "Agreement of raters", ("Nobody rated, so there is no agreement to show.",))
    rows = agreement[agreement["level"] == "overall"]
    words = [
        "Pairs that agree: of two ratings of one image and text, how often both say the same. Alpha is "
        "Krippendorff's: 1 for full agreement, about 0 for what chance gives. In brackets: of the rater with "
        "the lowest and the highest."
    ]
    words += [said for flag, said in UNTOLD.items() if rows["flags"].str.contains(flag, regex=False).any()]
    if rows["n_known"].sum():
        words.append(
            "Right: where the labels say whether the text is true of the image. Missed: answers no although "
            "it is; false alarms: answers yes although it is not."
        )
    shown = {**varying(rows, inputs.factors), **AGREEMENT}
    keys = keys_of_rows(rows, inputs.planned, "crowd", "method")
    table = data_table("agreement_shown", "agreement of raters", rows, inputs.key, shown=shown, keys=keys)
    return Section("raters", "Agreement of raters", tuple(words), (table,))


def _splitting(rows: pd.DataFrame, factors: Sequence[str]) -> str | None:
    """Return the factor with the most values that colours can still tell apart."""
    counts = {name: len(set(rows[name])) for name in factors if name in rows}
    fits = [name for name, n in counts.items() if 1 < n <= 8]
    return max(fits, key=lambda name: counts[name]) if fits else None


def _n_cells(rows: pd.DataFrame, factors: Sequence[str]) -> int:
    return len(rows[[name for name in factors if name in rows]].drop_duplicates())


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
