"""Loading: what is asked of the library, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.errors import AssayError
from pipeline.vlms import llava
from pipeline.vlms.loading import load_parts

HUB = {"source": "hub", "tag": "llava-hf/llava-1.5-7b-hf", "revision": "0" * 40}


class Recorder:
    """Stands for a class of transformers and remembers how it was called."""

    calls: list[tuple[str, dict[str, Any]]]

    def __init__(self) -> None:
        self.calls = []

    def from_pretrained(self, place: str, **settings: Any) -> Any:
        self.calls.append((place, settings))
        report = {"missing_keys": [], "mismatched_keys": []}
        return (torch.nn.Linear(1, 1), report) if "output_loading_info" in settings else "processor"


def parts(model: Any, processor: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
    return load_parts(model, processor, weights=weights, attention="eager", dtype="bfloat16", device="cpu")


def test_the_hub_is_read_at_its_commit_without_pickle_and_without_foreign_code() -> None:
    model, processor = Recorder(), Recorder()
    module, made = parts(model, processor, HUB)
    assert not module.training
    assert made == "processor"
    (place, settings), (other, rest) = model.calls[0], processor.calls[0]
    assert place == other == HUB["tag"]
    assert settings["revision"] == rest["revision"] == HUB["revision"]
    assert settings["use_safetensors"] is True
    assert settings["attn_implementation"] == "eager"
    assert settings["dtype"] == torch.bfloat16
    assert not settings.get("trust_remote_code")


def test_a_hub_that_does_not_answer_is_named() -> None:
    class Offline:
        @staticmethod
        def from_pretrained(place: str, **settings: Any) -> Any:
            raise OSError("offline")

    with pytest.raises(AssayError, match=r"llava-hf/llava-1\.5-7b-hf cannot be loaded \(OSError: offline\)"):
        parts(Offline, Offline, HUB)


def test_a_missing_tensor_is_named_not_drawn_anew(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "llava"
    shutil.copytree(folders["llava"], folder)
    state = load_file(folder / "model.safetensors")
    lost = next(name for name in state if "linear_1.weight" in name)
    kept = {name: value for name, value in state.items() if name != lost}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssayError, match=r"1 tensors of LlavaForConditionalGeneration are missing.*linear_1"):
        llava.load(weights={"source": "folder", "path": folder})


def test_pickled_weights_are_not_read(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "llava"
    shutil.copytree(folders["llava"], folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(AssayError, match="cannot be loaded"):
        llava.load(weights={"source": "folder", "path": folder})
