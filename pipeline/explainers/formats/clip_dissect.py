"""CLIP-Dissect's descriptions (Oikarinen and Weng 2023, arXiv 2204.10965).

Layouts seen in Trustworthy-ML-Lab/CLIP-dissect (`descriptions.csv`, published results), Describe-and-Dissect
and Linear-Explanations: CSV with `unit` and `description`; optional `layer` (a network's layers in one file)
and `similarity`. Units count from 0; Describe-and-Dissect's copy has some units only.
"""

from pathlib import Path

from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, required
from pipeline.explainers.unit_rows import UnitRows

TEXT = ("description",)


def read(path: Path) -> UnitRows:
    """Return the rows of a result of CLIP-Dissect."""
    rows = read_table(path, "clip_dissect", UNIT, TEXT)
    return UnitRows(path, rows, required(rows, UNIT), required(rows, TEXT), column(list(rows.columns), LAYER))
