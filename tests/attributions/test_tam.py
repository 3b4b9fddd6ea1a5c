"""TAM against loops over tokens and pixels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.attributions import tam
from pipeline.attributions.answer_score import embedded
from pipeline.errors import AssayError
from tests.attributions.examples import GRID, QUERY, answer, prepared, vlm

IMAGES = arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(0, 50, width=32)
)


def filtered(image: np.ndarray) -> np.ndarray:
    """The 3 x 3 rank-Gaussian filter, pixel by pixel."""
    rows, columns = image.shape
    padded = np.pad(image, 1, mode="reflect")
    out = np.zeros_like(image)
    for i in range(rows):
        for j in range(columns):
            window = sorted(padded[i : i + 3, j : j + 3].ravel())
            mean = sum(window) / 9
            spread = np.sqrt(sum((each - mean) ** 2 for each in window) / 9)
            if spread <= 1e-12 * mean or mean == 0:
                out[i, j] = mean
                continue
            weights = [np.exp(-((rank - 4) ** 2) / (2 * (spread / mean) ** 2)) for rank in range(9)]
            out[i, j] = sum(w * each for w, each in zip(weights, window, strict=True)) / sum(weights)
    return out


@given(IMAGES)
@settings(max_examples=40, deadline=None)
def test_the_filter_weights_sorted_neighbours_by_rank(image: np.ndarray) -> None:
    np.testing.assert_allclose(tam.rank_gaussian(image, 3), filtered(image), rtol=1e-9, atol=1e-12)


def test_a_constant_image_passes_the_filter_and_a_lone_spike_spreads_little() -> None:
    np.testing.assert_allclose(tam.rank_gaussian(np.full((3, 3), 0.7), 3), 0.7)
    spike = np.full((5, 5), 1.0)
    spike[2, 2] = 1.5
    assert np.abs(tam.rank_gaussian(spike, 3) - 1).max() < 0.05


def test_context_is_taken_away_by_least_squares() -> None:
    rng = np.random.default_rng(0)
    own, earlier, weights = rng.random(12), rng.random((3, 12)), np.array([1.0, 0.0, 3.0])
    mix = 0.25 * earlier[0] + 0.75 * earlier[2]
    (scale,) = np.linalg.lstsq(mix[:, None], own, rcond=None)[0]
    np.testing.assert_allclose(tam.without_context(own, earlier, weights), np.maximum(own - scale * mix, 0))


def test_without_context_the_map_stays() -> None:
    own = np.arange(4.0)
    assert tam.without_context(own, np.ones((2, 4)), np.zeros(2)) is own
    assert tam.without_context(own, np.zeros((2, 4)), np.ones(2)) is own


@pytest.mark.parametrize("ids", [(7,), (7, 15), (15, 9, 15)])
def test_the_map_is_that_of_loops_over_the_answer(ids: tuple[int, ...]) -> None:
    logits = vlm().decode(embedded(vlm(), prepared(), answer(*ids)), prepared()).logits[0].numpy()
    earlier: list[tuple[int, int]] = [(token, 14 + place) for place, token in enumerate(QUERY)]
    maps: list[Any] = []
    texts: list[Any] = []
    for place, token in enumerate(ids):
        own = np.array([max(0.0, logits[p, token]) for p in range(2, 14)])
        others = [(other, row) for other, row in earlier if other != token]
        weights = np.array([max(0.0, logits[row, token]) for _, row in others])
        mix = sum(
            weight * np.maximum(logits[2:14, other], 0)
            for weight, (other, _) in zip(weights, others, strict=True)
        )
        mix = mix / weights.sum()
        maps.append(filtered(np.maximum(own - mix * (own @ mix) / (mix @ mix), 0).reshape(GRID)).ravel())
        texts.append([max(0.0, logits[row, token]) for row in range(14, 19)])
        earlier.append((token, 20 + place))
    found = tam.attribute(vlm(), prepared(), answer(*ids))
    np.testing.assert_allclose(found.patches, np.mean(maps, axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.tokens, np.mean(texts, axis=0), rtol=1e-6)


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(AssayError, match="kernel=2"):
        tam.attribute(vlm(), prepared(), answer(7), kernel=2)
