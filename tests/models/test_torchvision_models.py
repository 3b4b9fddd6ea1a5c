from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torchvision import models
from torchvision.models.vision_transformer import VisionTransformer

from pipeline.errors import AssayError
from pipeline.models import torchvision as ours
from pipeline.models.capture import capture

RANDOM = {"source": "random", "seed": 1}


def test_the_transform_is_that_of_the_weights_and_scales_with_the_input_size() -> None:
    entry = models.ResNet18_Weights.IMAGENET1K_V1
    picture = Image.effect_noise((300, 260), 50).convert("RGB")
    whole = ours.load(arch="resnet18", weights=RANDOM, input_size=None)
    assert whole.input_size == 224 and whole.n_prefix_tokens == 0 and not whole.module.training
    torch.testing.assert_close(whole.transform(picture), entry.transforms()(picture))
    half = ours.load(arch="resnet18", weights=RANDOM, input_size=112)
    assert half.transform(picture).shape == (3, 112, 112)
    assert half.transform.resize_size == [128]  # type: ignore[attr-defined]


def test_a_file_is_loaded_by_name_or_by_order(tmp_path: Path) -> None:
    module = ours.load(arch="resnet18", weights=RANDOM, input_size=None).module
    state = module.state_dict()
    torch.save(state, tmp_path / "name.pth")
    kept = [v for k, v in state.items() if "num_batches" not in k]
    torch.save({f"x{i}": v for i, v in enumerate(kept)}, tmp_path / "order.pth")
    x = torch.randn(1, 3, 64, 64)
    for match in ("name", "order"):
        weights = {"source": "file", "path": tmp_path / f"{match}.pth", "match": match}
        assert torch.equal(ours.load(arch="resnet18", weights=weights, input_size=None).module(x), module(x))
    with pytest.raises(AssayError, match=r"order.pth.*do not fit by name"):
        ours.load(
            arch="resnet18", weights={"source": "file", "path": tmp_path / "order.pth"}, input_size=None
        )


def test_weights_that_torchvision_names_are_downloaded_with_their_checksum_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = models.resnet18().state_dict()
    asked: list[dict[str, Any]] = []

    def download(url: str, **arguments: Any) -> Any:
        asked.append({"url": url, **arguments})
        return state

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", download)
    weights = {"source": "torchvision", "tag": "IMAGENET1K_V1"}
    loaded = ours.load(arch="resnet18", weights=weights, input_size=None)
    assert torch.equal(loaded.module.state_dict()["fc.weight"], state["fc.weight"])
    assert "f37072fd" in asked[0]["url"] and asked[0]["check_hash"]


def test_a_download_that_fails_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", download)
    weights = {"source": "torchvision", "tag": "DEFAULT"}
    with pytest.raises(AssayError, match=r"resnet18-f37072fd.pth cannot be downloaded.*weights.source=file"):
        ours.load(arch="resnet18", weights=weights, input_size=None)


def test_an_unknown_architecture_or_tag_lists_what_there_is() -> None:
    with pytest.raises(AssayError, match="resnet50"):
        ours.load(arch="resnet5", weights=RANDOM, input_size=None)
    with pytest.raises(AssayError, match="IMAGENET1K_V1"):
        ours.load(arch="resnet18", weights={"source": "torchvision", "tag": "V9"}, input_size=None)


def test_positions_of_a_vision_transformer_are_resized_to_the_input() -> None:
    small = VisionTransformer(32, 16, 1, 2, 8, 16)
    large = VisionTransformer(64, 16, 1, 2, 8, 16)
    large.load_state_dict(ours._resized(large, small.state_dict()))
    assert large.encoder.pos_embedding.shape == (1, 17, 8)
    assert torch.equal(large.encoder.pos_embedding[:, 0], small.encoder.pos_embedding[:, 0])


def test_the_papers_layer_of_vit_b_16_has_3072_units_at_the_class_token() -> None:
    loaded = ours.load(arch="vit_b_16", weights=RANDOM, input_size=32)
    assert loaded.n_prefix_tokens == 1
    layer = "encoder.layers.encoder_layer_11.mlp.1"
    with torch.inference_mode(), capture(loaded.module, [layer], "cls", n_prefix_tokens=1) as forward:
        assert forward(torch.randn(2, 3, 32, 32))[layer].shape == (2, 3072)
