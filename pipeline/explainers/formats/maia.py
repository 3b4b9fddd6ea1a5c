"""MAIA's labels and descriptions (Rott Shaham et al. 2024, arXiv 2404.14394).

Layout seen in multimodal-interpretability/maia: a folder a unit, `<agent>/<model>/<layer>/<unit>/`, with the
agent's dialogue `history.json` and, where it gave them on one line, `description.txt` and `label.txt`. Later
prompts ask for `[LABEL 1]: ...`, `[LABEL 2]: ...`, which stand in `history.json` only. Units count from 0.
No table of results was seen there; a CSV with `unit` and `label` or `description` is read too.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pipeline.composition import Composition, Or
from pipeline.errors import AssayError
from pipeline.explainers.explanations import text_columns
from pipeline.explainers.formats.table import LAYER, UNIT, column, read_table, required
from pipeline.explainers.text_file import read_text
from pipeline.explainers.unit_rows import COMPOSITION, UnitRows, counted

LABELS = re.compile(r"\[LABEL\s*\d*\]:\s*([^\s\[][^\r\n]*)")
DESCRIPTION = re.compile(r"\[DESCRIPTION\]:\s*(.*?)\s*(?=[\r\n]\s*\[|\Z)", re.DOTALL)
ASKED = ("system", "user")
FILES = ("label.txt", "description.txt", "history.json")


def read(path: Path, *, text: Literal["label", "description"] = "label") -> UnitRows:
    """Return MAIA's label, or its longer description, of each unit.

    `path` is the folder of a model, whose folders are layers, that of one layer, or a table. Several labels
    are alternatives: a composition with OR.

    Raises AssayError for a folder without units and a `history.json` that cannot be read.
    """
    if path.is_file():
        other = "description" if text == "label" else "label"
        instead = {f"explainer.text={other}": (other,)}
        rows = read_table(path, f"maia with explainer.text={text}", UNIT, (text,), instead=instead)
        layer = column(list(rows.columns), LAYER)
        return UnitRows(path, rows, required(rows, UNIT), required(rows, (text,)), layer)
    folders, layered = _unit_folders(path)
    cells, several = {}, 0
    for folder in folders:
        texts = _texts(folder, text)
        several += len(texts) > 1
        place = folder.relative_to(path).as_posix()
        cells[place] = {"layer": folder.parent.name, "unit": folder.name, **_columns(texts)}
    rows = pd.DataFrame.from_dict(cells, orient="index", dtype="str")
    if not layered:
        rows = rows.drop(columns="layer")
    have = f"{counted(several, 'unit')} {'has' if several == 1 else 'have'} several labels"
    notes = (f"{path.name}: {have}, joined by OR",) if several else ()
    where = f"the layer's folder of {path.name}" if layered else path.name
    why_blank = dict.fromkeys(cells, f"no {text}.txt and no {text} in history.json")
    return UnitRows(
        path,
        rows,
        "unit",
        "description",
        "layer" if layered else None,
        composed=True,
        why_blank=why_blank,
        why_absent=f"no folder {{unit}} with MAIA's files in {where}",
        notes=notes,
    )


def _columns(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {"description": "", COMPOSITION: ""}
    composition: Composition = texts[0] if len(texts) == 1 else Or(tuple(texts))
    return text_columns(composition)


def _unit_folders(path: Path) -> tuple[list[Path], bool]:
    """Return the units' folders, and whether they lie in folders of layers."""
    if not path.exists():
        raise AssayError(f"{path} does not exist; set explainer.path to MAIA's results")
    if units := _numbered(path):
        return units, False
    layers = sorted(folder for folder in path.iterdir() if folder.is_dir())
    if units := [unit for layer in layers for unit in _numbered(layer)]:
        return units, True
    raise AssayError(
        f"{path} holds no folders of units; set explainer.path to <results>/<agent>/<model>, whose folders "
        "are layers with a folder a unit, or to one layer's folder"
    )


def _numbered(folder: Path) -> list[Path]:
    units = [entry for entry in folder.iterdir() if re.fullmatch("[0-9]+", entry.name)]
    units = [unit for unit in units if any((unit / name).is_file() for name in FILES)]
    return sorted(units, key=lambda unit: (int(unit.name), unit.name))


def _texts(folder: Path, text: str) -> list[str]:
    """Return the distinct texts of a unit: those of its text file, else those of the agent's last answer."""
    file, history = folder / f"{text}.txt", folder / "history.json"
    if file.is_file() and (written := read_text(file, "explainer.path").strip()):
        return [written]
    for answer in _answers(history) if history.is_file() else ():
        pattern = LABELS if text == "label" else DESCRIPTION
        if found := [match.strip() for match in pattern.findall(answer) if match.strip()]:
            return list(dict.fromkeys(found)) if text == "label" else found[-1:]
    return []


def _answers(history: Path) -> Iterator[str]:
    """Yield the agent's answers, the last first."""
    try:
        entries = json.loads(read_text(history, "explainer.path"))
        answers = [_content(entry["content"]) for entry in entries if entry["role"] not in ASKED]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AssayError(
            f"{history} is no dialogue of MAIA ({type(error).__name__}: {error}); remove it or restore it"
        ) from None
    yield from reversed(answers)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content if "text" in part)
