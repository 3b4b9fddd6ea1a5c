"""What a fit found, a plain sentence a finding."""

import numpy as np
import pandas as pd

from pipeline.statistics.intervals import error_level
from pipeline.statistics.mixed.fitting import Fit


def finding_sentences(fit: Fit, method: str = "") -> list[str]:
    """Return a sentence for each other level, the highest first: against the reference, or the highest.

    Without a reference, the highest level is compared with each other one, and Holm counts all pairs. A
    difference is told where p is below 1 - confidence. method is the word for a level, such as "explainer".
    Nothing to compare, no test, or a fit that did not converge: sentences that say so.
    """
    word = method or (fit.formula.fixed[0] if fit.formula.fixed else "level")
    if len(fit.levels) < 2:
        return [f"There is one {word} only, so nothing is compared."]
    table = fit.against_reference() if fit.reference is not None else _of_the_highest(fit)
    tested = table[table["p_adjusted"].notna()].sort_values("estimate", ascending=False, kind="stable")
    if tested.empty:
        return [f"No {word} could be tested.", *fit.notes]
    if not fit.converged:
        return [f"No {word} is told from another.", *fit.notes]
    return [_sentence(row, fit.confidence) for _, row in tested.iterrows()]


def shown(value: float, digits: int) -> str:
    """Return a number without a zero before its point: .21, -.05, 1.30."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 and "." in text else text


def shown_p(p: float) -> str:
    """Return "p < .001" or "p = .012"."""
    return "p < .001" if p < 0.001 else f"p = {shown(p, 3)}"


def _of_the_highest(fit: Fit) -> pd.DataFrame:
    means = fit.marginal_means()
    if means["estimate"].isna().all():
        return fit.contrasts().iloc[:0]
    best = str(means["level"].iloc[int(np.nanargmax(means["estimate"].to_numpy()))])
    pairs = fit.contrasts()
    turned = pairs["right"] == best
    signs = np.where(turned, -1.0, 1.0)
    found = pairs.assign(
        left=pairs["left"].where(~turned, pairs["right"]),
        right=pairs["right"].where(~turned, pairs["left"]),
        estimate=signs * pairs["estimate"],
        low=np.where(turned, -pairs["high"], pairs["low"]),
        high=np.where(turned, -pairs["low"], pairs["high"]),
    )
    return found[(pairs["left"] == best) | turned]


def _sentence(row: "pd.Series[float]", confidence: float) -> str:
    estimate, low, high, p = (float(row[name]) for name in ("estimate", "low", "high", "p_adjusted"))
    digits = int(np.clip(np.ceil(-np.log10(max((high - low) / 2, 1e-6))), 2, 6))
    side = "above" if estimate >= 0 else "below"
    if estimate < 0:
        low, high = -high, -low
    tail = f"({100 * confidence:g}% {shown(low, digits)} to {shown(high, digits)}, Holm {shown_p(p)})"
    size = shown(abs(estimate), digits)
    if p < error_level(confidence):
        return f"{row['left']} scores {size} {side} {row['right']} {tail}."
    return f"{row['left']} cannot be told from {row['right']}: it scores {size} {side} {tail}."
