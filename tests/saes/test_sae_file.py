from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline.errors import AssayError
from pipeline.saes import storage
from pipeline.saes.file import build
from pipeline.saes.training import fit_together
from tests.saes.examples import Rows, settings


def test_an_sae_of_ours_is_read_from_its_file_or_folder_with_the_same_codes(
    train: Rows, validation: Rows, tmp_path: Path
) -> None:
    one = fit_together(train[:300], validation, [settings("batchtopk", epochs=2)])[0]
    path = tmp_path / "sae.safetensors"
    one.sae.save(path)
    for where in (path, tmp_path):
        for form in ("auto", "assay"):
            sae = build(24, path=where, format=form)
            assert torch.equal(sae.encode(validation), one.sae.encode(validation))
            assert sae.variant == "file"
            assert sae.settings["architecture"] == "batchtopk"
            assert str(tmp_path) not in str(sae.settings)
    read = fit_together(train, validation, [{"name": "file", "path": path, "format": "auto"}])[0]
    assert read.facts["validation"] == one.facts["validation"]
    assert (read.facts["variant"], read.facts["k"], read.facts["seed"]) == ("file", 6, None)


def test_equal_saes_are_equal_files(tmp_path: Path) -> None:
    """The library alone writes its metadata in a random order: 1 of 6 for three names."""
    tensors = {name: torch.arange(6.0).reshape(2, 3) for name in ("encoder", "decoder", "é")}
    header = {"settings": {"name": 'a "quoted" \\ line\n, ü, \x7f'}, "variant": "topk"}
    for number in range(12):
        storage.write(tmp_path / f"{number}.safetensors", tensors, header)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    found = load_file(tmp_path / "0.safetensors")
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in tensors.items()
    }


def test_a_path_that_holds_no_sae_is_an_error_that_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="does not exist"):
        build(24, path=tmp_path / "gone")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(AssayError, match=r"is no known SAE.*\['notes.txt'\]"):
        build(24, path=tmp_path)
    with pytest.raises(AssayError, match="'onnx' is not known; choose from auto, assay"):
        build(24, path=tmp_path, format="onnx")


def test_an_sae_of_another_width_is_an_error(train: Rows, validation: Rows, tmp_path: Path) -> None:
    built = fit_together(train, validation, [settings("frozen")])[0]
    built.sae.save(tmp_path / "sae.safetensors")
    with pytest.raises(AssayError, match="the SAE is of 24 features, the activations have 32"):
        build(32, path=tmp_path)
