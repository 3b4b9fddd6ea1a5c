"""What the stages of the VLM track found, gathered for a sweep's tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.files import read_json
from pipeline.stages.asking import usable
from pipeline.stages.tables import read_table
from pipeline.synergy.fsyn import count_states
from pipeline.synergy.orders import tie_breaks

STAGES = ("answers", "attributions", "synergy", "sii")
SAMPLE = (
    "sample_id",
    "category",
    "question",
    "expected",
    "answer",
    "correct",
    "log_probability",
    "n_patches",
    "n_tokens",
    "rows",
    "columns",
    "tokens",
    "flag",
)
SII = ("sample_id", "sii", "sii_top", "n_states", "patch_groups", "token_groups")
PLAUSIBILITY = ("pointing", "pointing_chance", "iou", "flags")


@dataclass(frozen=True)
class VlmPoint:
    """One point: its cell, who explains, its keys, and the folder of each stage it has."""

    factors: dict[str, str]
    explainer: str
    keys: dict[str, str]
    folders: dict[str, Path]

    def table(self, stage: str, name: str) -> pd.DataFrame:
        """Return a stage's table."""
        return read_table(self.folders[stage] / f"{name}.parquet")

    def named(self, table: pd.DataFrame) -> pd.DataFrame:
        """Put the cell and the explainer before a table's columns."""
        who = {**self.factors, "explainer": self.explainer}
        return table.assign(**who)[[*who, *table.columns]]


def gather_points(
    points: Sequence[Mapping[str, Any]], inputs: Mapping[str, Sequence[Path]]
) -> list[VlmPoint]:
    """Return the points of a sweep with their folders, in the given order."""
    folder_of = {(stage, folder.name): folder for stage in STAGES for folder in inputs[stage]}
    return [
        VlmPoint(
            point["factors"],
            point["explainer"] + (f" ({point['variant']})" if point["variant"] else ""),
            point["keys"],
            {stage: folder_of[stage, key] for stage, key in point["keys"].items()},
        )
        for point in points
    ]


def gather_tables(points: Sequence[VlmPoint]) -> dict[str, pd.DataFrame]:
    """Return samples, scores, curves, maps and sii of all points, each row once; no sii: an empty table."""
    played = _distinct(points, "synergy")
    exact = [point.named(table) for point in _distinct(points, "sii") if len(table := _sii(point))]
    who = [*points[0].factors, "explainer"]
    return {
        "samples": pd.concat([_samples(p) for p in _cells(points)], ignore_index=True),
        "scores": pd.concat([p.named(_scores(p)) for p in played], ignore_index=True),
        "curves": pd.concat([p.named(p.table("synergy", "curves")) for p in played], ignore_index=True),
        "maps": pd.concat([p.named(_maps(p)) for p in played], ignore_index=True),
        "sii": pd.concat(exact, ignore_index=True) if exact else pd.DataFrame(columns=[*who, *SII]),
    }


def canvases(points: Sequence[VlmPoint]) -> dict[tuple[str, ...], Path]:
    """Return the picture of what the model saw, by the cell's values and the sample_id."""
    return {
        (*p.factors.values(), str(row["sample_id"])): p.folders["answers"] / "canvases" / row["picture"]
        for p in _cells(points)
        for _, row in usable(p.table("answers", "answers")).iterrows()
    }


def states_together(points: Sequence[VlmPoint]) -> dict[tuple[str, ...], float]:
    """Return for each cell the mean number of states that a sample's explainers are asked for together."""
    cells: dict[tuple[str, ...], list[VlmPoint]] = {}
    for point in _distinct(points, "synergy"):
        cells.setdefault(tuple(point.factors.values()), []).append(point)
    return {cell: float(np.mean([*_counts(members)])) for cell, members in cells.items()}


def _counts(points: Sequence[VlmPoint]) -> Iterator[int]:
    settings = read_json(points[0].folders["synergy"] / "settings.json")
    maps = [p.table("attributions", "attributions").set_index("sample_id") for p in points]
    for name in maps[0].index:
        scored = [m.loc[name, ["patches", "tokens"]] for m in maps]
        known = [pair for pair in scored if pair["patches"] is not None]
        orders = {
            str(i): tie_breaks(*pair, settings["n_tie_breaks"], settings["seed"], name)
            for i, pair in enumerate(known)
        }
        if orders:
            yield count_states(orders, settings["steps"], insertion=settings["insertion"])


def _distinct(points: Sequence[VlmPoint], stage: str) -> list[VlmPoint]:
    """Return the points that have a stage, one for each of its results in a cell and explainer."""
    having = [point for point in points if stage in point.keys]
    named = {(*p.factors.values(), p.explainer, p.keys[stage]): p for p in reversed(having)}
    return [p for p in having if named[*p.factors.values(), p.explainer, p.keys[stage]] is p]


def _cells(points: Sequence[VlmPoint]) -> list[VlmPoint]:
    """Return one point a cell."""
    return [*{tuple(point.factors.values()): point for point in reversed(points)}.values()][::-1]


def _samples(point: VlmPoint) -> pd.DataFrame:
    return point.table("answers", "answers")[[*SAMPLE]].assign(**point.factors)[[*point.factors, *SAMPLE]]


def _scores(point: VlmPoint) -> pd.DataFrame:
    """Return a row a sample with an answer; what a failed explainer has not is null."""
    asked = usable(point.table("answers", "answers"))[["sample_id", "answer"]]
    told = point.table("attributions", "attributions")[["sample_id", *PLAUSIBILITY]]
    table = asked.merge(point.table("synergy", "synergy"), on="sample_id", how="left")
    return table.merge(told, on="sample_id", how="left")


def _maps(point: VlmPoint) -> pd.DataFrame:
    """Return a row a sample that the explainer could explain."""
    return point.table("attributions", "attributions")[["sample_id", "patches", "tokens"]].dropna()


def _sii(point: VlmPoint) -> pd.DataFrame:
    return point.table("sii", "sii")[[*SII]]
