"""Network Dissection's labels (Bau et al. 2017, arXiv 1704.05796).

Layouts seen:
- CSVs of the tally, in CSAILVision/NetDissect, CSAILVision/NetDissect-Lite and the results in
  Trustworthy-ML-Lab/CLIP-dissect: `unit`, counted **from 1** and ordered by score, and `label`; optional
  `category`, `score` (the IoU) and five columns a category, which are left out.
- CSVs with `unit`, counted from 0, and `description`: Trustworthy-ML-Lab/Linear-Explanations.
- JSON (`report.json` of davidbau/dissect): the list `units`, each with `unit`, counted from 0, `label` and
  `iou`; `cat` is optional.
Labels are Broden's: `red-c` is a colour, `casino-indoor-s` a scene; '-' or no text is no label.
"""

import re
from pathlib import Path
from typing import Literal

import pandas as pd

from pipeline.errors import AssayError
from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, read_units_json, required
from pipeline.explainers.unit_rows import UnitRows, counted

LABEL = ("label", "description")
SCORE = ("score", "iou")
OF_A_CATEGORY = re.compile(r".+-(label|category|truth|activation|intersect|iou)", re.IGNORECASE)


def read(path: Path, *, min_iou: float | None = None, plain_labels: bool = True) -> UnitRows:
    """Return the rows of a result of Network Dissection.

    A unit whose IoU is below `min_iou` (a detector in the paper has .04) has no explanation. With
    `plain_labels` a label is spelled for people: "red color", "casino, indoor"; its own spelling is kept.
    """
    if path.suffix.lower() == ".json":
        rows = read_units_json(path, "network_dissection", ("unit", "label"))
        first_unit: Literal[0, 1] = 0
    else:
        rows = read_table(path, "network_dissection", UNIT, LABEL)
        first_unit = 1 if column(list(rows.columns), LABEL[:1]) else 0
    label = required(rows, LABEL)
    rows = rows[[name for name in rows.columns if not OF_A_CATEGORY.fullmatch(name)]]
    why_blank = _low(rows, path, min_iou) | _unlabelled(rows[label])
    written = rows[label]
    texts = written.map(plain_label) if plain_labels else written
    notes: tuple[str, ...] = ()
    if changed := int((texts != written).sum()):
        rows = rows.assign(broden_label=written)
        example = _example(written, texts)
        notes = (f"{path.name}: {counted(changed, 'label')} spelled for people, such as {example}",)
    rows = rows.assign(**{label: texts.mask(rows.index.isin(list(why_blank)), "")})
    layer = column(list(rows.columns), LAYER)
    unit = required(rows, UNIT)
    return UnitRows(path, rows, unit, label, layer, first_unit, why_blank=why_blank, notes=notes)


def plain_label(label: str) -> str:
    """Return a Broden label as people read it: `pink-c`, `shoe_shop-s`, `forest-broadleaf-s`."""
    if label.endswith("-c"):
        return f"{label[:-2]} color".replace("_", " ")
    if label.endswith("-s"):
        label = label[:-2].replace("-", ", ")
    return label.replace("_", " ")


def _example(written: pd.Series, texts: pd.Series) -> str:
    place = written.index[written != texts][0]
    return f"'{written[place]}' as '{texts[place]}'"


def _unlabelled(labels: pd.Series) -> dict[str, str]:
    return {str(place): "the label '-', which is none" for place in labels.index[labels == "-"]}


def _low(rows: pd.DataFrame, path: Path, min_iou: float | None) -> dict[str, str]:
    if min_iou is None:
        return {}
    score = column(list(rows.columns), SCORE)
    if score is None:
        raise AssayError(f"{path} has no column 'score' or 'iou'; set explainer.min_iou=null")
    found = {str(place): (text, _iou(text, path, str(place))) for place, text in rows[score].items()}
    return {
        place: f"IoU {text or 'missing'}, not at least {min_iou:g}"
        for place, (text, value) in found.items()
        if not value >= min_iou
    }


def _iou(text: str, path: Path, place: str) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        raise AssayError(
            f"{path}, {place}: the IoU '{text}' is no number; mend it or set explainer.min_iou=null"
        ) from None
