"""The report of the SAE track: do latents match concepts, and which metrics can be trusted."""

from collections.abc import Sequence
from math import isnan

import pandas as pd

from pipeline.report.interactive import as_rows, line_chart, ranking_chart, scatter_chart
from pipeline.report.report_inputs import ReportInputs
from pipeline.report.sae_drawing import variants_of
from pipeline.report.sae_text import MEANS
from pipeline.report.sections.findings import Difference, mixed_block, mixed_difference, over_reference, scope
from pipeline.report.sections.gallery import gallery_section
from pipeline.report.sections.section import Block, Section, pictures
from pipeline.report.sections.settings import settings_section
from pipeline.report.sections.tables import Columns, Shown, all_tables, data_table, varying
from pipeline.report.sections.wording import counted, listed, measured, with_spread
from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import fewest_values
from pipeline.statistics.sae_baselines import UNTRAINED
from pipeline.statistics.sanity import ALL

SCORES = {"dmatch_score": "dMATCHScore", "match_score": "MATCHScore"}
"""What SAEs are ranked by: the first that is known of any of them."""
SAES: Columns = {
    "variant": "SAE",
    "dictionary_size": "latents",
    "sae_k": "K",
    "seed": "seed",
    **MEANS,
    "ms": "MS",
    "cknna": "CKNNA",
    "fms": "FMS",
    "n_empty": "attributes without a latent",
    "sae_key": "sae",
    "matching_key": "matching",
    "perturbation_key": "perturbation",
    "sanity_key": "sanity",
}
SANITY: Columns = {
    "metric": "metric",
    "variant": "SAE",
    "n_saes": "SAEs",
    "trained": "trained",
    "frozen": "frozen",
    "random": "random",
    "over_frozen": Shown("over frozen (interval)", ("over_frozen_low", "over_frozen_high")),
    "over_random": Shown("over random (interval)", ("over_random_low", "over_random_high")),
    "n_items": "drawn anew",
    "resampled": "of",
    "verdict": "verdict",
}
MEASURED = (
    "MATCHScore is how well a few latents of an SAE find each attribute that people have named: the mean F1, "
    "on images that did not choose them. dMATCHScore is what training adds to it, over an SAE whose random "
    "weights were never trained (frozen)."
)
TITLES = {
    "sizes": "Scores by dictionary size",
    "match_tapa": "MATCHScore against TAPAScore",
    "k_curves": "Scores by the number of latents an attribute",
    "coalition_sizes": "How many latents an attribute takes",
    "dstay": "What moves that should not",
    "sanity_forest": "Do metrics tell trained from untrained?",
    "training": "Training",
}


def claim(inputs: ReportInputs) -> list[str]:
    """Return which SAE matches best, what training adds, and which metrics cannot be trusted."""
    saes = inputs.table("saes")
    if saes.empty:
        return ["This sweep has no SAE, so nothing is ranked."]
    score, means = ranked(saes)
    if not score:
        return [f"No score of {counted(len(saes), 'SAE')} is known, so nothing is ranked.", *_scope(inputs)]
    told = [
        _first(saes, score, means),
        _over_frozen(str(means.index[0]), score, inputs),
        _sanity_words(inputs),
    ]
    return [*filter(None, told), *_scope(inputs)]


def ranked(saes: pd.DataFrame) -> tuple[str, pd.Series]:
    """Return the score that ranks ("": none) and its mean by trained variant, highest first, ties by name."""
    trained = saes[~saes["variant"].isin(UNTRAINED)]
    own = trained if len(trained) else saes
    for score in SCORES:
        if score in own and own[score].notna().any():
            means = own.groupby("variant")[score].mean().dropna().sort_index()
            return score, means.sort_values(ascending=False, kind="stable")
    return "", pd.Series(dtype=float)


def sections(inputs: ReportInputs) -> list[Section]:
    """Return the sections of the page, the ranking first."""
    found = [_ranking(inputs), _sizes(inputs), _trust(inputs), _rest(inputs)]
    if inputs.gallery is not None and len(inputs.gallery):
        found.append(gallery_section(inputs))
    return [*found, settings_section(inputs), Section("tables", "All tables", (), all_tables(inputs))]


def _first(saes: pd.DataFrame, score: str, means: pd.Series) -> str:
    name, title = str(means.index[0]), SCORES[score]
    n = int((saes["variant"] == name).sum())
    of = f"over {counted(n, 'SAE')} of its kind"
    if len(means) == 1:
        return (
            f"{name} has a mean {title} of {measured(means.iloc[0])} {of}. It is the only kind with a score."
        )
    tied = means[(means - means.iloc[0]).abs() <= NEGLIGIBLE]
    if len(tied) > 1:
        names = listed([*map(str, tied.index)])
        return f"{names} tie for the first place: a mean {title} of {measured(means.iloc[0])}."
    second = str(means.index[1])
    n_higher, n_pairs = _wins(saes, name, second, score)
    beside = (
        f", higher in {n_higher} of {counted(n_pairs, 'pair')} of the same size and seed" if n_pairs else ""
    )
    return (
        f"{name} has the highest mean {title}, {measured(means.iloc[0])} {of}: "
        f"{measured(means.iloc[0] - means.iloc[1])} above the runner-up, {second}{beside}. No test "
        "compares the two, so it is not shown that it is better."
    )


