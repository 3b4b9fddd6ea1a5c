"""sanity: metrics that the literature uses for SAEs, computed to be checked against untrained ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pipeline.files import write_json
from pipeline.matching.cknna import cknna
from pipeline.matching.fms import fms
from pipeline.matching.monosemanticity import monosemanticity
from pipeline.seeds import generator
from pipeline.stages.sparse import read_codes
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table, write_table

Facts = dict[str, Any]
FMS_COLUMNS = ("stump_accuracy", "removed_accuracy", "ms_local", "ms_global", "latents", "depth", "n_images")


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write monosemanticity, fms (.parquet) as far as they are asked for, and summary.json."""
    settings = config["sanity"]
    rows = _sample(
        rows_of_split(inputs["splits"], config["evaluation"]["split"], "evaluation.split"), settings
    )
    codes = read_codes(inputs["latents"], rows)
    facts: Facts = {"n_images": len(rows)}
    for name in settings["metrics"]:
        facts |= METRICS[name](codes, rows, settings, inputs, output)
    write_json(output / "summary.json", facts)
    return [f"{name}: {facts[name]}" for name in ("cknna_reason",) if facts.get(name)]


def _sample(rows: NDArray[np.intp], settings: Facts) -> NDArray[np.intp]:
    """Return the rows, or a seeded sample of max_images of them, in order."""
    if len(rows) <= settings["max_images"]:
        return rows
    rng = generator(settings["seed"], "sanity", "images")
    return np.sort(rng.choice(rows, settings["max_images"], replace=False))


def _monosemanticity(
    codes: csr_array, rows: NDArray[np.intp], settings: Facts, inputs: dict[str, Path], output: Path
) -> Facts:
    found = monosemanticity(codes, layer_array(inputs["activations"])[rows])
    table = {"latent": np.arange(len(found.values)), "value": found.values, "reason": list(found.reasons)}
    write_table(pd.DataFrame(table), output / "monosemanticity.parquet")
    return {"ms": _known(found.mean), "ms_undefined": found.n_undefined}


def _cknna(
    codes: csr_array, rows: NDArray[np.intp], settings: Facts, inputs: dict[str, Path], output: Path
) -> Facts:
    found = cknna(codes, layer_array(inputs["activations"])[rows], settings["cknna_k"])
    return {"cknna": found.value, "cknna_reason": found.reason}


def _fms(
    codes: csr_array, rows: NDArray[np.intp], settings: Facts, inputs: dict[str, Path], output: Path
) -> Facts:
    names = read_table(inputs["labels"] / "attributes.parquet")["name"]
    attributes = np.asarray(read_array(inputs["labels"] / "attributes.npy"))[rows]
    found = fms(codes, attributes, settings["seed"])
    columns = {name: getattr(found, name) for name in FMS_COLUMNS}
    head = {"attribute": np.arange(len(names)), "name": names, "fms": found.values}
    write_table(pd.DataFrame({**head, **columns, "reason": list(found.reasons)}), output / "fms.parquet")
    return {"fms": _known(found.mean), "fms_undefined": found.n_undefined}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


METRICS: dict[str, Callable[..., Facts]] = {
    "monosemanticity": _monosemanticity,
    "cknna": _cknna,
    "fms": _fms,
}
