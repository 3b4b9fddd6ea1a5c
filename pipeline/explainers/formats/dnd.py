"""Describe-and-Dissect's labels (Bai et al. 2024, arXiv 2403.13771).

Layouts seen in Trustworthy-ML-Lab/Describe-and-Dissect: CSV with `Neuron ID` and `Label 1`; optional
`Label 2` and `Label 3`, blank or one space where there are fewer labels; the fully connected layer's file has
`label` instead of `Label 1`. One layer a file, some units only, in any order, counted from 0.
"""

from pathlib import Path
from typing import Literal

from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, required
from pipeline.explainers.unit_rows import UnitRows

SPELLINGS = {1: ("label 1", "label"), 2: ("label 2",), 3: ("label 3",)}


def read(path: Path, *, label: Literal[1, 2, 3] = 1) -> UnitRows:
    """Return the rows of a result of DnD: label 1, 2 or 3 is the text, the others are kept as columns."""
    text = SPELLINGS[label]
    instead = {f"explainer.label={other}": names for other, names in SPELLINGS.items() if other != label}
    rows = read_table(path, f"dnd with explainer.label={label}", UNIT, text, instead=instead)
    return UnitRows(path, rows, required(rows, UNIT), required(rows, text), column(list(rows.columns), LAYER))
