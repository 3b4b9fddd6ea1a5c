"""probe: how well a linear classifier on the activations knows each attribute; the upper bound."""

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.files import write_json
from pipeline.matching.probe import linear_probe, probe_scores
from pipeline.stages.keywords import keywords
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table, write_table

WEIGHTS = "probe.safetensors"


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write probe.safetensors, attributes.parquet (f1, auc, ... by attribute) and summary.json."""
    activations = layer_array(inputs["activations"])
    attributes = np.asarray(read_array(inputs["labels"] / "attributes.npy"))
    splits = ("train", "validation", config["evaluation"]["split"])
    train, validation, judged = (rows_of_split(inputs["splits"], split, "probe: split") for split in splits)
    probe = linear_probe(
        activations[train],
        attributes[train],
        activations[validation],
        attributes[validation],
        **keywords(linear_probe, config["probe"]),
    )
    probe.save(output / WEIGHTS)
    table = probe_scores(probe, activations[judged], attributes[judged])
    names = read_table(inputs["labels"] / "attributes.parquet")["name"]
    write_table(table.assign(name=names, probe_f1=table["f1"]), output / "attributes.parquet")
    write_json(output / "summary.json", {"f1": float(table["f1"].mean()), "auc": float(table["auc"].mean())})
    lacking = table.loc[table["reason"] != "", "reason"].value_counts()
    return [f"{count} of {len(table)} attributes: {reason}" for reason, count in lacking.items()]