def _wins(saes: pd.DataFrame, one: str, other: str, score: str) -> tuple[int, int]:
    """Return in how many pairs of equal factors, dictionary size and seed one has more, and of how many."""
    same = [*saes.columns[: list(saes.columns).index("variant")], "dictionary_size", "seed"]
    known = saes.dropna(subset=[score, "seed"])
    means = known.pivot_table(index=same, columns="variant", values=score, aggfunc="mean")
    if not {one, other} <= set(means.columns):
        return 0, 0
    both = means[[one, other]].dropna()
    return int((both[one] > both[other]).sum()), len(both)


def _over_frozen(name: str, score: str, inputs: ReportInputs) -> str:
    found = mixed_difference(inputs.table("mixed"), "variant", name, "frozen")
    if found is not None:
        return over_reference(f"F1 of {name}", found, inputs.confidence, "that of frozen SAEs")
    row = _sanity_row(inputs.table("sanity"), "MATCHScore", name)
    if row is None or isnan(row["over_frozen"]):
        return "There is no frozen SAE to compare with, so it is not shown that training adds anything."
    told = Difference(row["over_frozen"], row["over_frozen_low"], row["over_frozen_high"])
    return _by_interval(name, told, int(row["n_items"]) >= fewest_values(inputs.confidence))


def _by_interval(name: str, found: Difference, enough: bool) -> str:
    """Say whether a difference of MATCHScore to frozen SAEs is above 0, by its interval of enough items."""
    told, drawn = with_spread(found.value, found.low, found.high), "over attributes drawn anew"
    if found.low > 0 and enough:
        return f"The MATCHScore of {name} is {told} above that of frozen SAEs, {drawn}."
    return f"It is not shown that {name} matches better than frozen SAEs: the difference is {told}, {drawn}."


def _sanity_row(sanity: pd.DataFrame, metric: str, variant: str) -> "pd.Series | None":
    if sanity.empty:
        return None
    rows = sanity[(sanity["metric"] == metric) & (sanity["variant"] == variant)]
    return rows.iloc[0] if len(rows) == 1 else None


def _sanity_words(inputs: ReportInputs) -> str:
    """Say which metrics tell trained SAEs from untrained ones; only what the table says of all of them."""
    sanity = inputs.table("sanity")
    if sanity.empty:
        return ""
    groups = sanity[sanity["variant"] == ALL] if ALL in set(sanity["variant"]) else sanity
    verdicts = groups.groupby("metric", sort=False)["verdict"].agg(set)
    passed = [str(m) for m, found in verdicts.items() if found == {"pass"}]
    failed = [str(m) for m, found in verdicts.items() if "fail" in found]
    told = [f"trained SAEs are told from untrained ones by {listed(passed)}" if passed else ""]
    told += [f"not by {listed(failed)}, which should rank nothing here" if failed else ""]
    unknown = [str(m) for m, found in verdicts.items() if found == {"unknown"}]
    told += [f"for {listed(unknown)} it is unknown" if unknown else ""]
    found = ("" if passed else "trained SAEs are told from untrained ones ") + "; ".join(filter(None, told))
    return f"{found[0].upper()}{found[1:]}."


def _scope(inputs: ReportInputs) -> list[str]:
    found = scope(inputs.table("saes"), inputs.factors)
    return [found] if found else []


def _ranking(inputs: ReportInputs) -> Section:
    saes = inputs.table("saes")
    if saes.empty:
        return Section("ranking", "Ranking", ("There is no SAE to rank.",))
    words = (
        "Means over dictionary sizes and seeds. MATCHScore: mean F1 over attributes, on images that matching "
        "did not see; dMATCHScore: minus a frozen SAE's.",
    )
    means = variant_means(saes)
    shown = {"variant": "SAE", "n_saes": "SAEs", **{n: t for n, t in MEANS.items() if n in means}}
    blocks: list[Block] = [
        *_ranking_chart(saes, inputs),
        data_table(
            "variants",
            "kinds of SAE",
            means,
            inputs.key,
            shown=shown,
            keys=_variant_keys(saes, means),
            words=words,
        ),
    ]
    blocks.append(_every_sae(saes, inputs))
    blocks += mixed_block(inputs, "variant", "F1", "sample: an attribute; run: a training.")
    return Section("ranking", "Ranking", (), blocks)


