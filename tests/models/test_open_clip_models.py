import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from open_clip import factory
from PIL import Image
from safetensors.torch import save_file

from pipeline.errors import AssayError
from pipeline.models import open_clip as ours
from pipeline.models import open_clip_weights
from pipeline.models.activations import write_activations
from pipeline.models.capture import capture
from pipeline.models.timm import load as load_timm
from pipeline.models.weights import seeded

TINY: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
ARCHS = {
    "tiny": TINY,
    "tiny-quickgelu": TINY | {"quick_gelu": True},
    "tiny-resnet": TINY
    | {"vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "head_width": 64}},
    "tiny-timm": TINY
    | {"vision_cfg": {"timm_model_name": "test_vit", "image_size": 64, "timm_pool": "token"}},
}
RANDOM = {"source": "random", "seed": 1}
QUICK_TAG = {"hf_hub": "org/tiny/", "quick_gelu": True, "mean": (0.5,) * 3, "std": (0.5,) * 3}


@pytest.fixture(autouse=True)
def architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The architectures of ARCHS beside the built-in ones, for one test."""
    monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", list(factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    folder = tmp_path / "configs"
    folder.mkdir()
    for name, config in ARCHS.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    return


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Any]:
    """Settings of weights in a file, made from a whole untrained model `tiny`."""
    path = tmp_path / "weights" / "m.safetensors"
    path.parent.mkdir()
    with seeded(5):
        save_file(open_clip.create_model("tiny").state_dict(), path)
    return {"source": "file", "path": path}


def tags(monkeypatch: pytest.MonkeyPatch, **entries: dict[str, Any]) -> None:
    monkeypatch.setattr(open_clip_weights, "list_pretrained_tags_by_model", lambda _: list(entries))
    monkeypatch.setattr(open_clip_weights, "get_pretrained_cfg", lambda _, tag: entries.get(tag, {}))


def outputs(loaded: Any, layer: str, pool: str, batch: torch.Tensor) -> torch.Tensor:
    with (
        torch.inference_mode(),
        capture(loaded.module, [layer], pool, n_prefix_tokens=loaded.n_prefix_tokens) as forward,
    ):
        return forward(batch)[layer]


def test_the_layer_visual_is_open_clips_embedding_before_it_is_scaled_to_length_one(
    saved: dict[str, Any], pictures: list[Image.Image], tmp_path: Path
) -> None:
    model, _, transform = open_clip.create_model_and_transforms("tiny", pretrained=str(saved["path"]))
    stacked = torch.stack([transform(picture) for picture in pictures])
    with torch.inference_mode():
        expected = model.eval().encode_image(stacked, normalize=False).numpy()
    loaded = ours.load(arch="tiny", weights=saved, input_size=None)
    write_activations(
        loaded, pictures, ["visual"], {"visual": tmp_path / "x.npy"}, pool="cls", dtype="float32",
        batch_size=4, workers=0, device="cpu", precision="float32", tf32=False, threads=1, progress=False,
    )  # fmt: skip
    got = np.load(tmp_path / "x.npy")
    assert got.shape == (11, 16)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert np.abs(np.linalg.norm(got, axis=1) - 1).min() > 0.01


def test_inner_layers_are_module_paths_with_images_first_and_the_class_token_at_zero() -> None:
    loaded = ours.load(arch="tiny", weights=RANDOM, input_size=None)
    visual: Any = loaded.module.visual
    batch = torch.randn(3, 3, 32, 32)
    with torch.inference_mode():
        tokens = visual.transformer.resblocks[0](visual._embeds(batch))
    layer = "visual.transformer.resblocks.0"
    assert tokens.shape == (3, 5, 64) and loaded.n_prefix_tokens == 1
    assert torch.equal(outputs(loaded, layer, "cls", batch), tokens[:, 0])
    torch.testing.assert_close(outputs(loaded, layer, "avg", batch), tokens[:, 1:].mean(1))
    assert outputs(loaded, f"{layer}.mlp.gelu", "max", batch).shape == (3, 256)


@pytest.mark.parametrize(
    ("arch", "layer", "pool", "n_units", "n_prefix_tokens"),
    [
        ("tiny-resnet", "visual.layer4", "avg", 256, 0),
        ("tiny-timm", "visual.trunk.blocks.0", "cls", 64, 1),
        ("tiny-timm", "visual", "none", 16, 1),
    ],
)
def test_other_towers_give_one_number_a_unit(
    arch: str, layer: str, pool: str, n_units: int, n_prefix_tokens: int
) -> None:
    loaded = ours.load(arch=arch, weights=RANDOM, input_size=None)
    size = loaded.input_size
    assert loaded.n_prefix_tokens == n_prefix_tokens and not loaded.module.training
    assert outputs(loaded, layer, pool, torch.randn(2, 3, size, size)).shape == (2, n_units)


def test_random_weights_follow_their_seed_and_leave_the_global_state_alone() -> None:
    before = torch.random.get_rng_state()
    one, again, other = (
        torch.cat([p.flatten() for p in ours.load(
            arch="tiny", weights={"source": "random", "seed": seed}, input_size=None
        ).module.parameters()])
        for seed in (1, 1, 2)
    )  # fmt: skip
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_another_input_size_resizes_positions_and_crop(saved: dict[str, Any]) -> None:
    loaded = ours.load(arch="tiny", weights=saved, input_size=64)
    assert loaded.input_size == 64
    assert loaded.transform(Image.new("RGB", (90, 70))).shape == (3, 64, 64)
    assert outputs(loaded, "visual", "cls", torch.randn(1, 3, 64, 64)).shape == (1, 16)


def test_hub_weights_are_asked_for_at_the_pinned_revision_and_normalised_as_their_tag_says(
    saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(repo_id: str, filename: str, revision: str | None = None, **_: object) -> str:
        asked.append((repo_id, filename, revision))
        return str(saved["path"])

    monkeypatch.setattr("open_clip.pretrained.hf_hub_download", download)
    tags(monkeypatch, openai=QUICK_TAG)
    weights = {"source": "hub", "tag": "openai", "revision": "a" * 40}
    loaded = ours.load(arch="tiny-quickgelu", weights=weights, input_size=None)
    assert asked == [("org/tiny", "open_clip_model.safetensors", "a" * 40)]
    white = loaded.transform(Image.new("RGB", (40, 60), "white"))
    torch.testing.assert_close(white, torch.ones(3, 32, 32))


def test_a_download_that_fails_names_repository_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr("open_clip.pretrained.hf_hub_download", download)
    weights = {"source": "hub", "tag": "openai", "revision": "b" * 40}
    with pytest.raises(
        AssayError, match=r"timm/vit_large_patch14_clip_224\.openai at revision b{40}.*source=file"
    ):
        ours.load(arch="ViT-L-14-quickgelu", weights=weights, input_size=None)


@pytest.mark.parametrize(
    ("arch", "tag", "message"),
    [
        ("ViT-L-14", "openai", r"with QuickGELU, and ViT-L-14 is built without .*ViT-L-14-quickgelu"),
        ("ViT-B-32-quickgelu", "laion2b_s34b_b79k", "ViT-B-32-quickgelu; it has"),
        ("ViT-B-32", "wrong", "laion2b_s34b_b79k"),
    ],
)
def test_a_tag_that_does_not_fit_the_architecture_names_what_does(arch: str, tag: str, message: str) -> None:
    weights = {"source": "hub", "tag": tag, "revision": "a" * 40}
    with pytest.raises(AssayError, match=message):
        ours.load(arch=arch, weights=weights, input_size=None)


def test_a_file_that_may_need_quickgelu_is_refused_until_its_config_says(
    saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tags(monkeypatch, openai=QUICK_TAG)
    with pytest.raises(AssayError, match=r"cannot be seen from them; put their open_clip_config\.json"):
        ours.load(arch="tiny", weights=saved, input_size=None)
    beside = saved["path"].parent / "open_clip_config.json"
    beside.write_text(json.dumps({"model_cfg": {"quick_gelu": True}}))
    with pytest.raises(AssayError, match=r"with QuickGELU.*use model\.arch=tiny-quickgelu"):
        ours.load(arch="tiny", weights=saved, input_size=None)
    ours.load(arch="tiny-quickgelu", weights=saved, input_size=None)
    beside.write_text(json.dumps({"model_cfg": {"quick_gelu": False}}))
    ours.load(arch="tiny", weights=saved, input_size=None)
    with pytest.raises(AssayError, match=r"without QuickGELU.*use model\.arch=tiny"):
        ours.load(arch="tiny-quickgelu", weights=saved, input_size=None)


def test_quickgelu_changes_what_the_same_weights_give(saved: dict[str, Any]) -> None:
    batch = torch.randn(2, 3, 32, 32)
    plain, quick = (
        outputs(ours.load(arch=arch, weights=saved, input_size=None), "visual", "cls", batch)
        for arch in ("tiny", "tiny-quickgelu")
    )
    assert (plain - quick).abs().max() > 1e-4


def test_the_folder_of_a_file_says_how_images_are_normalised_or_it_must(
    saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tags(monkeypatch, a={"mean": (0.5,) * 3}, b={"mean": (0.4,) * 3})
    with pytest.raises(AssayError, match="differ in how images are normalised"):
        ours.load(arch="tiny", weights=saved, input_size=None)
    half = {"mean": [0.5] * 3, "std": [0.5] * 3, "resize_mode": "squash"}
    (saved["path"].parent / "open_clip_config.json").write_text(json.dumps({"preprocess_cfg": half}))
    loaded = ours.load(arch="tiny", weights=saved, input_size=None)
    white = loaded.transform(Image.new("RGB", (40, 60), "white"))
    torch.testing.assert_close(white, torch.ones(3, 32, 32))


def test_weights_that_do_not_fit_and_unknown_architectures_are_named(
    tmp_path: Path, saved: dict[str, Any]
) -> None:
    torch.save({"a": torch.zeros(1), "logit_scale": torch.zeros(())}, tmp_path / "a.pth")
    with pytest.raises(AssayError, match=r"model\.arch=tiny cannot be built from .*a\.pth"):
        ours.load(arch="tiny", weights={"source": "file", "path": tmp_path / "a.pth"}, input_size=None)
    with pytest.raises(AssayError, match=r"model\.arch='ViT-L14'.*ViT-L-14"):
        ours.load(arch="ViT-L14", weights=RANDOM, input_size=None)
    with pytest.raises(AssayError, match=r"weights\.match=order"):
        ours.load(arch="tiny", weights=saved | {"match": "order"}, input_size=None)


def test_dinov2s_layer_norm_at_the_class_token_is_timms_own_embedding() -> None:
    loaded = load_timm(arch="vit_small_patch14_dinov2", weights=RANDOM, input_size=56)
    module: Any = loaded.module
    batch = torch.randn(2, 3, 56, 56)
    with torch.inference_mode():
        expected = module.forward_head(module.forward_features(batch), pre_logits=True)
    assert expected.shape == (2, 384)
    assert torch.equal(outputs(loaded, "norm", "cls", batch), expected)
