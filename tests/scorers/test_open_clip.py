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
from pipeline.models import open_clip_weights
from pipeline.scorers import open_clip as ours

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
RANDOM = {"source": "random", "seed": 1}
LOADER: dict[str, Any] = {"batch_size": 2, "workers": 0, "device": "cpu", "threads": 1}
REVISION = "a" * 40


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Architectures `tiny`, `tiny-quickgelu` and `tiny-hf` beside the built-in ones, for one test."""
    monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", list(factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "tiny.json").write_text(json.dumps(TINY))
    text = TINY["text_cfg"] | {"hf_tokenizer_name": "org/words"}
    (folder / "tiny-quickgelu.json").write_text(json.dumps(TINY | {"quick_gelu": True}))
    (folder / "tiny-hf.json").write_text(json.dumps(TINY | {"text_cfg": text}))
    open_clip.add_model_config(folder)
    return


@pytest.fixture
def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)) for _ in range(5)]


def test_embeddings_have_length_one_and_equal_open_clips_own(images: list[Image.Image]) -> None:
    scorer = ours.load(arch="tiny", weights=RANDOM, template="a photo of a {}")
    model: Any = scorer.model
    with torch.inference_mode():
        stacked = torch.stack([scorer.transform(image) for image in images])
        by_image = model.encode_image(stacked, normalize=True).numpy()
        texts = ["a photo of a dog", "a photo of a red cat"]
        by_text = model.encode_text(open_clip.get_tokenizer("tiny")(texts), normalize=True).numpy()
    got = scorer.embed_images(images, **LOADER)
    assert got.dtype == np.float32 and got.shape == (5, 16)
    np.testing.assert_allclose(got, by_image, atol=1e-5)
    for batch_size in (1, 256):
        np.testing.assert_allclose(
            scorer.embed_texts(["dog", "red cat"], batch_size=batch_size), by_text, atol=1e-5
        )
    assert scorer.embed_texts([]).shape == (0, 16)


def test_random_weights_follow_their_seed_and_leave_the_global_state_alone(images: list[Image.Image]) -> None:
    before = torch.random.get_rng_state()
    one, again, other = (
        ours.load(arch="tiny", weights={"source": "random", "seed": seed}, template="{}").embed_images(
            images, **LOADER
        )
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_file_gives_the_same_embeddings_and_its_folder_the_preprocessing(
    images: list[Image.Image], tmp_path: Path
) -> None:
    scorer = ours.load(arch="tiny", weights=RANDOM, template="{}")
    save_file(scorer.model.state_dict(), tmp_path / "open_clip_model.safetensors")
    weights = {"source": "file", "path": str(tmp_path / "open_clip_model.safetensors")}
    same = ours.load(arch="tiny", weights=weights, template="{}")
    assert np.array_equal(same.embed_images(images, **LOADER), scorer.embed_images(images, **LOADER))
    half = {"mean": [0.5] * 3, "std": [0.5] * 3, "resize_mode": "squash"}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"preprocess_cfg": half}))
    white = ours.load(arch="tiny", weights=weights, template="{}").transform(
        Image.new("RGB", (40, 60), "white")
    )
    torch.testing.assert_close(white, torch.ones(3, 32, 32))


def test_hub_weights_are_asked_for_at_the_pinned_revision_and_normalised_as_their_tag_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(
        ours.load(arch="tiny", weights=RANDOM, template="{}").model.state_dict(), tmp_path / "m.safetensors"
    )
    asked = []

    def download(repo_id: str, filename: str, revision: str | None = None, **_: object) -> str:
        asked.append((repo_id, filename, revision))
        return str(tmp_path / "m.safetensors")

    entry = {"hf_hub": "org/tiny/", "mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    monkeypatch.setattr("open_clip.pretrained.hf_hub_download", download)
    monkeypatch.setattr(open_clip_weights, "get_pretrained_cfg", lambda *_: entry)
    weights = {"source": "hub", "tag": "some", "revision": REVISION}
    scorer = ours.load(arch="tiny", weights=weights, template="{}")
    assert asked == [("org/tiny", "open_clip_model.safetensors", REVISION)]
    torch.testing.assert_close(scorer.transform(Image.new("RGB", (9, 5), "white")), torch.ones(3, 32, 32))


def test_a_download_that_fails_names_repository_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr("open_clip.pretrained.hf_hub_download", download)
    weights = {"source": "hub", "tag": "webli", "revision": REVISION}
    with pytest.raises(AssayError, match=r"timm/ViT-SO400M-14-SigLIP-384 at revision a{40}.*source=file"):
        ours.load(arch="ViT-SO400M-14-SigLIP-384", weights=weights, template="{}")


def test_a_tag_trained_with_another_activation_function_names_the_architecture_to_use() -> None:
    weights = {"source": "hub", "tag": "openai", "revision": REVISION}
    with pytest.raises(AssayError, match=r"use scorer.arch=ViT-B-32-quickgelu"):
        ours.load(arch="ViT-B-32", weights=weights, template="{}")


def test_a_file_whose_activation_function_is_another_or_unknown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    save_file(ours.load(arch="tiny", weights=RANDOM, template="{}").model.state_dict(), path)
    weights = {"source": "file", "path": path}
    monkeypatch.setattr(open_clip_weights, "list_pretrained_tags_by_model", lambda _: ["openai"])
    monkeypatch.setattr(open_clip_weights, "get_pretrained_cfg", lambda *_: {"quick_gelu": True})
    with pytest.raises(AssayError, match=r"scorer\.arch=tiny: .*cannot be seen from them; put their"):
        ours.load(arch="tiny", weights=weights, template="{}")
    beside = tmp_path / "open_clip_config.json"
    beside.write_text(json.dumps({"model_cfg": {"quick_gelu": True}}))
    with pytest.raises(AssayError, match=r"with QuickGELU.*use scorer\.arch=tiny-quickgelu"):
        ours.load(arch="tiny", weights=weights, template="{}")
    quick = ours.load(arch="tiny-quickgelu", weights=weights, template="{}")
    beside.write_text(json.dumps({"model_cfg": {"quick_gelu": False}}))
    plain = ours.load(arch="tiny", weights=weights, template="{}")
    with pytest.raises(AssayError, match=r"without QuickGELU.*use scorer\.arch=tiny"):
        ours.load(arch="tiny-quickgelu", weights=weights, template="{}")
    assert np.abs(quick.embed_texts(["dog"]) - plain.embed_texts(["dog"])).max() > 1e-6
    with pytest.raises(AssayError, match=r"weights\.match=order"):
        ours.load(arch="tiny", weights=weights | {"match": "order"}, template="{}")


def test_the_tokenizer_of_hub_weights_is_downloaded_at_the_same_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    save_file(ours.load(arch="tiny", weights=RANDOM, template="{}").model.state_dict(), path)
    asked = []

    def download(repo_id: str, filename: str, revision: str | None = None, **_: object) -> str:
        asked.append((filename, revision))
        (tmp_path / filename).touch()
        return str(path if filename.endswith("safetensors") else tmp_path / filename)

    monkeypatch.setattr("open_clip.pretrained.hf_hub_download", download)
    monkeypatch.setattr(open_clip_weights, "get_pretrained_cfg", lambda *_: {"hf_hub": "org/tiny/"})
    monkeypatch.setattr(
        open_clip.tokenizer, "HFTokenizer", lambda source, **_: (source, open_clip.get_tokenizer("tiny"))
    )
    weights = {"source": "hub", "tag": "some", "revision": REVISION}
    tokenizer: Any = ours.load(arch="tiny-hf", weights=weights, template="{}").tokenize
    files = ("open_clip_model.safetensors", "tokenizer.json", "tokenizer_config.json")
    assert asked == [(file, REVISION) for file in files] and tokenizer[0] == str(tmp_path)


def test_an_unknown_architecture_or_tag_lists_what_there_is() -> None:
    with pytest.raises(AssayError, match="ViT-B-32"):
        ours.load(arch="ViT-B32", weights=RANDOM, template="{}")
    weights = {"source": "hub", "tag": "wrong", "revision": REVISION}
    with pytest.raises(AssayError, match="laion2b_s34b_b79k"):
        ours.load(arch="ViT-B-32", weights=weights, template="{}")


def test_a_template_without_a_place_for_the_text_is_refused() -> None:
    with pytest.raises(AssayError, match=r"no {} where the text goes"):
        ours.load(arch="tiny", weights=RANDOM, template="a photo")


def test_a_tokenizer_from_the_hub_is_read_beside_the_weights_or_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(
        ours.load(arch="tiny", weights=RANDOM, template="{}").model.state_dict(), tmp_path / "m.safetensors"
    )
    weights = {"source": "file", "path": tmp_path / "m.safetensors"}
    made = []

    def tokenizer(source: str, **arguments: object) -> Any:
        made.append((source, arguments["context_length"]))
        if source == "org/words":
            raise OSError("no network")
        return open_clip.get_tokenizer("tiny")

    monkeypatch.setattr(open_clip.tokenizer, "HFTokenizer", tokenizer)
    monkeypatch.setattr(factory, "HFTokenizer", tokenizer)
    with pytest.raises(AssayError, match=r"org/words.*tokenizer.json and tokenizer_config.json beside"):
        ours.load(arch="tiny-hf", weights=weights, template="{}")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    ours.load(arch="tiny-hf", weights=weights, template="{}")
    assert made == [("org/words", 16), (str(tmp_path), 16)]


def test_weights_of_another_architecture_are_refused_with_the_file(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1), "logit_scale": torch.zeros(())}, tmp_path / "a.pth")
    with pytest.raises(AssayError, match=r"cannot be built from .*a.pth"):
        ours.load(arch="tiny", weights={"source": "file", "path": tmp_path / "a.pth"}, template="{}")
