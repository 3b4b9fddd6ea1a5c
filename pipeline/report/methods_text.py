"""The comparison as text for a terminal."""

from collections.abc import Sequence

import pandas as pd

from pipeline.report.aligned import MISSING, aligned
from pipeline.report.mixed_text import mixed_text
from pipeline.report.wording import number, percent
from pipeline.statistics.comparison import Comparison

_ERROR_NOTE = (
    "A pair is a unit and text whose score and truth are known. RCE is |score - truth| / |truth|; "
    "its mean is large\nwhere a truth is near 0.\n"
)


def methods_text(comparison: Comparison, mixed: pd.DataFrame | None = None) -> str:
    """Return the overall ranking, the mixed model, and errors where the truth is known, as aligned text."""
    methods, errors = comparison.methods, comparison.errors
    overall = methods[methods["level"] == "overall"]
    parts = [aligned(_method_rows(overall, comparison)) + _method_notes(overall, comparison)]
    if mixed is not None and len(mixed):
        parts.append(mixed_text(mixed, "score", "method", comparison.confidence, _named))
    if len(errors):
        rows = errors[errors["level"] == "overall"]
        parts.append("error against the attributes\n" + aligned(_error_rows(rows, comparison)) + _ERROR_NOTE)
    return "\n".join(parts)


def _named(values: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def _method_rows(overall: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    intervals = zip(overall["low"], overall["high"], strict=True)
    rows = pd.DataFrame(
        {
            **{name: overall[name] for name in _shown(overall, comparison)},
            "rank": overall["rank"].map(lambda rank: MISSING if pd.isna(rank) else str(rank)),
            "method": overall["method"],
            "mean score": overall["mean"].map(number),
            f"{percent(comparison.confidence)} interval": [_interval(low, high) for low, high in intervals],
            "units": overall["n_units"].astype("str"),
            "texts": overall["n_texts"].astype("str"),
            "missing": overall["n_missing"].astype("str"),
            "common units": overall["n_common"].astype("str"),
            "mean on these": overall["mean_common"].map(number),
            "P(first)": overall["p_first"].map(_share),
            "ratings used": overall["n_ratings"].astype("str"),
            "flags": overall["flags"],
        }
    )
    unneeded = [] if (overall["n_common"] != overall["n_units"]).any() else ["common units", "mean on these"]
    return rows.drop(columns=[*unneeded, *([] if (overall["flags"] != "").any() else ["flags"])])


def _method_notes(overall: pd.DataFrame, comparison: Comparison) -> str:
    notes = [
        f"{percent(comparison.confidence)} interval over units, for these images and raters; "
        "not the error against the truth. Units with one text count as a cluster.",
        "Missing: units without a score. A rating that several units use is counted for each.",
    ]
    if decided := int(overall["n_prior_decides"].sum()):
        rated = int(overall.loc[overall["n_ratings"] > 0, "n_units"].sum())
        notes.append(
            f"In {decided} of {rated} scores from ratings the prior overrules unanimous raters on some image "
            "(flag prior_decides)."
        )
    if (overall["n_common"] != overall["n_units"]).any():
        notes.append("Rank and P(first) are over the common units, those that all methods scored.")
    if overall["flags"].str.contains("common_units_only", regex=False).any():
        notes.append("common_units_only: the method scored more units than the others share.")
    return "\n".join(notes) + "\n"


def _error_rows(errors: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    large = f"|truth| >= {comparison.rce_min_truth:g}"
    return pd.DataFrame(
        {
            **{name: errors[name] for name in _shown(errors, comparison)},
            "method": errors["method"],
            "pairs": (errors["n_pairs"] + errors["n_zero"]).astype("str"),
            "MAE": errors["mae"].map(number),
            "bias": errors["bias"].map(number),
            "median RCE": errors["rce_median"].map(_relative),
            f"mean RCE, {large}": errors["rce_large"].map(_relative),
            f"pairs, {large}": errors["n_large"].astype("str"),
            "mean RCE": errors["rce"].map(_relative),
        }
    )


def _share(p: float) -> str:
    """Return two digits, but never 1.00 or 0.00: a bootstrap does not show certainty."""
    if pd.isna(p):
        return MISSING
    return {"1.00": ">0.99", "0.00": "<0.01"}.get(f"{p:.2f}", f"{p:.2f}")


def _relative(error: float) -> str:
    return MISSING if pd.isna(error) else f"{error:.1%}"


def _shown(rows: pd.DataFrame, comparison: Comparison) -> list[str]:
    return [name for name in comparison.factors if name in rows and len(set(rows[name])) > 1]


def _interval(low: float, high: float) -> str:
    return MISSING if pd.isna(low) else f"{number(low)} to {number(high)}"
