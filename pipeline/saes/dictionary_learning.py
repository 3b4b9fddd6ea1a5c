"""Checkpoints of dictionary-learning: a folder with config.json and ae.pt.

The layout is public in saprmarks/dictionary_learning, dictionary_learning/utils.py, dictionary.py and
trainers/{top_k,batch_top_k,matryoshka_batch_top_k,jumprelu}.py. config.json says the class in
trainer.dict_class and k in trainer.k; ae.pt is a state dict. Linear layers store `encoder.weight` (D, d)
and `decoder.weight` (d, D), transposed to ours; JumpReluAutoEncoder and MatryoshkaBatchTopKSAE store
`W_enc` (d, D) and `W_dec` (D, d). AutoEncoder calls its shared bias `bias`, GatedAutoEncoder
`decoder_bias`, AutoEncoderNew `decoder.bias` (not taken off the input), the others `b_dec`. A `threshold`
below 0 was never set. The trainer folds its normalisation of activations into the biases before it saves.
"""

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes.activation import Activation
from pipeline.saes.foreign import Tensors, gate_threshold, read_config
from pipeline.saes.sae import Sae

CONFIG, WEIGHTS = "config.json", "ae.pt"


class _Layout(NamedTuple):
    """Where a class keeps its tensors, which one is the shared bias, and whether the input loses it."""

    linear: bool
    bias: str
    centred: bool


LAYOUTS = {
    "AutoEncoder": _Layout(True, "bias", True),
    "AutoEncoderNew": _Layout(True, "decoder.bias", False),
    "GatedAutoEncoder": _Layout(True, "decoder_bias", True),
    "AutoEncoderTopK": _Layout(True, "b_dec", True),
    "BatchTopKSAE": _Layout(True, "b_dec", True),
    "MatryoshkaBatchTopKSAE": _Layout(False, "b_dec", True),
    "JumpReluAutoEncoder": _Layout(False, "b_dec", False),
}


def read(path: Path) -> Sae:
    """Read the folder, or its weight file with config.json beside it.

    AutoEncoderTopK selects k of each row; BatchTopKSAE and MatryoshkaBatchTopKSAE apply their threshold,
    as their `encode` does. Raises AssayError, naming file and key, for an unknown class, a TopK without k
    or with two, and missing or misshapen tensors.
    """
    folder = path if path.is_dir() else path.parent
    trainer = read_config(folder / CONFIG).get("trainer")
    where = folder / CONFIG
    if not isinstance(trainer, dict) or trainer.get("dict_class") not in LAYOUTS:
        found = trainer.get("dict_class") if isinstance(trainer, dict) else None
        raise AssayError(
            f"{where}: trainer.dict_class={found!r} is not supported; supported: {', '.join(LAYOUTS)}"
        )
    name = trainer["dict_class"]
    tensors = Tensors(folder / WEIGHTS if path.is_dir() else path)
    encoder, decoder, bias = _weights(name, tensors)
    return Sae(
        variant="file",
        activation=_activation(name, where, trainer, tensors),
        decoder=decoder,
        decoder_bias=tensors[LAYOUTS[name].bias],
        encoder=encoder,
        encoder_bias=bias,
        normalisation="none",
        centred=LAYOUTS[name].centred,
        settings={"format": "dictionary_learning", "architecture": name, **_origin(trainer)},
    )


def _weights(name: str, tensors: Tensors) -> tuple[Tensor, Tensor, Tensor]:
    if not LAYOUTS[name].linear:
        encoder = tensors.matrix("W_enc")
        return encoder, tensors.matrix("W_dec", (encoder.shape[1], encoder.shape[0])), tensors["b_enc"]
    stored = tensors.matrix("encoder.weight")
    decoder = tensors.matrix("decoder.weight", (stored.shape[1], stored.shape[0])).T.contiguous()
    encoder = stored.T.contiguous()
    if name == "GatedAutoEncoder":
        return encoder * tensors["r_mag"].exp(), decoder, tensors["mag_bias"]
    return encoder, decoder, tensors["encoder.bias"]


def _activation(name: str, where: Path, trainer: dict[str, Any], tensors: Tensors) -> Activation:
    if name in ("AutoEncoder", "AutoEncoderNew"):
        return Activation("relu")
    if name == "GatedAutoEncoder":
        return Activation(
            "threshold",
            threshold=gate_threshold(tensors["gate_bias"], tensors["mag_bias"], tensors["r_mag"]),
        )
    if name == "JumpReluAutoEncoder":
        return Activation("threshold", threshold=tensors["threshold"])
    k = _k(where, trainer, tensors)
    if name == "AutoEncoderTopK":
        return Activation("topk", k=k)
    return Activation("threshold", k=k, threshold=tensors["threshold"].reshape(1))


def _k(where: Path, trainer: dict[str, Any], tensors: Tensors) -> int:
    """Return k of the config, or of the weights where the config has none."""
    stored = int(tensors.scalar("k")) if "k" in tensors else None
    said = trainer.get("k", stored)
    if said is None:
        raise AssayError(f"{where}: a TopK SAE without trainer.k, and no tensor k in the weights; add it")
    if stored is not None and int(said) != stored:
        raise AssayError(f"{where}: trainer.k={said}, but the weights say k={stored}; correct one of them")
    return int(said)


def _origin(trainer: dict[str, Any]) -> dict[str, Any]:
    found = {"model_name": trainer.get("lm_name"), "layer": trainer.get("layer")}
    return {key: value for key, value in found.items() if value is not None}
