"""Checkpoints of sae-lens: a folder with cfg.json and sae_weights.safetensors.

The layout is public in decoderesearch/SAELens (before: jbloomAus/SAELens), sae_lens/constants.py,
sae_lens/loading/pretrained_sae_loaders.py and sae_lens/saes/*.py: `W_enc` (d_in, d_sae), `W_dec`
(d_sae, d_in), `b_dec` (d_in,), `b_enc` (d_sae,); `threshold` (d_sae,) for jumprelu, which batchtopk and
matryoshka_batchtopk are saved as; `b_gate`, `b_mag`, `r_mag` for gated. Checkpoints of a training that goes
on hold `log_threshold`, or `topk_threshold` (one number). Before version 6, cfg.json names the activation in
`activation_fn` or `activation_fn_str`, and k in `activation_fn_kwargs`.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes.activation import Activation
from pipeline.saes.foreign import Tensors, gate_threshold, read_config
from pipeline.saes.sae import Sae

CONFIG, WEIGHTS = "cfg.json", "sae_weights.safetensors"
ARCHITECTURES = ("standard", "topk", "jumprelu", "gated", "batchtopk", "matryoshka_batchtopk")
NORMALISATIONS = {"none": "none", "layer_norm": "layer_norm", "constant_norm_rescale": "constant_norm"}


def read(path: Path) -> Sae:
    """Read the folder, or its weight file with cfg.json beside it.

    Scaling that sae-lens applies to codes is folded into the weights, so that codes and reconstruction
    are theirs. Raises AssayError, naming file and key, for an architecture, activation or normalisation
    that is not supported, a TopK without k, and missing or misshapen tensors.
    """
    folder = path if path.is_dir() else path.parent
    config = read_config(folder / CONFIG)
    tensors = Tensors(folder / WEIGHTS if path.is_dir() else path)
    where = folder / CONFIG
    architecture = config.get("architecture", "standard")
    if architecture not in ARCHITECTURES:
        raise AssayError(
            f"{where}: architecture={architecture!r} is not supported; supported: {', '.join(ARCHITECTURES)}"
        )
    encoder, decoder, bias = _weights(tensors, config, architecture)
    return Sae(
        variant="file",
        activation=_activation(where, config, architecture, tensors),
        decoder=decoder,
        decoder_bias=tensors["b_dec"],
        encoder=encoder,
        encoder_bias=bias,
        normalisation=_normalisation(where, config),
        centred=bool(config.get("apply_b_dec_to_input", True)),
        settings={"format": "sae_lens", "architecture": architecture, **_origin(config)},
    )


def _weights(tensors: Tensors, config: dict[str, Any], architecture: str) -> tuple[Tensor, Tensor, Tensor]:
    encoder = tensors.matrix("W_enc")
    decoder = tensors.matrix("W_dec", (encoder.shape[1], encoder.shape[0]))
    bias = tensors["b_mag"] if architecture == "gated" else tensors["b_enc"]
    if architecture == "gated":
        encoder = encoder * tensors["r_mag"].exp()
    if _rescaled(config, architecture):
        lengths = decoder.norm(dim=1)
        encoder, bias, decoder = encoder * lengths, bias * lengths, decoder / lengths[:, None]
    if config.get("finetuning_scaling_factor"):
        decoder = decoder * tensors["finetuning_scaling_factor"][:, None]
    return encoder, decoder, bias


def _rescaled(config: dict[str, Any], architecture: str) -> bool:
    """Return whether codes are scaled by the decoder's norms before the selection (version 6.11 on)."""
    return architecture.endswith("topk") and bool(config.get("rescale_acts_by_decoder_norm", False))


def _activation(where: Path, config: dict[str, Any], architecture: str, tensors: Tensors) -> Activation:
    if architecture == "gated":
        return Activation(
            "threshold", threshold=gate_threshold(tensors["b_gate"], tensors["b_mag"], tensors["r_mag"])
        )
    if architecture == "jumprelu":
        trained = "log_threshold" in tensors
        return Activation(
            "threshold", threshold=tensors["log_threshold"].exp() if trained else tensors["threshold"]
        )
    if architecture.endswith("batchtopk"):
        theta = torch.tensor([tensors.scalar("topk_threshold")])
        return Activation("threshold", k=_whole(config.get("k")), threshold=theta)
    name = config.get("activation_fn", config.get("activation_fn_str", "relu"))
    if architecture == "topk" or str(name).startswith("topk"):
        return Activation("topk", k=_k(where, config))
    if name != "relu":
        raise AssayError(f"{where}: activation_fn={name!r} is not supported; supported: relu, topk")
    return Activation("relu")


def _k(where: Path, config: dict[str, Any]) -> int:
    k = config.get("k", (config.get("activation_fn_kwargs") or {}).get("k"))
    if k is None:
        raise AssayError(f"{where}: a TopK SAE without k, under k or activation_fn_kwargs.k; add it")
    return int(k)


def _whole(k: float | None) -> int | None:
    """Return a mean number of latents as a whole one."""
    return None if k is None else max(1, round(k))


def _normalisation(where: Path, config: dict[str, Any]) -> str:
    name = config.get("normalize_activations", "none")
    if isinstance(name, bool):
        name = "expected_average_only_in" if name else "none"
    if (name or "none") not in NORMALISATIONS:
        raise AssayError(
            f"{where}: normalize_activations={name!r} needs a factor that is not in the checkpoint; "
            "fold it in with fold_activation_norm_scaling_factor of sae-lens, and save again"
        )
    return NORMALISATIONS[name or "none"]


def _origin(config: dict[str, Any]) -> dict[str, Any]:
    """Return which model and layer the SAE was trained on, as far as the config says."""
    nested = config.get("metadata") or config.get("meta") or {}
    found = {key: nested.get(key, config.get(key)) for key in ("model_name", "hook_name")}
    return {key: value for key, value in found.items() if value is not None}
