"""The comparison as text for a terminal."""

import pandas as pd

from pipeline.statistics.comparison import Comparison

MISSING = "-"


def methods_text(comparison: Comparison) -> str:
    """Return the overall ranking, and the errors against the truth where it is known, as aligned text."""
    overall = comparison.methods[comparison.methods["level"] == "overall"]
    parts = [_table(_method_rows(overall, comparison))]
    errors = (
        comparison.errors[comparison.errors["level"] == "overall"]
        if len(comparison.errors)
        else comparison.errors
    )
    if len(errors):
        parts.append(
            "relative error against the attributes (RCE)\n" + _table(_error_rows(errors, comparison))
        )
    return "\n".join(parts)


def _method_rows(overall: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    percent = f"{comparison.confidence:.0%}"
    return pd.DataFrame(
        {
            **{name: overall[name] for name in _shown(overall, comparison)},
            "rank": overall["rank"].astype("str"),
            "method": overall["method"],
            "mean score": overall["mean"].map(_number),
            f"{percent} interval": [
                _interval(low, high) for low, high in zip(overall["low"], overall["high"], strict=True)
            ],
            "units": overall["n_units"].astype("str"),
            "without score": overall["n_missing"].astype("str"),
            "ratings": overall["n_ratings"].astype("str"),
            "P(first)": overall["p_first"].map(lambda p: MISSING if pd.isna(p) else f"{p:.2f}"),
        }
    )


def _error_rows(errors: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **{name: errors[name] for name in _shown(errors, comparison)},
            "method": errors["method"],
            "RCE": errors["rce"].map(lambda e: MISSING if pd.isna(e) else f"{e:.1%}"),
            "units": errors["n_pairs"].astype("str"),
        }
    )


def _shown(rows: pd.DataFrame, comparison: Comparison) -> list[str]:
    return [name for name in comparison.factors if name in rows and len(set(rows[name])) > 1]


def _number(value: float) -> str:
    return MISSING if pd.isna(value) else f"{value:.3f}"


def _interval(low: float, high: float) -> str:
    return MISSING if pd.isna(low) else f"{low:.3f} to {high:.3f}"


def _table(rows: pd.DataFrame) -> str:
    columns = [[str(name), *map(str, rows[name])] for name in rows]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
