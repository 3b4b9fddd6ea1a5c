"""sii: exact interactions of image and text over rank groups, on some samples: what F_syn stands for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.stages.asking import opened
from pipeline.stages.explained import Explained, read_explained
from pipeline.stages.resuming import Record, resumed
from pipeline.stages.tables import write_table
from pipeline.synergy.orders import tie_breaks
from pipeline.synergy.sii import sii
from pipeline.vqa.sample import select

COLUMNS = ("sample_id", "sii", "sii_top", "n_states", "patch_groups", "token_groups", "pairs")
Config = dict[str, Any]


def run_together(
    configs: list[Config], inputs: dict[str, Any], outputs: list[Path], partials: list[Path]
) -> list[list[str]]:
    """Write sii.parquet a config: a row a sample; `sii.n_samples` of those with an answer, the same for all.

    Ties are broken as in the first order of F_syn. A sample whose explainer failed has no row: the table of
    an explainer that failed on each of them is empty.
    """
    config = configs[0]
    samples, notes = _chosen(config["sii"], read_explained(config, inputs["answers"], inputs["attributions"]))
    with opened(config, inputs["vlm"]) as vlm:

        def compute(explained: Explained, jobs: list[int]) -> list[Record]:
            game = explained.answered.game(config, vlm, explained.answered.prepared(vlm))
            return [_record(explained, job, game, config) for job in jobs]

        found = resumed(samples, partials, compute, "samples with exact interactions")
    for records, output in zip(found, outputs, strict=True):
        _write(list(samples), records, output)
    return [notes for _ in configs]


def _chosen(settings: Config, samples: dict[str, Explained]) -> tuple[dict[str, Explained], list[str]]:
    wanted, there = settings["n_samples"], len(samples)
    notes = [f"sii.n_samples={wanted}, and {there} samples have an answer"] if wanted > there else []
    taken = select([each.answered.sample for each in samples.values()], min(wanted, there), settings["seed"])
    return {sample.sample_id: samples[sample.sample_id] for sample in taken}, notes


def _record(explained: Explained, job: int, game: Any, config: Config) -> Record:
    """Return the record of one job for one sample, empty where its explainer failed."""
    if (pair := explained.scores[job]) is None:
        return {}
    name, settings = explained.answered.sample.sample_id, config["sii"]
    ((patch_order, token_order),) = tie_breaks(*pair, 1, config["synergy"]["seed"], name)
    found = sii(game, patch_order, token_order, settings["patch_groups"], settings["token_groups"])
    return {
        "sii": found.total,
        "sii_top": found.top,
        "n_states": found.n_states,
        "patch_groups": found.pairs.shape[0],
        "token_groups": found.pairs.shape[1],
        "pairs": found.pairs.ravel().tolist(),
    }


def _write(ids: Sequence[str], records: Sequence[Record], output: Path) -> None:
    rows = [{"sample_id": name, **record} for name, record in zip(ids, records, strict=True) if record]
    write_table(pd.DataFrame(rows, columns=COLUMNS), output / "sii.parquet")
