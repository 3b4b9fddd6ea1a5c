"""Encode a result of activations with a result of the sae stage."""

from pathlib import Path
from typing import Any

from pipeline.saes.encoding import encode_csr
from pipeline.saes.sae import load
from pipeline.stages.sparse import write_codes
from pipeline.stages.tables import layer_array

WEIGHTS = "sae.safetensors"


def write_latents(config: dict[str, Any], activations: Path, sae: Path, output: Path) -> list[str]:
    """Write the codes (N, D) of activations (N, d); note an SAE of which no latent fires."""
    codes = encode_csr(
        load(sae / WEIGHTS), layer_array(activations), device=config["device"], **config["numerics"]
    )
    write_codes(codes, output)
    return [] if codes.nnz else [f"no latent of {sae.name} fires on any of {codes.shape[0]} images"]
