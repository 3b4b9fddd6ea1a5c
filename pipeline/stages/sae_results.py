"""What the stages of the SAE track found of one point, gathered for the sweep's tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.files import read_json
from pipeline.stages.tables import read_table

STAGES = ("sae", "matching", "perturbation", "sanity", "probe")
PERTURBED = ("score", "add", "rem", "macro", "graded", "dstay")


@dataclass(frozen=True)
class SaePoint:
    """One point: its factors that are not of the SAE, its keys, and the folder of each stage it has."""

    factors: dict[str, str]
    keys: dict[str, str]
    folders: dict[str, Path]

    def summary(self, stage: str) -> dict[str, Any]:
        """Return a stage's summary, empty where the point has no such stage."""
        if stage not in self.folders:
            return {}
        summary: dict[str, Any] = read_json(self.folders[stage] / "summary.json")
        return summary

    def table(self, stage: str, name: str) -> pd.DataFrame | None:
        """Return a stage's table, None where it was not computed."""
        path = self.folders[stage] / f"{name}.parquet" if stage in self.folders else None
        return read_table(path) if path is not None and path.is_file() else None


def gather_points(
    points: Sequence[Mapping[str, Any]], inputs: Mapping[str, Sequence[Path]]
) -> list[SaePoint]:
    """Return the points of a sweep with their folders, in the given order."""
    folder_of = {(stage, folder.name): folder for stage in STAGES for folder in inputs[stage]}
    return [
        SaePoint(
            {name: value for name, value in point["factors"].items() if name.split(".")[0] != "sae"},
            point["keys"],
            {stage: folder_of[stage, key] for stage, key in point["keys"].items()},
        )
        for point in points
    ]


def identity(point: SaePoint) -> dict[str, Any]:
    """Return which SAE a point has: variant, dictionary_size, sae_k (NaN without one), seed."""
    facts = read_json(point.folders["sae"] / "facts.json")
    return {
        "variant": facts["variant"],
        "dictionary_size": facts["dictionary_size"],
        "sae_k": np.nan if facts.get("k") is None else facts["k"],
        "seed": facts.get("seed"),
    }


def sae_row(point: SaePoint) -> dict[str, Any]:
    """Return a point's row in the table of SAEs; what was not computed is NaN."""
    matching, sanity = point.summary("matching"), point.summary("sanity")
    perturbation, probe = point.summary("perturbation"), point.summary("probe")
    who, measured = identity(point), read_json(point.folders["sae"] / "facts.json")["validation"]
    density = matching["l0"] if np.isnan(who["sae_k"]) else who["sae_k"]
    return {
        **point.factors,
        **who,
        "density": density,
        "l0": matching["l0"],
        "explained_variance": measured["explained_variance"],
        "dead_share": matching["dead_share"],
        **{
            name: matching[name] for name in ("match_score", "match_score_matched", "n_attributes", "n_empty")
        },
        **{f"tapa_{name}" if name != "dstay" else name: perturbation.get(name) for name in PERTURBED},
        "n_pairs": perturbation.get("n_pairs", 0),
        "ms": sanity.get("ms"),
        "cknna": sanity.get("cknna"),
        "fms": sanity.get("fms"),
        "probe_f1": probe.get("f1"),
        **{f"{stage}_key": key for stage, key in point.keys.items()},
    }


def k_rows(point: SaePoint) -> pd.DataFrame:
    """Return MATCHScore by beta and k, with the point's factors and SAE."""
    scores = point.table("matching", "scores")
    assert scores is not None
    return scores.assign(**point.factors, **identity(point))


def attribute_rows(point: SaePoint) -> pd.DataFrame:
    """Return one row an attribute: matching, and where they were computed TAPAScore, FMS and the probe."""
    table = point.table("matching", "attributes")
    assert table is not None
    for stage, name, columns in (
        ("perturbation", "attributes", ["add", "n_add", "rem", "n_rem", "dstay", "n_stay"]),
        ("sanity", "fms", ["fms"]),
        ("probe", "attributes", ["probe_f1"]),
    ):
        other = point.table(stage, name)
        added = pd.DataFrame({"attribute": table["attribute"]}) if other is None else other
        table = table.merge(added.reindex(columns=["attribute", *columns]), on="attribute", how="left")
    table = table.drop(columns="attribute").rename(columns={"name": "attribute"})
    return table.assign(**point.factors, **identity(point))


def curve_rows(point: SaePoint) -> pd.DataFrame:
    """Return one row an epoch of the training of a point's SAE."""
    curves = point.table("sae", "curves")
    assert curves is not None
    return curves.assign(**point.factors, **identity(point), sae_key=point.keys["sae"])
