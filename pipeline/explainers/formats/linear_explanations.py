"""Linear Explanations (Oikarinen and Weng 2024, arXiv 2405.06855): weighted sums of concepts.

Layout seen in Trustworthy-ML-Lab/Linear-Explanations: a wide CSV with `unit` and pairs `weight0`, `concept0`,
`weight1`, `concept1`, ..., where `0` for both is an empty slot (`0.0` in files that were saved again);
optional `layer`, `bias`, `val correlation`, `sim correlation` and others, which are kept but for the bias.
Units count from 0; weights fall from slot to slot and can be negative.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.composition import Composition, linear
from pipeline.errors import AssayError
from pipeline.explainers.explanations import text_columns
from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, required
from pipeline.explainers.unit_rows import COMPOSITION, UnitRows, counted

WEIGHT = re.compile(r"weight[\s_-]*(\d+)", re.IGNORECASE)
EMPTY = ("", "0", "0.0")
ADDED = ("largest_weight", "description", COMPOSITION)
Terms = list[tuple[float, str]]


def read(path: Path, *, max_concepts: int | None = None) -> UnitRows:
    """Return the rows of a result of LE: each the sum of its `max_concepts` largest weights, or of all.

    A sum of one concept with a positive weight is that concept. With `max_concepts=1` the concept of the
    largest weight stands alone, also where that weight is negative (the notes count those). A concept in
    two slots has the sum of its weights; equal weights keep the file's order. The bias is left out: a
    correlation does not see it. A row with a weight that is not finite has no explanation.

    Raises AssayError, with the line, for a weight that is no number or has no concept.
    """
    if max_concepts is not None and max_concepts < 1:
        raise AssayError(f"explainer.max_concepts={max_concepts} leaves no concept; set 1 or more, or null")
    rows = read_table(path, "linear_explanations", UNIT, ("weight0",), ("concept0",))
    slots = _slots(list(rows.columns), path)
    by_place = rows.to_dict("index").items()
    sums = {str(place): _terms(row, slots, path, str(place)) for place, row in by_place}
    kept = {place: _largest(terms, max_concepts) for place, terms in sums.items()}
    cells = [_cells(terms, max_concepts) for terms in kept.values()]
    bias = column(list(rows.columns), ("bias",))
    rows = rows.drop(columns=[name for slot in slots for name in slot] + [name for name in [bias] if name])
    rows = rows.rename(columns={name: f"file_{name}" for name in ADDED})
    rows = rows.join(pd.DataFrame(cells, index=rows.index, columns=list(ADDED), dtype="str"))
    unit, layer = required(rows, UNIT), column(list(rows.columns), LAYER)
    notes = _notes(sums, kept, max_concepts, has_bias=bias is not None)
    return UnitRows(
        path,
        rows,
        unit,
        "description",
        layer,
        composed=True,
        why_blank=_not_finite(sums),
        notes=tuple(f"{path.name}: {note}" for note in notes),
    )


def _slots(names: Sequence[str], path: Path) -> list[tuple[str, str]]:
    """Return the columns of each slot's weight and concept, in the order of their numbers."""
    weights = {int(match[1]): name for name in names if (match := WEIGHT.fullmatch(name))}
    slots = []
    for number, weight in sorted(weights.items()):
        concept = column(names, (f"concept{number}",))
        if concept is None:
            raise AssayError(
                f"{path} has a column '{weight}' and no 'concept{number}'; add it or remove both"
            )
        slots.append((weight, concept))
    return slots


def _terms(row: Mapping[Hashable, str], slots: Sequence[tuple[str, str]], path: Path, place: str) -> Terms:
    """Return a row's concepts with their weights; a weight that is blank counts as not finite.

    A slot without concept whose weight is blank or nan is padding.
    """
    found: dict[str, float] = {}
    for weight_column, concept_column in slots:
        text, concept = row[weight_column], row[concept_column]
        try:
            weight = float(text) if text or concept not in EMPTY else 0.0
        except ValueError:
            weight = _blank(text, path, place, weight_column)
        if math.isnan(weight) and not concept:
            continue
        if weight and not concept:
            raise AssayError(
                f"{path}, {place}: the weight {text} has no concept; fill '{concept_column}' or set it to 0"
            )
        if weight or concept not in EMPTY:
            found[concept] = found.get(concept, 0.0) + weight
    return [(weight, concept) for concept, weight in found.items()]


def _blank(text: str, path: Path, place: str, weight_column: str) -> float:
    if text:
        raise AssayError(f"{path}, {place}: '{text}' in column '{weight_column}' is no number")
    return math.nan


def _not_finite(sums: Mapping[str, Terms]) -> dict[str, str]:
    return {
        place: f"the weight of '{concept}' is not finite"
        for place, terms in sums.items()
        for weight, concept in terms
        if not math.isfinite(weight)
    }


def _largest(terms: Terms, max_concepts: int | None) -> Terms:
    """Return the largest weights that are not 0, or nothing where some weight is not finite."""
    if not all(math.isfinite(weight) for weight, _ in terms):
        return []
    nonzero = [term for term in terms if term[0] != 0]
    return sorted(nonzero, key=lambda term: -term[0])[:max_concepts]


def _cells(terms: Terms, max_concepts: int | None) -> dict[str, str]:
    if not terms:
        return dict.fromkeys(ADDED, "")
    alone = len(terms) == 1 and (max_concepts == 1 or terms[0][0] > 0)
    composition: Composition = terms[0][1] if alone else linear(terms)
    return {"largest_weight": str(terms[0][0])} | text_columns(composition)


def _notes(
    sums: Mapping[str, Terms], kept: Mapping[str, Terms], max_concepts: int | None, *, has_bias: bool
) -> list[str]:
    zeros = sum(weight == 0 for terms in sums.values() for weight, _ in terms)
    cut = sum(len(_largest(terms, None)) > len(kept[place]) for place, terms in sums.items())
    negative = sum(max_concepts == 1 and bool(terms) and terms[0][0] < 0 for terms in kept.values())
    found = [
        (has_bias, "the bias is left out, a correlation does not see it"),
        (zeros, f"{counted(zeros, 'concept')} of weight 0 left out"),
        (cut, f"{counted(cut, 'sum')} cut to max_concepts={max_concepts}"),
        (
            negative,
            f"the largest weight of {counted(negative, 'row')} is negative: it lowers the activation",
        ),
    ]
    return [note for count, note in found if count]
