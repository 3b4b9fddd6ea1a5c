"""A sweep over SAEs as text for a terminal: the variants, and which metrics can be trusted."""

from collections.abc import Mapping

import pandas as pd

from pipeline.report.aligned import aligned
from pipeline.report.mixed_text import mixed_text
from pipeline.report.wording import estimates, number, percent
from pipeline.statistics.sae_baselines import UNTRAINED

MEANS = {
    "match_score": "MATCHScore",
    "dmatch_score": "dMATCHScore",
    "tapa_score": "TAPAScore",
    "dstay": "dstay",
    "l0": "L0",
    "explained_variance": "explained variance",
    "dead_share": "dead share",
    "probe_f1": "linear probe F1",
}
VERDICTS = {
    "pass": "pass",
    "fail": "FAIL",
    "unknown": "unknown: needs a frozen and a random SAE, and enough items",
}


def sae_text(tables: Mapping[str, pd.DataFrame], confidence: float) -> str:
    """Return the means of each variant, and the sanity table in words.

    tables: saes, sanity and mixed of the sae_comparison stage.
    """
    parts = ["means over dictionary sizes and seeds\n" + aligned(_variants(tables["saes"])) + _notes(tables)]
    parts.append(
        f"does the metric tell trained from untrained? difference with {percent(confidence)} interval\n"
        + aligned(_verdicts(tables["sanity"]))
    )
    if len(tables["mixed"]):
        parts.append(mixed_text(tables["mixed"], "F1", "variant", confidence, lambda values, names: ""))
    return "\n".join(parts)


def _variants(saes: pd.DataFrame) -> pd.DataFrame:
    shown = {name: title for name, title in MEANS.items() if saes[name].notna().any()}
    groups = saes.groupby("variant", sort=False)
    means = groups[list(shown)].mean().assign(n=groups.size())
    means = means.sort_values("match_score", ascending=False, kind="stable")
    columns = {title: means[name].map(number) for name, title in shown.items()}
    return pd.DataFrame({"variant": means.index, "SAEs": means["n"].astype(str), **columns})


def _notes(tables: Mapping[str, pd.DataFrame]) -> str:
    saes = tables["saes"]
    untrained = saes["variant"].isin(UNTRAINED)
    lines = [
        "MATCHScore: mean F1 over attributes on images that matching did not see; "
        "dMATCHScore: minus a frozen SAE's."
    ]
    if empty := int(saes.loc[~untrained, "n_empty"].sum()):
        total = int(saes.loc[~untrained, "n_attributes"].sum())
        lines.append(f"{empty} of {total} attributes of trained SAEs have no latent; they count as 0.")
    return "\n".join(lines) + "\n"


def _verdicts(sanity: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "metric": sanity["metric"],
            "variant": sanity["variant"],
            **{name: sanity[name].map(number) for name in ("trained", *UNTRAINED)},
            **{f"over {kind}": _over(sanity, kind) for kind in UNTRAINED},
            "drawn anew": sanity["n_items"].astype(str) + " " + sanity["resampled"],
            "verdict": sanity["verdict"].map(VERDICTS),
        }
    )


def _over(sanity: pd.DataFrame, kind: str) -> list[str]:
    name = f"over_{kind}"
    return estimates(sanity, name, f"{name}_low", f"{name}_high")