def _ranking_chart(saes: pd.DataFrame, inputs: ReportInputs) -> list[Block]:
    """Return what training adds by kind of SAE as a chart; none without frozen SAEs or a mixed model.

    Of several models, layers or whatever else keeps models apart there is none: the table has them.
    """
    score, order = ranked(saes)
    found = {
        str(name): mixed_difference(inputs.table("mixed"), "variant", str(name), "frozen")
        for name in order.index
    }
    known = {name: told for name, told in found.items() if told is not None}
    if score != "dmatch_score" or not known:
        return []
    means = pd.DataFrame(
        [(name, told.value, told.low, told.high, told.p) for name, told in known.items()],
        columns=["method", "mean", "low", "high", "p"],
    )
    dots = as_rows(
        saes[saes["variant"].isin(list(known))],
        {"variant": "method", score: "value", "dictionary_size": "latents", "seed": "seed"},
    )
    words = (
        "A dot is an SAE, a large mark what a kind of SAE has more than frozen ones by the mixed model, its "
        f"line the {100 * inputs.confidence:g}% interval."
    )
    return [ranking_chart("ranking_chart", "What training adds", means, dots, "dMATCHScore", (words,))]


def _every_sae(saes: pd.DataFrame, inputs: ReportInputs) -> Block:
    shown = _known(saes, inputs.factors)
    return data_table("saes_shown", "every SAE", saes, inputs.key, shown=shown, folded=True)


def variant_means(saes: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each variant, in the order of the ranking, the untrained last."""
    known = [name for name in MEANS if name in saes and saes[name].notna().any()]
    groups = saes.groupby("variant", sort=False)
    means = groups[known].mean().assign(n_saes=groups.size()).reset_index()
    score, order = ranked(saes)
    places = {str(name): place for place, name in enumerate(order.index)} if score else {}
    ranks = [places.get(name, len(places) + (name in UNTRAINED)) for name in means["variant"].astype(str)]
    return means.assign(place=ranks).sort_values("place", kind="stable").drop(columns="place")


def _variant_keys(saes: pd.DataFrame, means: pd.DataFrame) -> list[tuple[str, ...]] | None:
    if "matching_key" not in saes:
        return None
    return [
        tuple(dict.fromkeys(map(str, saes.loc[saes["variant"] == name, "matching_key"])))
        for name in means["variant"]
    ]


def _known(saes: pd.DataFrame, factors: Sequence[str]) -> Columns:
    shown = {**varying(saes, factors), **SAES}
    return {n: t for n, t in shown.items() if n in saes and saes[n].notna().any()}


def _sizes(inputs: ReportInputs) -> Section:
    saes = inputs.table("saes")
    blocks: list[Block] = []
    if len(saes):
        table, order = _points(saes, inputs.factors), variants_of(saes)
        blocks += [
            line_chart(
                f"{score}_sizes",
                f"{title} by dictionary size",
                table,
                ("dictionary_size", "latents"),
                (score, title),
                "variant",
                order=order,
                words=(
                    "A mark is an SAE, a line the mean over seeds. A click in the legend shows one alone.",
                ),
            )
            for score, title in {**SCORES, "tapa_score": "TAPAScore"}.items()
            if score in saes and saes[score].notna().any()
        ]
        if {"match_score", "tapa_score"} <= set(saes) and len(
            saes.dropna(subset=["match_score", "tapa_score"])
        ):
            axes = ("match_score", "MATCHScore"), ("tapa_score", "TAPAScore")
            blocks.append(
                scatter_chart(
                    "match_tapa_chart", TITLES["match_tapa"], table, *axes, "variant", order=variants_of(saes)
                )
            )
    blocks += pictures(inputs.figures, TITLES, "sizes", "match_tapa")
    return Section("scores", "Scores of SAEs", () if blocks else ("No score is known.",), blocks)


def _points(saes: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    names = [
        *factors,
        "variant",
        "dictionary_size",
        "sae_k",
        "seed",
        "match_score",
        "dmatch_score",
        "tapa_score",
        "l0",
    ]
    return saes[[name for name in names if name in saes]]


def _trust(inputs: ReportInputs) -> Section:
    sanity, title = inputs.table("sanity"), "Which metrics can be trusted"
    if sanity.empty:
        words = "No frozen and no random SAE was compared with, so no metric is checked."
        return Section("sanity-check", title, (words,), pictures(inputs.figures, TITLES, "sanity_forest"))
    told = (
        "A metric passes where it is higher for trained SAEs than for frozen and for random ones, both "
        "intervals above 0; one that fails says nothing about training.",
    )
    table = data_table("sanity_shown", "sanity check of the metrics", sanity, inputs.key, shown=SANITY)
    return Section("sanity-check", title, told, (table, *pictures(inputs.figures, TITLES, "sanity_forest")))


def _rest(inputs: ReportInputs) -> Section:
    names = ("k_curves", "coalition_sizes", "dstay", "training")
    blocks = pictures(inputs.figures, TITLES, *names)
    return Section("figures", "Figures of the paper", () if blocks else ("No figure was given.",), blocks)
