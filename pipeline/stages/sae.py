"""sae: train sparse autoencoders on a layer's activations, all that share the layer in one process."""

from pathlib import Path
from typing import Any

from pipeline.files import write_json
from pipeline.saes.training import Trained, fit_together
from pipeline.stages.encoding import WEIGHTS
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, write_table


def run_together(configs: list[dict[str, Any]], inputs: dict[str, Path], outputs: list[Path]) -> list[str]:
    """Write sae.safetensors, curves.parquet and facts.json for each config's SAE."""
    activations = layer_array(inputs["activations"])
    train, validation = (
        activations[rows_of_split(inputs["splits"], split, "sae: split")] for split in ("train", "validation")
    )
    trained = fit_together(
        train,
        validation,
        [config["sae"] for config in configs],
        device=configs[0]["device"],
        progress=True,
        **configs[0]["numerics"],
    )
    for each, output in zip(trained, outputs, strict=True):
        _write(each, output)
    return []


def _write(trained: Trained, output: Path) -> None:
    trained.sae.save(output / WEIGHTS)
    write_table(trained.curves, output / "curves.parquet")
    write_json(output / "facts.json", trained.facts)
