"""Loading: what is asked of the library, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.errors import AssayError
from pipeline.vlms import internvl, llava, qwen2_5_vl
from pipeline.vlms.loading import load_parts

HUB = {"source": "hub", "tag": "llava-hf/llava-1.5-7b-hf", "revision": "0" * 40}


class Recorder:
    """Stands for a class of transformers and remembers how it was called."""

    calls: list[tuple[str, dict[str, Any]]]
    model_type = "llava"

    def __init__(self, found: str = "llava") -> None:
        self.calls = []
        self.found = found

    @property
    def config_class(self) -> "Recorder":
        return self

    def get_config_dict(self, place: str, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        self.calls.append((place, settings))
        return {"model_type": self.found}, {}

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
    (first, looked), (place, settings) = model.calls
    ((other, rest),) = processor.calls
    assert first == place == other == HUB["tag"]
    assert looked["revision"] == settings["revision"] == rest["revision"] == HUB["revision"]
    assert settings["use_safetensors"] is True
    assert settings["attn_implementation"] == "eager"
    assert settings["dtype"] == torch.bfloat16
    assert not settings.get("trust_remote_code")


def test_another_kind_of_model_is_refused_before_its_weights_are_read() -> None:
    model = Recorder(found="llava_next")
    with pytest.raises(AssayError, match=r"1\.5-7b-hf holds a model of the type 'llava_next', and vlm=llava"):
        parts(model, Recorder(), HUB)
    assert len(model.calls) == 1


def test_the_folder_of_another_model_is_refused(folders: dict[str, Path]) -> None:
    for module, other in ((llava, "internvl"), (internvl, "qwen2_5_vl"), (qwen2_5_vl, "llava")):
        with pytest.raises(AssayError, match=rf"holds a model of the type '{other}'"):
            module.load(weights={"source": "folder", "path": folders[other]})


def test_a_folder_without_processor_files_is_named_in_one_sentence(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "llava"
    shutil.copytree(folders["llava"], folder)
    (folder / "processor_config.json").unlink()
    with pytest.raises(
        AssayError, match=r"Can't load image processor for '\S+llava'\); check that model"
    ) as told:
        llava.load(weights={"source": "folder", "path": folder})
    assert "huggingface.co" not in str(told.value)


def test_a_hub_that_does_not_answer_is_named() -> None:
    class Offline(Recorder):
        @staticmethod
        def from_pretrained(place: str, **settings: Any) -> Any:
            raise OSError("offline")

    with pytest.raises(AssayError, match=r"llava-hf/llava-1\.5-7b-hf cannot be loaded \(OSError: offline\)"):
        parts(Offline(), Offline(), HUB)


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
