"""What every explainer returns, and the checks that all of them share."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pipeline.composition import Composition, describe, from_json, to_json
from pipeline.errors import AssayError

OWN_COLUMNS = ("method", "unit", "description")
CONSTANT = "constant activation"
BLOCK_BYTES = 1 << 26


class Columns(Protocol):
    """A layer's activations (N, U), an array or the codes of an SAE: `[:, units]` is dense (N, u)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, U)."""
        ...

    def __getitem__(self, key: Any, /) -> Any:
        """Return the units of `[:, units]` as a dense array."""
        ...


@dataclass(frozen=True)
class Explanations:
    """The texts of one method for the selected units of one layer.

    `table` has the columns method, unit (from 0) and description, then what the method adds (a score,
    columns of a file). Where it has a column composition, that is JSON of `pipeline.composition`, or blank
    for a text that is one concept. `unexplained` has unit and reason. Every selected unit is in exactly one
    of the two, in the order of selection. `notes` are sentences for the report.
    """

    table: pd.DataFrame
    unexplained: pd.DataFrame
    notes: tuple[str, ...] = ()


def require_units(
    units: Sequence[int], n_units: int, places: Sequence[str], fix: str, *, first_unit: int = 0
) -> None:
    """Raise AssayError at the first unit outside a layer of `n_units`.

    `units` are numbers as their source counts them, from `first_unit`; `places[i]` says where unit i
    was read ("labels.csv, line 7"); `fix` is a sentence.
    """
    last = first_unit + n_units - 1
    for unit, place in zip(units, places, strict=True):
        if not first_unit <= unit <= last:
            raise AssayError(
                f"unit {unit} ({place}) is outside the layer, whose {n_units} units are {first_unit} to "
                f"{last} where counting starts at {first_unit}. {fix}"
            )


def require_one_row_each(units: Sequence[int], places: Sequence[str], method: str, fix: str) -> None:
    """Raise AssayError where a (unit, method) has a second row, naming both places."""
    seen: dict[int, str] = {}
    for unit, place in zip(units, places, strict=True):
        if unit in seen:
            raise AssayError(
                f"unit {unit} of method '{method}' has two rows: {seen[unit]} and {place}. {fix}"
            )
        seen[unit] = place


def require_selection(units: Sequence[int], n_units: int | None = None) -> tuple[int, ...]:
    """Return the selected units as ints; AssayError if one repeats or is outside the layer.

    Without `n_units` only the lower end is known.
    """
    places = [f"place {place} of the selected units" for place in range(len(units))]
    bound = n_units if n_units is not None else max(units, default=0) + 1
    require_units(units, bound, places, "Change unit.indices or the layer.")
    repeated = [unit for unit, count in Counter(units).items() if count > 1]
    if repeated:
        raise AssayError(f"unit {repeated[0]} is selected twice; name each unit once in unit.indices")
    return tuple(int(unit) for unit in units)


def column_blocks(n_rows: int, n_columns: int, itemsize: int = 8) -> Iterator[slice]:
    """Yield slices of columns whose (n_rows, columns) block takes 64 MiB at most, or is one column."""
    size = max(1, BLOCK_BYTES // max(1, n_rows * itemsize))
    for start in range(0, n_columns, size):
        yield slice(start, min(start + size, n_columns))


def text_columns(composition: Composition) -> dict[str, str]:
    """Return the cells description and composition of a row; one concept is its own description."""
    if isinstance(composition, str):
        return {"description": composition, "composition": ""}
    return {"description": describe(composition), "composition": to_json(composition)}


def constant_units(activations: Columns, units: Sequence[int]) -> set[int]:
    """Return those of `units` whose activation (a column of (N, U)) is one value on all images.

    Raises AssayError where an activation is NaN or infinite, or where there is no image.
    """
    n_images, n_units = activations.shape
    if not n_images:
        raise AssayError("there is no image to explain units on; check explainer.split and dataset.splits")
    low, high = np.empty(n_units), np.empty(n_units)
    for columns in column_blocks(n_images, n_units):
        block = activations[:, columns]
        low[columns], high[columns] = block.min(axis=0), block.max(axis=0)
    for unit in units:
        if not (np.isfinite(low[unit]) and np.isfinite(high[unit])):
            values = activations[:, [unit]][:, 0]
            image = int(np.flatnonzero(~np.isfinite(values))[0])
            raise AssayError(
                f"unit {unit} has activation {values[image]} on image {image} of those that the "
                "explainer reads. Capture the layer with model.dtype=float32, or choose another layer."
            )
    return {unit for unit in units if low[unit] == high[unit]}


def _require_one_composition(described: pd.DataFrame, method: str) -> None:
    """Raise AssayError where one text is made of this for one unit and of that for another."""
    if "composition" not in described:
        return
    seen: dict[str, tuple[str, int]] = {}
    for unit, text, composition in described[["unit", "description", "composition"]].itertuples(index=False):
        made_of, first = seen.setdefault(text.strip(), (composition, unit))
        if made_of != composition:
            raise AssayError(
                f"method '{method}': units {first} and {unit} have the text {text!r}, one as "
                f"{made_of or 'a plain text'} and one as {composition or 'a plain text'}; write one otherwise"
            )


def assemble(
    method: str,
    units: Sequence[int],
    described: pd.DataFrame,
    reasons: Mapping[int, str],
    notes: Sequence[str] = (),
) -> Explanations:
    """Put one method's rows (unit, description, extra columns) and reasons in the order of `units`.

    Texts are stripped. Raises AssayError for a blank text, and ValueError unless each selected unit has
    one row or one reason and each composition's text is its row's description.
    """
    for text, composition in zip(described["description"], described.get("composition", ()), strict=False):
        if composition and describe(from_json(composition, method)) != text:
            raise ValueError(f"method '{method}': {text!r} is not the text of {composition}")
    _require_one_composition(described, method)
    texts = described["description"].astype(str).str.strip()
    if blank := [int(unit) for unit, text in zip(described["unit"], texts, strict=True) if not text]:
        raise AssayError(f"method '{method}' gives unit {blank[0]} a blank description; name every concept")
    if sorted([*described["unit"], *reasons]) != sorted(units):
        raise ValueError(f"method '{method}': each of the {len(units)} units needs one row or one reason")
    rows = described.assign(method=pd.Series(method, index=described.index, dtype="str"), description=texts)
    rows = rows.set_index("unit").loc[[unit for unit in units if unit not in reasons]].reset_index()
    rows["unit"] = rows["unit"].astype(np.int64)
    left = [unit for unit in units if unit in reasons]
    unexplained = pd.DataFrame(
        {
            "unit": np.array(left, dtype=np.int64),
            "reason": pd.Series([reasons[unit] for unit in left], dtype="str"),
        }
    )
    extra = [name for name in rows.columns if name not in OWN_COLUMNS]
    return Explanations(rows[[*OWN_COLUMNS, *extra]], unexplained, tuple(notes))
