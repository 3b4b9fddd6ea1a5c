"""Units with their images, and each method's text and score."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.report.report_inputs import ReportInputs
from pipeline.report.sections.section import Gallery, Opinion, Section, Shot, Unit
from pipeline.report.sections.wording import MISSING, counted, measured, with_spread
from pipeline.statistics.cells import identity_factors

KINDS = {"top": "Most active", "random": "Random"}
MAX_BYTES = 6_000_000
"""Of all pictures together."""
REMARKS = {
    "prior decides": "Prior decides: on some image, what the scorer expects outweighs raters who all say "
    "otherwise."
}
"""What remarks beside a text mean."""
Row = Mapping[Any, Any]
ANCHOR, TITLE = "units", "Units"


def gallery_section(inputs: ReportInputs) -> Section:
    """Return the units of the gallery in its order, as many as fit into MAX_BYTES, or why there are none."""
    table = inputs.gallery
    if table is None or table.empty:
        return Section(ANCHOR, TITLE, ("No pictures of units were kept for this report.",))
    factors = [name for name in identity_factors(inputs.factors) if name in table]
    shown = [name for name in factors if len(set(table[name])) > 1]
    units: list[Unit] = []
    size = 0
    groups = table.groupby([*factors, "unit"], sort=False)
    for key, rows in groups:
        size += int(rows["jpeg"].map(len).sum())
        if units and size > MAX_BYTES:
            break
        place = dict(zip([*factors, "unit"], key, strict=True))
        opinions = _opinions(place, inputs.table("scores"), inputs.factors)
        units.append(_unit(place, shown, rows, opinions))
    left = len(groups) - len(units)
    words = [
        f"{counted(len(units), 'unit')}: images that activate each most, random ones, and methods' texts."
    ]
    words += [f"{counted(left, 'unit')} more have pictures that do not fit into this page."] if left else []
    words += [
        said for flag, said in REMARKS.items() if any(flag in o.remarks for u in units for o in u.opinions)
    ]
    return Section(ANCHOR, TITLE, tuple(words), (Gallery(tuple(units)),))


def _unit(
    place: Mapping[str, object], shown: Sequence[str], rows: pd.DataFrame, opinions: tuple[Opinion, ...]
) -> Unit:
    title = " ".join(["Unit", str(place["unit"]), *(f"· {place[name]}" for name in shown)])
    groups = tuple(
        (KINDS[kind], tuple(_shot(row) for row in own.to_dict("records")))
        for kind in KINDS
        if len(own := rows[rows["kind"] == kind].sort_values("rank", kind="stable"))
    )
    return Unit(title, groups, opinions)


def _shot(row: Row) -> Shot:
    content = bytes(row["jpeg"])
    data = "data:image/jpeg;base64," + base64.b64encode(content).decode("ascii")
    return Shot(str(row["image_id"]), data, measured(float(row["activation"])))


def _opinions(
    place: Mapping[str, object], scores: pd.DataFrame, factors: Sequence[str]
) -> tuple[Opinion, ...]:
    """Return the scored texts of a unit, highest first, equal ones by method; how they were judged varies."""
    if scores.empty:
        return ()
    own = scores
    for name, value in place.items():
        own = own[own[name].astype(str) == str(value)] if name in own else own
    by = [name for name in factors if name in own and name not in place and len(set(own[name])) > 1]
    own = own.sort_values(["estimate", "method"], ascending=[False, True], kind="stable", na_position="last")
    best = own["estimate"].max()
    return tuple(_opinion(row, by, row["estimate"] == best) for row in own.to_dict("records"))


def _opinion(row: Row, by: Sequence[str], first: bool) -> Opinion:
    value, low, high = (float(row.get(name, float("nan"))) for name in ("estimate", "low", "high"))
    flags = [flag for flag in str(row.get("flags") or "").split(";") if flag not in ("", "no_interval")]
    return Opinion(
        method=" · ".join([str(row["method"]), *(str(row[name]) for name in by)]),
        description=str(row["description"] or MISSING),
        score=with_spread(value, low, high),
        remarks=", ".join(flag.replace("_", " ") for flag in flags),
        first=first,
    )
