"""MILAN's descriptions and the MILANNOTATIONS (Hernandez et al. 2022, arXiv 2201.11114).

Layouts seen in evandez/neuron-descriptions (the scripts that write descriptions and export them, and the
annotations' reader), and in Trustworthy-ML-Lab's CLIP-dissect, Describe-and-Dissect and Linear-Explanations:
- CSV with `unit` and `description`, or `summary` in the annotations, which give a unit several rows;
  optional `layer`: MILAN writes a network's layers into one file. Units count from 0.
- JSON (`data.json` of the export): the list `units`, each with `layer`, `unit` and `description`.
"""

from pathlib import Path

from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, read_units_json, required
from pipeline.explainers.unit_rows import UnitRows

TEXT = ("description", "summary", "annotation")


def read(path: Path) -> UnitRows:
    """Return the rows of a result of MILAN."""
    if path.suffix.lower() == ".json":
        rows = read_units_json(path, "milan", ("layer", "unit", "description"))
    else:
        rows = read_table(path, "milan", UNIT, TEXT)
    return UnitRows(path, rows, required(rows, UNIT), required(rows, TEXT), column(list(rows.columns), LAYER))
