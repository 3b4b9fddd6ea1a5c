import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pipeline.errors import AssayError
from pipeline.saes import frozen, numerics, random
from pipeline.saes.activation import Activation
from pipeline.saes.encoding import encode_csr
from pipeline.saes.sae import BLOCK, Sae, load
from tests.saes.examples import Rows


def thresholded(d: int) -> Sae:
    base = frozen.build(d, dictionary_size=50, k=4)
    activation = Activation("threshold", threshold=torch.linspace(0.1, 2, 50))
    return Sae("jumprelu", activation, base.decoder, torch.ones(d) / 7, base.encoder, torch.ones(50) / 9)


SAES: dict[str, Callable[[int], Sae]] = {
    "frozen": lambda d: frozen.build(d, dictionary_size=50, k=4, seed=1),
    "random": lambda d: random.build(d, dictionary_size=50, k=4, seed=1),
    "threshold": thresholded,
}
every_sae = pytest.mark.parametrize("make", SAES.values(), ids=SAES)


@every_sae
def test_a_row_alone_has_the_codes_of_the_row_in_a_batch_to_the_bit(
    make: Callable[[int], Sae], train: Rows
) -> None:
    sae, rows = make(train.shape[1]), train[: 2 * BLOCK + 33]
    codes = sae.encode(rows)
    for row in (0, 1, BLOCK - 1, BLOCK, 2 * BLOCK, len(rows) - 1):
        assert torch.equal(sae.encode(rows[row : row + 1])[0], codes[row])
    order = np.random.default_rng(0).permutation(len(rows))
    assert torch.equal(sae.encode(rows[order]), codes[torch.from_numpy(order)])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_wide_row_alone_equals_the_row_in_a_batch_with_any_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics, "THREADED", 0)
    rows = np.random.default_rng(0).standard_normal((130, 768)).astype(np.float32)
    sae = frozen.build(768, dictionary_size=1025, k=32)
    codes = encode_csr(sae, rows, threads=threads)
    for row in (0, 64, 127, 128, 129):
        alone = encode_csr(sae, rows[row : row + 1], threads=threads)
        assert (alone.toarray()[0] == codes[[row]].toarray()[0]).all()


@every_sae
def test_sparse_codes_are_the_dense_ones(make: Callable[[int], Sae], train: Rows) -> None:
    sae = make(train.shape[1])
    for n in (0, 1, BLOCK, BLOCK + 5):
        codes = encode_csr(sae, train[:n])
        assert codes.shape == (n, 50)
        assert codes.dtype == np.float32
        assert (codes.data > 0).all()
        assert codes.has_sorted_indices
        assert (codes.toarray() == sae.encode(train[:n]).numpy()).all()


def test_codes_of_a_memory_mapped_file_and_of_half_precision_rows(train: Rows, tmp_path: Path) -> None:
    sae, rows = SAES["threshold"](train.shape[1]), train[:200]
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r", allow_pickle=False)
    assert (encode_csr(sae, mapped) != encode_csr(sae, rows)).nnz == 0
    half = rows.astype(np.float16)
    assert (encode_csr(sae, half) != encode_csr(sae, half.astype(np.float32))).nnz == 0


@every_sae
def test_an_sae_read_back_gives_the_same_codes_and_says_what_it_is(
    make: Callable[[int], Sae], train: Rows, tmp_path: Path
) -> None:
    sae, path = make(train.shape[1]), tmp_path / "sae.safetensors"
    sae.save(path)
    again = load(path)
    assert torch.equal(again.encode(train[:200]), sae.encode(train[:200]))
    assert torch.equal(again.reconstruct(train[:200]), sae.reconstruct(train[:200]))
    assert (again.variant, again.settings, again.normalisation) == (
        sae.variant,
        sae.settings,
        sae.normalisation,
    )
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    header = json.loads(metadata["sae"])
    assert (metadata["format"], metadata["version"]) == ("assay.sae", "1")
    assert (header["d"], header["dictionary_size"]) == (train.shape[1], 50)
    assert header["activation"]["kind"] == sae.activation.kind


def rewritten(path: Path, change: Callable[[dict[str, Any]], None], **metadata: str) -> None:
    with safe_open(path, framework="pt") as file:
        old = dict(file.metadata())
    header = json.loads(old["sae"])
    change(header)
    tensors = load_file(path)
    save_file(tensors, path, metadata={**old, "sae": json.dumps(header), **metadata})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["activation"].pop("kind"), "lacks its kind"),
        (lambda h: h["activation"].pop("k"), "'topk' lacks k"),
        (lambda h: h.pop("activation"), "header lacks activation"),
        (lambda h: h.pop("normalisation"), "header lacks normalisation"),
        (lambda h: h.update(dictionary_size=51), "the header says 24 x 51, the decoder is 24 x 50"),
    ],
)
def test_a_topk_file_that_lacks_what_it_needs_is_an_error(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "sae.safetensors"
    SAES["frozen"](24).save(path)
    rewritten(path, change)
    with pytest.raises(AssayError, match=rf"sae\.safetensors.*{message}"):
        load(path)


def test_another_version_format_or_content_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "sae.safetensors"
    SAES["frozen"](24).save(path)
    rewritten(path, lambda header: None, version="2")
    with pytest.raises(AssayError, match="version 2"):
        load(path)
    save_file({"decoder": torch.ones(2, 2)}, path)
    with pytest.raises(AssayError, match="format None"):
        load(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(AssayError, match="not a safetensors file"):
        load(path)
    with pytest.raises(AssayError, match="is not a file"):
        load(tmp_path / "gone.safetensors")


def test_weights_that_are_not_finite_or_do_not_fit_are_errors(tmp_path: Path) -> None:
    sae, path = SAES["frozen"](24), tmp_path / "sae.safetensors"
    sae.decoder[0, 0] = torch.nan
    sae.save(path)
    with pytest.raises(AssayError, match="decoder holds NaN"):
        load(path)
    with pytest.raises(AssayError, match=r"encoder is \(3, 5\), not \(4, 5\)"):
        Sae("topk", Activation("topk", k=1), torch.ones(5, 4), torch.ones(4), torch.ones(3, 5))


def test_rows_that_do_not_fit_or_hold_nan_are_errors_that_name_the_row(train: Rows) -> None:
    sae, rows = SAES["frozen"](train.shape[1]), train[:300].copy()
    with pytest.raises(AssayError, match=r"\(300, 23\) do not fit an SAE of 24 features"):
        sae.encode(rows[:, :23])
    rows[200, 3] = np.inf
    with pytest.raises(AssayError, match="row 200 holds NaN or infinity"):
        sae.encode(rows)


def test_the_reconstruction_is_in_the_inputs_own_space(train: Rows) -> None:
    sae = SAES["threshold"](train.shape[1])
    rows = torch.from_numpy(train[:50])
    mean, scale = rows.mean(dim=1, keepdim=True), rows.std(dim=1, keepdim=True) + 1e-5
    expected = (sae.encode(rows) @ sae.decoder + sae.decoder_bias) * scale + mean
    assert sae.reconstruct(rows).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
