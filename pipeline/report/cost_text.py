"""What a study costs, and what other budgets would give, as text for a terminal."""

import pandas as pd

from pipeline.crowd.budget import Expected, expected_errors
from pipeline.crowd.composites import asked, is_composite
from pipeline.study.cost import Bill, bill
from pipeline.study.settings import StudySettings
from pipeline.study.tasks import EDITS, PAIR, count_tasks

SHARES = (0.25, 0.5, 1.0)
RATERS = (1, 2, 3, 5, 9)


def cost_text(draws: pd.DataFrame, inputs: pd.DataFrame, n_tasks: int, settings: StudySettings) -> str:
    """Return the bill of a study, and a table of other numbers of draws and raters.

    draws and inputs are the study's tables, n_tasks its number of tasks, which hold attention checks too.
    """
    own = bill(n_tasks, settings.n_raters, settings.reward)
    checked = set(inputs.loc[inputs["answer"] != "", "description"])
    edits = bool((draws["part"] == EDITS).all())
    pairs = draws.groupby(["part", "method", "unit", "description"], sort=False).ngroups
    of = "attributes of edited images" if edits else "pairs of unit and text"
    n_inputs = len(asked(draws)[PAIR].drop_duplicates())
    lines = [
        f"{pairs} {of}, {len(draws)} draws, {n_inputs} distinct inputs "
        f"(an image with a text; repeats are rated once)",
        f"{own.n_tasks} tasks of up to {settings.inputs_per_task} inputs x {settings.n_raters} raters "
        f"= {own.n_assignments} assignments, {n_inputs * settings.n_raters} ratings",
        bill_text(own),
        *([] if edits or not pairs else [f"a pair of unit and text: ${own.total / pairs:.2f}"]),
        "",
        _raters_of_edits(n_tasks, settings) if edits else _budgets(draws, checked, n_tasks, settings),
    ]
    if settings.stop == "decisive":
        lines.insert(3, "on the rating page stopping early makes this an upper bound; MTurk asks everyone")
    return "\n".join(lines)


def bill_text(own: Bill) -> str:
    """Return a bill in one line."""
    each = own.reward / own.n_assignments if own.n_assignments else own.reward
    return f"raters ${own.reward} (${each:.2f} an assignment) + MTurk's fee ${own.fee} = ${own.total}"


def _budgets(draws: pd.DataFrame, checked: set[str], n_tasks: int, settings: StudySettings) -> str:
    single = draws[~is_composite(draws)]
    if single.empty:
        return (
            "every text is made of several concepts, whose errors the simulation of budgets does not know\n"
        )
    drawn = int(draws["draw"].max()) + 1
    n_draws = sorted({max(2, round(share * drawn)) for share in SHARES})
    n_raters = sorted({*RATERS, settings.n_raters})
    expected = expected_errors(
        single,
        n_draws,
        n_raters,
        error_rate=settings.error_rate,
        prior=settings.prior,
        seed=settings.seed,
    )
    # The first n draws of a unit are a study of n draws.
    asks = asked(draws)
    tasks_of = {n: count_tasks(asks[asks["draw"] < n], settings.inputs_per_task, checked) for n in n_draws}
    tasks_of[drawn] = n_tasks  # an extended study has more than its pairs need
    table = pd.DataFrame(
        [_row(row, tasks_of[row.n_draws], row.n_draws == drawn, settings) for row in expected]
    )
    prior = "the scorer's probability" if settings.prior is None else f"{settings.prior:g}"
    return (
        "expected at other budgets (* this study)\n"
        + table.to_string(index=False, justify="left")
        + f"\nMean |score - truth| and median |score - truth| / |truth| over {expected[0].n_pairs} pairs, by "
        "simulation on this\nstudy's draws. Supposed: the scorer is calibrated, raters are wrong "
        f"{settings.error_rate:.0%} of the time, BRAgg with prior\n{prior}. A scorer that is off makes "
        "real errors larger: run a pilot.\n" + left_out(draws)
    )


def _raters_of_edits(n_tasks: int, settings: StudySettings) -> str:
    """Return the bill by the number of raters: a question about an edit has a verdict, no score to err."""
    bills = {n: bill(n_tasks, n, settings.reward) for n in sorted({*RATERS, settings.n_raters})}
    rows = [
        {"": "*" if n == settings.n_raters else "", "raters": str(n), "cost": f"${own.total}"}
        for n, own in bills.items()
    ]
    return "with other numbers of raters (* this study)\n" + pd.DataFrame(rows).to_string(
        index=False, justify="left"
    )


def left_out(draws: pd.DataFrame) -> str:
    """Say how many pairs with composite texts a simulation of budgets leaves out; "" for none."""
    composite = draws[is_composite(draws)]
    n_pairs = composite.groupby(["part", "method", "unit"], sort=False).ngroups
    if not n_pairs:
        return ""
    return (
        f"{n_pairs} pairs whose text is made of several concepts are left out of the errors. A text of k "
        "concepts\ntakes up to k times the ratings, which the bill above counts.\n"
    )


def _row(row: Expected, tasks: int, whole: bool, settings: StudySettings) -> dict[str, str]:
    own = bill(tasks, row.n_raters, settings.reward)
    return {
        "": "*" if whole and row.n_raters == settings.n_raters else "",
        "draws": str(row.n_draws),
        "raters": str(row.n_raters),
        "tasks": str(tasks),
        "cost": f"${own.total}",
        "error": f"{row.error:.3f}",
        "relative": f"{row.relative_error:.0%}",
    }
