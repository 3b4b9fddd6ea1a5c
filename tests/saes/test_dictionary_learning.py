"""Checkpoints made here in the layout of dictionary-learning, against its forward pass written out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes.file import build
from tests.saes.examples import sparse_rows

D, N = 24, 40
ROWS = torch.from_numpy(sparse_rows(200, d=D))


def drawn(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    return {
        name.replace("__", "."): torch.randn(shape, generator=random) / 3 for name, shape in shapes.items()
    }


def linear(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return drawn(encoder__weight=(N, D), decoder__weight=(D, N), **shapes)


def write(folder: Path, dict_class: str, state: dict[str, Tensor], **trainer: Any) -> Path:
    folder.mkdir(exist_ok=True)
    config = {
        "trainer": {"dict_class": dict_class, "lm_name": "a-model", "layer": 3, **trainer},
        "buffer": {},
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.save(state, folder / "ae.pt")
    return folder


def agrees(folder: Path, codes: Tensor, reconstruction: Tensor) -> None:
    sae = build(D, path=folder)
    found = sae.encode(ROWS)
    assert ((found > 0) == (codes > 0)).all()
    assert 0 < (codes > 0).double().mean() < 1
    assert found.numpy() == pytest.approx(codes.numpy(), abs=2e-5)
    assert sae.reconstruct(ROWS).numpy() == pytest.approx(reconstruction.numpy(), abs=1e-4)
    assert sae.settings["format"] == "dictionary_learning"
    assert (sae.settings["model_name"], sae.settings["layer"]) == ("a-model", 3)


def test_an_autoencoder_takes_its_bias_off_and_adds_it_again(tmp_path: Path) -> None:
    w = linear(encoder__bias=(N,), bias=(D,))
    codes = ((ROWS - w["bias"]) @ w["encoder.weight"].T + w["encoder.bias"]).relu()
    folder = write(tmp_path / "sae", "AutoEncoder", w)
    agrees(folder, codes, codes @ w["decoder.weight"].T + w["bias"])


def test_a_new_autoencoder_takes_nothing_off_its_input(tmp_path: Path) -> None:
    w = linear(encoder__bias=(N,), decoder__bias=(D,))
    codes = (ROWS @ w["encoder.weight"].T + w["encoder.bias"]).relu()
    folder = write(tmp_path / "sae", "AutoEncoderNew", w)
    agrees(folder, codes, codes @ w["decoder.weight"].T + w["decoder.bias"])


def test_a_topk_autoencoder_selects_rows_whatever_its_threshold(tmp_path: Path) -> None:
    w = linear(encoder__bias=(N,), b_dec=(D,)) | {"k": torch.tensor(5), "threshold": torch.tensor(9.0)}
    pre = (ROWS - w["b_dec"]) @ w["encoder.weight"].T + w["encoder.bias"]
    kept = pre.relu().topk(5, dim=1)
    codes = torch.zeros_like(pre).scatter(1, kept.indices, kept.values)
    folder = write(tmp_path / "sae", "AutoEncoderTopK", w, k=5)
    agrees(folder, codes, codes @ w["decoder.weight"].T + w["b_dec"])


@pytest.mark.parametrize("threshold", [0.8, -1.0])
def test_a_batchtopk_sae_applies_its_threshold_and_one_never_set_is_relu(
    threshold: float, tmp_path: Path
) -> None:
    w = linear(encoder__bias=(N,), b_dec=(D,)) | {"k": torch.tensor(5), "threshold": torch.tensor(threshold)}
    pre = ((ROWS - w["b_dec"]) @ w["encoder.weight"].T + w["encoder.bias"]).relu()
    codes = pre * (pre > threshold)
    folder = write(tmp_path / "sae", "BatchTopKSAE", w, k=5)
    agrees(folder, codes, codes @ w["decoder.weight"].T + w["b_dec"])
    assert build(D, path=folder).activation.k == 5


def test_a_matryoshka_sae_stores_its_matrices_as_we_do(tmp_path: Path) -> None:
    w = drawn(W_enc=(D, N), W_dec=(N, D), b_enc=(N,), b_dec=(D,))
    w |= {"k": torch.tensor(5), "threshold": torch.tensor(0.8), "group_sizes": torch.tensor([10, 30])}
    pre = ((ROWS - w["b_dec"]) @ w["W_enc"] + w["b_enc"]).relu()
    codes = pre * (pre > 0.8)
    folder = write(tmp_path / "sae", "MatryoshkaBatchTopKSAE", w, k=5)
    agrees(folder, codes, codes @ w["W_dec"] + w["b_dec"])


def test_a_jumprelu_autoencoder_takes_nothing_off_its_input(tmp_path: Path) -> None:
    w = drawn(W_enc=(D, N), W_dec=(N, D), b_enc=(N,), b_dec=(D,)) | {"threshold": torch.linspace(0, 2, N)}
    pre = ROWS @ w["W_enc"] + w["b_enc"]
    codes = (pre * (pre > w["threshold"])).relu()
    agrees(write(tmp_path / "sae", "JumpReluAutoEncoder", w), codes, codes @ w["W_dec"] + w["b_dec"])


def test_a_gated_autoencoder(tmp_path: Path) -> None:
    w = linear(decoder_bias=(D,), r_mag=(N,), gate_bias=(N,), mag_bias=(N,))
    u = (ROWS - w["decoder_bias"]) @ w["encoder.weight"].T
    codes = (u + w["gate_bias"] > 0) * (w["r_mag"].exp() * u + w["mag_bias"]).relu()
    folder = write(tmp_path / "sae", "GatedAutoEncoder", w)
    agrees(folder, codes, codes @ w["decoder.weight"].T + w["decoder_bias"])


def test_names_left_by_a_compiled_training_are_read(tmp_path: Path) -> None:
    w = linear(encoder__bias=(N,), bias=(D,))
    plain = build(D, path=write(tmp_path / "a", "AutoEncoder", w))
    compiled = {f"_orig_mod.{name}": value for name, value in w.items()}
    folder = write(tmp_path / "b", "AutoEncoder", compiled)
    assert torch.equal(build(D, path=folder).encode(ROWS), plain.encode(ROWS))


def test_a_topk_that_does_not_say_so_or_has_two_ks_is_an_error(tmp_path: Path) -> None:
    w = linear(encoder__bias=(N,), b_dec=(D,))
    with pytest.raises(AssayError, match=r"a TopK SAE without trainer.k"):
        build(D, path=write(tmp_path / "a", "AutoEncoderTopK", w))
    with pytest.raises(AssayError, match=r"trainer.k=6, but the weights say k=5"):
        build(D, path=write(tmp_path / "b", "AutoEncoderTopK", w | {"k": torch.tensor(5)}, k=6))
    folder = write(tmp_path / "c", "AutoEncoderTopK", w, k=5)
    (folder / "config.json").write_text("{}")
    with pytest.raises(AssayError, match=r"trainer.dict_class=None is not supported"):
        build(D, path=folder)
    (folder / "config.json").unlink()
    with pytest.raises(AssayError, match="is no known SAE"):
        build(D, path=folder)


def test_a_pickled_object_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "sae", "AutoEncoder", {})
    torch.save(torch.nn.Linear(2, 2), folder / "ae.pt")
    with pytest.raises(AssayError, match="not a weight file that can be read safely"):
        build(D, path=folder)
