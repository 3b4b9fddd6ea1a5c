"""What a rated pilot says about other budgets, as text for a terminal."""

import math

import pandas as pd

from pipeline.crowd.planning import cheapest, plan_budget
from pipeline.report.cost_text import left_out
from pipeline.study.cost import bill
from pipeline.study.settings import StudySettings

INPUTS = (30, 60, 120, 180, 360)
RATERS = (1, 3, 5, 9)


def plan_text(
    draws: pd.DataFrame, ratings: pd.DataFrame, settings: StudySettings, width: float | None
) -> str:
    """Return a table of designs, images and raters a pair with their cost, and the cheapest that is wanted.

    width: the widest interval that is wanted; None for no choice. The cost is of one pair of unit and text
    on MTurk, fee included, where no pair shares inputs with another.
    """
    plan = plan_budget(draws, ratings, n_inputs=INPUTS, n_raters=RATERS, seed=settings.seed)
    plan = plan.assign(
        cost=[
            float(bill(math.ceil(n / settings.inputs_per_task), m, settings.reward).total)
            for n, m in zip(plan["n_inputs"], plan["n_raters"], strict=True)
        ]
    )
    plan = plan.sort_values(["cost", "sampler", "aggregation"], kind="stable")
    shown = plan.assign(
        cost=plan["cost"].map("${:.2f}".format),
        rce=plan["rce"].map("{:.0%}".format),
        error=plan["error"].map("{:.3f}".format),
        width=plan["width"].map("{:.3f}".format),
    )
    columns = ["cost", "sampler", "aggregation", "estimator", "n_inputs", "n_raters", "rce", "error", "width"]
    return (
        "a pair of unit and text, by other designs and budgets\n"
        + shown[columns].to_string(index=False, justify="left")
        + f"\nBy simulation from this study's ratings, over {int(plan['n_pairs'].iloc[0])} pairs: mean "
        "relative error where the\ntruth is at least .05, mean error, median width of the 95% interval. "
        "Intervals of `combined` are about the\ntruth; the others' are about what such a study would give "
        "in the long run, bias included.\n" + left_out(draws) + _choice(plan, width)
    )


def _choice(plan: pd.DataFrame, width: float | None) -> str:
    if width is None:
        return "--width W names the cheapest plan whose interval is at most W wide.\n"
    found = cheapest(plan, width)
    if found.empty:
        least = plan.loc[plan["estimator"] == "combined", "width"].min()
        return f"no plan here reaches an interval of {width:g}; the narrowest is {least:.3f} wide\n"
    row = found.iloc[0]
    return (
        f"cheapest for an interval of {width:g}: ${row['cost']:.2f} a pair: sampler={row['sampler']} "
        f"aggregation={row['aggregation']} estimator={row['estimator']} sampler.n_inputs={row['n_inputs']} "
        f"crowd.n_raters={row['n_raters']} (width {row['width']:.3f}, RCE {row['rce']:.0%})\n"
    )
