"""synergy: F_syn of every wanted explainer on every sample; explainers of one pass share the corners."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.files import write_json
from pipeline.stages.asking import opened
from pipeline.stages.explained import Explained, read_explained
from pipeline.stages.resuming import Record, resumed
from pipeline.stages.tables import write_table
from pipeline.synergy.fsyn import Synergy, explain_many
from pipeline.synergy.orders import tie_breaks, tie_share

CURVES = ("ins", "del", "image_del", "text_del", "image_ins", "text_ins")
Config = dict[str, Any]


def run_together(
    configs: list[Config], inputs: dict[str, Any], outputs: list[Path], partials: list[Path]
) -> list[list[str]]:
    """Write synergy.parquet (a row a sample), curves.parquet (one a point too), settings.json a config.

    The configs are equal; what differs is the result of `attributions`, one a config. A sample whose
    explainer failed has no row.
    """
    config = configs[0]
    samples = read_explained(config, inputs["answers"], inputs["attributions"])
    with opened(config, inputs["vlm"]) as vlm:

        def compute(explained: Explained, jobs: list[int]) -> list[Record]:
            game = explained.answered.game(config, vlm, explained.answered.prepared(vlm))
            return _records(explained, jobs, game, config["synergy"])

        found = resumed(samples, partials, compute, "samples played")
    for records, output in zip(found, outputs, strict=True):
        _write(list(samples), records, output)
        write_json(output / "settings.json", config["synergy"])
    return [[] for _ in configs]


def _records(explained: Explained, jobs: Sequence[int], game: Any, settings: Config) -> list[Record]:
    """Return the record of each job for one sample, empty where its explainer failed."""
    name = explained.answered.sample.sample_id
    scored = {str(job): pair for job in jobs if (pair := explained.scores[job]) is not None}
    orders = {
        job: tie_breaks(*pair, settings["n_tie_breaks"], settings["seed"], name)
        for job, pair in scored.items()
    }
    found = explain_many(game, orders, settings["steps"], settings["rule"], insertion=settings["insertion"])
    shares = {job: [tie_share(each) for each in pair] for job, pair in scored.items()}
    return [
        _record(found[job], shares[job], len(orders[job])) if job in found else {} for job in map(str, jobs)
    ]


def _record(found: Synergy, shares: Sequence[float], n_orders: int) -> Record:
    image, text = found.mu_image, found.mu_text
    return {
        "f": found.f,
        "auc_ins": found.auc_ins,
        "auc_del": found.auc_del,
        "dividend": found.dividend,
        "ratio": found.ratio,
        "f_sd": float(np.std(found.f_by_order, ddof=1)) if n_orders > 1 else 0.0,
        "n_orders": n_orders,
        "patch_tie_share": shares[0],
        "token_tie_share": shares[1],
        "n_states": found.n_states,
        "n_tie_states": found.n_tie_states,
        "n_insertion_states": found.n_insertion_states,
        "f_full": found.corners.full,
        "f_patches_only": found.corners.patches_only,
        "f_tokens_only": found.corners.tokens_only,
        "f_empty": found.corners.empty,
        "image_auc_del": image.auc_del,
        "text_auc_del": text.auc_del,
        "image_auc_ins": _known(image.auc_ins),
        "text_auc_ins": _known(text.auc_ins),
        "image_srg": _known(image.srg),
        "text_srg": _known(text.srg),
        "curves": [
            [] if curve is None else curve.tolist()
            for curve in (found.ins, found.del_, image.del_, text.del_, image.ins, text.ins)
        ],
    }


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


def _write(ids: Sequence[str], records: Sequence[Record], output: Path) -> None:
    kept = [(name, record) for name, record in zip(ids, records, strict=True) if record]
    rows = [
        {"sample_id": name, **{key: value for key, value in record.items() if key != "curves"}}
        for name, record in kept
    ]
    write_table(pd.DataFrame(rows), output / "synergy.parquet")
    curves = [_curves(name, record["curves"]) for name, record in kept]
    write_table(pd.concat(curves, ignore_index=True), output / "curves.parquet")


def _curves(name: str, curves: Sequence[Sequence[float]]) -> pd.DataFrame:
    """Return the points of one sample's curves; those that were not asked for are null."""
    n_points = len(curves[0])
    columns = {title: curve or [np.nan] * n_points for title, curve in zip(CURVES, curves, strict=True)}
    point = np.arange(n_points)
    return pd.DataFrame({"sample_id": name, "point": point, "share": point / (n_points - 1), **columns})
