"""Checkpoints made here in the layout of sae-lens, against its forward pass written out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes import sae_lens
from pipeline.saes.file import build
from tests.saes.examples import sparse_rows

D, N = 24, 40
ROWS = torch.from_numpy(sparse_rows(200, d=D))


def weights(**more: Tensor) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    drawn = {
        "W_enc": (D, N),
        "W_dec": (N, D),
        "b_enc": (N,),
        "b_dec": (D,),
    }
    return {name: torch.randn(shape, generator=random) / 3 for name, shape in drawn.items()} | more


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    base = {"d_in": D, "d_sae": N, "dtype": "float32", "device": "cpu", "apply_b_dec_to_input": True}
    (folder / "cfg.json").write_text(json.dumps(base | {"normalize_activations": "none"} | config))
    save_file(
        {name: value.contiguous() for name, value in tensors.items()}, folder / "sae_weights.safetensors"
    )
    return folder


def agrees(folder: Path, codes: Tensor, reconstruction: Tensor) -> None:
    sae = build(D, path=folder)
    found = sae.encode(ROWS)
    assert ((found > 0) == (codes > 0)).all()
    assert 0 < (codes > 0).double().mean() < 1
    assert found.numpy() == pytest.approx(codes.numpy(), abs=2e-5)
    assert sae.reconstruct(ROWS).numpy() == pytest.approx(reconstruction.numpy(), abs=1e-4)
    assert sae.variant == "file"
    assert sae.settings["format"] == "sae_lens"


def top(pre: Tensor, k: int) -> Tensor:
    kept = pre.topk(k, dim=1)
    return torch.zeros_like(pre).scatter(1, kept.indices, kept.values.relu())


def test_a_standard_sae(tmp_path: Path) -> None:
    w = weights()
    codes = ((ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"]).relu()
    folder = write(tmp_path / "sae", {"architecture": "standard", "activation_fn_str": "relu"}, w)
    agrees(folder, codes, codes @ w["W_dec"] + w["b_dec"])


def test_a_topk_sae_of_version_6_and_one_whose_k_is_in_the_activations_arguments(tmp_path: Path) -> None:
    w = weights()
    codes = top((ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"], 5)
    for config in (
        {"architecture": "topk", "k": 5},
        {"architecture": "topk", "activation_fn": "topk", "activation_fn_kwargs": {"k": 5}},
        {"architecture": "standard", "activation_fn_str": "topk", "activation_fn_kwargs": {"k": 5}},
    ):
        agrees(write(tmp_path / "sae", config, w), codes, codes @ w["W_dec"] + w["b_dec"])


def test_a_topk_sae_whose_codes_are_rescaled_by_the_decoders_norms(tmp_path: Path) -> None:
    w = weights()
    lengths = w["W_dec"].norm(dim=1)
    codes = top(((ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"]) * lengths, 5)
    folder = write(
        tmp_path / "sae", {"architecture": "topk", "k": 5, "rescale_acts_by_decoder_norm": True}, w
    )
    agrees(folder, codes, (codes / lengths) @ w["W_dec"] + w["b_dec"])


def test_a_jumprelu_sae_that_does_not_centre_its_input(tmp_path: Path) -> None:
    w = weights(threshold=torch.linspace(0, 3, N))
    pre = ROWS @ w["W_enc"] + w["b_enc"]
    codes = pre.relu() * (pre > w["threshold"])
    config = {"architecture": "jumprelu", "apply_b_dec_to_input": False}
    agrees(write(tmp_path / "sae", config, w), codes, codes @ w["W_dec"] + w["b_dec"])


def test_jumprelu_and_batchtopk_from_the_middle_of_a_training(tmp_path: Path) -> None:
    w = weights(log_threshold=torch.linspace(-1, 1, N))
    pre = (ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"]
    codes = pre.relu() * (pre > w["log_threshold"].exp())
    agrees(write(tmp_path / "a", {"architecture": "jumprelu"}, w), codes, codes @ w["W_dec"] + w["b_dec"])
    w = weights(topk_threshold=torch.tensor(1.5, dtype=torch.float64))
    codes = pre.relu() * (pre > 1.5)
    config = {"architecture": "batchtopk", "k": 4.5}
    agrees(write(tmp_path / "b", config, w), codes, codes @ w["W_dec"] + w["b_dec"])


def test_a_gated_sae(tmp_path: Path) -> None:
    w = weights(
        b_gate=torch.linspace(-2, 2, N), b_mag=torch.linspace(1, -1, N), r_mag=torch.linspace(-1, 1, N)
    )
    del w["b_enc"]
    centred = ROWS - w["b_dec"]
    gate = centred @ w["W_enc"] + w["b_gate"] > 0
    codes = gate * (centred @ (w["W_enc"] * w["r_mag"].exp()) + w["b_mag"]).relu()
    agrees(write(tmp_path / "sae", {"architecture": "gated"}, w), codes, codes @ w["W_dec"] + w["b_dec"])


def test_layer_norm_and_constant_norm_of_the_input(tmp_path: Path) -> None:
    w = weights()
    mean = ROWS.mean(dim=1, keepdim=True)
    deviation = (ROWS - mean).std(dim=1, keepdim=True)
    codes = (((ROWS - mean) / (deviation + 1e-5) - w["b_dec"]) @ w["W_enc"] + w["b_enc"]).relu()
    folder = write(tmp_path / "a", {"normalize_activations": "layer_norm"}, w)
    agrees(folder, codes, (codes @ w["W_dec"] + w["b_dec"]) * deviation + mean)
    factor = D**0.5 / ROWS.norm(dim=1, keepdim=True)
    codes = ((ROWS * factor - w["b_dec"]) @ w["W_enc"] + w["b_enc"]).relu()
    folder = write(tmp_path / "b", {"normalize_activations": "constant_norm_rescale"}, w)
    agrees(folder, codes, (codes @ w["W_dec"] + w["b_dec"]) / factor)


def test_a_finetuned_scale_reaches_the_reconstruction_and_not_the_codes(tmp_path: Path) -> None:
    w = weights(finetuning_scaling_factor=torch.linspace(0.5, 2, N))
    codes = ((ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"]).relu()
    folder = write(tmp_path / "sae", {"finetuning_scaling_factor": True}, w)
    agrees(folder, codes, (codes * w["finetuning_scaling_factor"]) @ w["W_dec"] + w["b_dec"])


def test_half_precision_weights_and_where_the_sae_comes_from(tmp_path: Path) -> None:
    w = {name: value.to(torch.bfloat16) for name, value in weights().items()}
    config = {"dtype": "bfloat16", "metadata": {"model_name": "clip", "hook_name": "blocks.3"}}
    sae = build(D, path=write(tmp_path / "sae", config, w))
    assert sae.encoder is not None
    assert sae.encoder.dtype == torch.float32
    assert torch.equal(sae.encoder, w["W_enc"].float())
    assert (sae.settings["model_name"], sae.settings["hook_name"]) == ("clip", "blocks.3")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architecture": "topk"}, "a TopK SAE without k"),
        ({"architecture": "temporal"}, "architecture='temporal' is not supported"),
        ({"activation_fn": "tanh-relu"}, "activation_fn='tanh-relu' is not supported"),
        ({"normalize_activations": "expected_average_only_in"}, "needs a factor"),
        ({"normalize_activations": True}, "needs a factor"),
        ({"architecture": "jumprelu"}, "the tensor threshold is missing"),
    ],
)
def test_what_cannot_be_read_faithfully_is_an_error(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(AssayError, match=message):
        build(D, path=write(tmp_path / "sae", config, weights()))


def test_a_transposed_decoder_weights_with_nan_and_no_config_are_errors(tmp_path: Path) -> None:
    w = weights()
    with pytest.raises(AssayError, match=r"W_dec is \(24, 40\), not \(40, 24\); is it transposed"):
        build(D, path=write(tmp_path / "a", {}, w | {"W_dec": w["W_dec"].T}))
    with pytest.raises(AssayError, match="W_enc holds NaN"):
        build(D, path=write(tmp_path / "b", {}, w | {"W_enc": w["W_enc"] * np.nan}))
    folder = write(tmp_path / "c", {}, w)
    (folder / "cfg.json").unlink()
    with pytest.raises(AssayError, match=r"cfg.json is missing: it says which activation"):
        sae_lens.read(folder)
