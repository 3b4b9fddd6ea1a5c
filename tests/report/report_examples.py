"""What a report is made of, small: tables by the statistics themselves, made-up scores and pictures."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from pipeline.report.sweep_report import ReportInputs
from pipeline.report.vlm_sheets import sheets_of
from pipeline.statistics.comparison import compare
from pipeline.statistics.crowd_mixed import mixed_table
from pipeline.statistics.ratings import agreement_table, cost_table
from pipeline.statistics.vlm_explainers import explainer_table
from tests.report.test_sae_figures import sae_tables
from tests.report.vlm_examples import CELL, factors_of, vlm_tables, write_images

KEY = "k0123456789ab"
PLACE = {"dataset": "shapes", "model": "net", "layer": "l1"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><rect width="20" height="10"/></svg>'


def crowd_scores(levels: Mapping[str, float], n_units: int = 12, noise: float = 0.05) -> pd.DataFrame:
    """Return scores of each method around its level; a NaN level is a method without a score."""
    rng = np.random.default_rng(0)
    rows = [
        {
            **PLACE,
            "method": method,
            "unit": unit,
            "description": f"{method} text {unit}",
            "estimate": level + noise * rng.standard_normal(),
            "low": level - 0.1,
            "high": level + 0.1,
            "n_images": 10,
            "n_ratings": 30,
            "flags": "",
        }
        for method, level in levels.items()
        for unit in range(n_units)
    ]
    return pd.DataFrame(rows)


def crowd_inputs(
    scores: pd.DataFrame, *, mixed: bool = False, n_raters: int = 0, **more: Any
) -> ReportInputs:
    """Return a report's inputs whose tables are made of scores; n_raters answer about two images a unit."""
    factors = [name for name in ("dataset", "model", "layer", "scoring") if name in scores]
    found = compare(scores, factors=factors, n_bootstrap=200)
    tables = {"scores": scores, "methods": found.methods, "pairs": found.pairs, "errors": found.errors}
    tables |= {"mixed": mixed_table(scores, factors)} if mixed else {}
    tables |= rating_tables(scores, factors, n_raters) if n_raters else {}
    methods = list(dict.fromkeys(scores["method"]))
    points = [point(name, {"scoring": f"k{number:012d}"}) for number, name in enumerate(methods)]
    told: dict[str, Any] = {
        "facts": {"factors": factors, "confidence": 0.95},
        "points": points,
        "settings": [settings(name) for name in methods],
    }
    return ReportInputs("crowd", "trial", KEY, tables, **(told | more))


def rating_tables(
    scores: pd.DataFrame, factors: Sequence[str], n_raters: int, truth: float = 1.0
) -> dict[str, pd.DataFrame]:
    """Return cost and agreement of raters who say yes to one image and no to another, but for the last."""
    whose = scores[[*factors, "method", "unit", "description"]]
    asked = pd.concat([whose.assign(image_id=name, n_images=500) for name in ("a", "b")])
    ratings = pd.concat([asked.assign(worker=f"w{n}", last=n == n_raters - 1) for n in range(n_raters)])
    ratings = ratings.assign(
        assignment=ratings["worker"] + ratings["image_id"] + ratings["description"],
        rating=(ratings["image_id"] == "a") & ~ratings["last"],
        source="simulated",
        truth=truth * (ratings["image_id"] == "a"),
    ).drop(columns=["unit", "n_images", "last"])
    return {
        "cost": cost_table(asked, ratings, factors),
        "agreement": agreement_table(ratings, factors),
    }


def vlm_inputs(folder: Path | None = None, *, n_samples: int = 6, **more: Any) -> ReportInputs:
    """Return a report's inputs of made-up samples; with a folder, sheets with images written there."""
    tables = vlm_tables(n_samples=n_samples)
    tables["explainers"] = explainer_table(tables["scores"], factors_of(tables["samples"]), n_bootstrap=200)
    sheets = sheets_of(tables, write_images(tables, folder), tuple(CELL.values())) if folder else []
    told: dict[str, Any] = {"facts": {"factors": list(CELL), "confidence": 0.95}, "sheets": sheets}
    return ReportInputs("vlm", "trial", KEY, tables, **(told | more))


def sae_inputs(**more: Any) -> ReportInputs:
    """Return a report's inputs of made-up SAEs."""
    tables = sae_tables()
    told: dict[str, Any] = {"facts": {"factors": ["dataset", "model", "layer"], "confidence": 0.95}}
    return ReportInputs("sae", "trial", KEY, tables, **(told | more))


def point(explainer: str, keys: Mapping[str, str], variant: str = "") -> dict[str, Any]:
    return {
        "factors": PLACE,
        "explainer": explainer,
        "variant": variant,
        "overrides": f"layer=l1 explainer={explainer}",
        "keys": keys,
    }


def settings(explainer: str) -> dict[str, Any]:
    return {
        "dataset": {"name": "shapes", "n_images": 100},
        "explainer": {"name": explainer, "top": 50 if explainer == "random" else 20},
        "crowd": {"name": "simulated", "reward": 0.06, "inputs_per_task": 15},
    }


def gallery(units: Sequence[int] = (0, 1), n: int = 3) -> pd.DataFrame:
    """Return plain pictures of units in the layer of PLACE."""
    rows = [
        {**PLACE, "unit": unit, "kind": kind, "rank": rank, "image_id": f"{kind}-{unit}-{rank}"}
        | {"activation": 5.0 - rank, "jpeg": jpeg(unit, rank)}
        for unit in units
        for kind in ("top", "random")
        for rank in range(1, n + 1)
    ]
    return pd.DataFrame(rows)


def jpeg(unit: int, rank: int) -> bytes:
    stream = BytesIO()
    Image.new("RGB", (24, 24), (60 * unit % 256, 40 * rank % 256, 90)).save(stream, "JPEG")
    return stream.getvalue()


def figure(folder: Path, name: str) -> Path:
    path = folder / f"{name}.svg"
    path.write_text(SVG, encoding="utf-8")
    return path
