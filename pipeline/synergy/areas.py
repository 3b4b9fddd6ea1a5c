"""The area under a curve over [0, 1], by one of three rules."""

import numpy as np

from pipeline.errors import AssayError
from pipeline.synergy.states import FloatArray

RULES = ("trapezoid", "mean", "left")


def check_rule(rule: str) -> None:
    """Raise AssayError unless the rule is one of `RULES`."""
    if rule not in RULES:
        raise AssayError(f"rule is {rule!r}; choose one of {', '.join(RULES)}")


def area(curve: FloatArray, rule: str) -> FloatArray:
    """Return the area under curves (..., K) with points at i / (K - 1), (...).

    trapezoid: on the closed grid; mean: of all K points; left: mean of all points but the last.
    Raises AssayError for another rule.
    """
    check_rule(rule)
    if rule == "mean":
        return np.asarray(curve.mean(axis=-1))
    if rule == "left":
        return np.asarray(curve[..., :-1].mean(axis=-1))
    return np.asarray((curve[..., :-1] + curve[..., 1:]).mean(axis=-1) / 2)
