import math

import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.explainers import clip_dissect
from pipeline.explainers.clip_dissect import explain, inclusion_probabilities, most_active, soft_wpmi


def literal(activations, similarities, *, top, lam, temperature):
    """The definition, one number at a time."""
    n_images, n_units = activations.shape
    n_words = similarities.shape[1]
    size = min(top, n_images)
    log_likelihood = [[0.0] * n_words for _ in range(n_units)]
    for unit in range(n_units):
        order = sorted(range(n_images), key=lambda image: (-activations[image, unit], image))[:size]
        for rank, image in enumerate(order):
            inclusion = 0.998 - rank / size * (0.998 - 0.97)
            exponentials = [math.exp(temperature * float(cosine)) for cosine in similarities[image]]
            for word in range(n_words):
                share = exponentials[word] / math.fsum(exponentials)
                log_likelihood[unit][word] += math.log(1 + inclusion * (share - 1) + 1e-7)
    scores = np.empty((n_units, n_words))
    for word in range(n_words):
        mean = math.fsum(math.exp(log_likelihood[unit][word]) for unit in range(n_units)) / n_units
        for unit in range(n_units):
            scores[unit, word] = log_likelihood[unit][word] - lam * math.log(mean)
    return scores


def inputs(n_images=60, n_units=7, n_words=9, seed=0, levels=None):
    rng = np.random.default_rng(seed)
    activations = rng.normal(size=(n_images, n_units)).astype(np.float32)
    if levels:
        activations = rng.integers(levels, size=(n_images, n_units)).astype(np.float32)
    return activations, rng.uniform(-1, 1, size=(n_images, n_words)).astype(np.float32)


@pytest.mark.parametrize(
    ("top", "lam", "temperature", "levels"),
    [
        (10, 1.0, 10.0, None),
        (1, 1.0, 10.0, None),
        (60, 0.6, 2.0, None),
        (15, 1.0, 10.0, 3),
        (90, 1.0, 30.0, None),
    ],
)
def test_soft_wpmi_is_its_definition(top, lam, temperature, levels):
    activations, similarities = inputs(levels=levels)
    scores = soft_wpmi(activations, similarities, top=top, lam=lam, temperature=temperature)
    expected = literal(activations, similarities, top=top, lam=lam, temperature=temperature)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_soft_wpmi_of_one_image_and_two_words_is_the_hand_computed_number():
    similarities = np.array([[0.1, 0.0]])
    share = math.e / (math.e + 1)
    expected = [
        (1 - lam) * math.log(1 + 0.998 * (p - 1) + 1e-7) for lam in (0.5,) for p in (share, 1 - share)
    ]
    scores = soft_wpmi(np.ones((1, 3)), similarities, top=100, lam=0.5)
    np.testing.assert_allclose(scores, [expected] * 3, rtol=1e-14)


def test_more_than_a_hundred_ranks_do_not_underflow():
    activations, similarities = inputs(n_images=450, n_units=2, n_words=3)
    similarities[:] = [1.0, -1.0, -1.0]
    scores = soft_wpmi(activations, similarities, top=400, lam=0.0, temperature=100.0)
    assert np.isfinite(scores).all()
    factors = np.log(1 - inclusion_probabilities(400) + 1e-7)
    np.testing.assert_allclose(scores[:, 1], factors.sum(), rtol=1e-12)


def test_inclusion_falls_from_998_by_equal_steps_and_never_reaches_97():
    p = inclusion_probabilities(100)
    assert p[0] == 0.998
    np.testing.assert_allclose(np.diff(p), -0.00028, rtol=1e-9)
    assert p[-1] == pytest.approx(0.97028)


def test_small_chunks_give_the_same_scores(monkeypatch):
    activations, similarities = inputs(n_images=80, n_units=11, n_words=23, levels=4)
    whole = soft_wpmi(activations, similarities, top=20)
    monkeypatch.setattr(clip_dissect, "CHUNK_BYTES", 2000)
    np.testing.assert_array_equal(soft_wpmi(activations, similarities, top=20), whole)


def test_equal_activations_are_taken_by_lowest_image_index():
    activations = np.array([[1, 0], [2, 0], [1, 0], [2, 5], [1, 0]], dtype=np.float16)
    np.testing.assert_array_equal(most_active(activations, 4).T, [[1, 3, 0, 2], [3, 0, 1, 2]])


def test_most_active_is_a_stable_sort():
    rng = np.random.default_rng(3)
    activations = rng.integers(6, size=(200, 30)).astype(np.float32)
    expected = np.argsort(-activations, axis=0, kind="stable")
    for top in (1, 7, 200, 500):
        np.testing.assert_array_equal(most_active(activations, top), expected[:top])


def test_soft_wpmi_does_not_write_to_its_inputs():
    activations, similarities = inputs()
    activations.setflags(write=False)
    similarities.setflags(write=False)
    soft_wpmi(activations, similarities, top=5)


def planted(n_images=400, n_units=4, n_words=6, seed=1):
    """Unit k is active where word k is true."""
    rng = np.random.default_rng(seed)
    present = rng.random((n_images, n_words)) < 0.2
    similarities = 0.1 + 0.2 * present + 0.01 * rng.normal(size=present.shape)
    activations = present[:, :n_units] + 0.1 * rng.random((n_images, n_units))
    return activations, similarities


def test_a_unit_that_fires_for_a_word_is_given_that_word():
    activations, similarities = planted()
    words = ["nan", "dog", "cat", "sky", "sea", "car"]
    result = explain(activations, similarities, words, (3, 0, 2), top=50)
    assert list(result.table["unit"]) == [3, 0, 2]
    assert list(result.table["description"]) == ["sky", "nan", "cat"]
    assert set(result.table["method"]) == {"clip_dissect"}
    assert result.unexplained.empty and result.notes == ()


def test_scores_are_those_of_the_whole_layer_whatever_is_selected():
    activations, similarities = planted()
    words = [f"w{i}" for i in range(6)]
    alone = explain(activations, similarities, words, (1,), top=50).table["score"].item()
    scores = soft_wpmi(activations, similarities, top=50)
    assert alone == scores[1].max()


def test_a_constant_unit_is_unexplained_and_still_in_the_mean():
    activations, similarities = planted()
    activations[:, 2] = 0.5
    result = explain(activations, similarities, list("abcdef"), (0, 2), top=50)
    assert result.unexplained.to_dict("records") == [{"unit": 2, "reason": "constant activation"}]
    assert list(result.table["unit"]) == [0]
    assert result.table["score"].item() == soft_wpmi(activations, similarities, top=50)[0].max()


def test_a_layer_of_constant_units_is_unexplained_as_a_whole():
    _, similarities = planted()
    result = explain(np.zeros((400, 3)), similarities, list("abcdef"), (0, 1, 2))
    assert result.table.empty and len(result.unexplained) == 3


def test_of_equal_words_the_first_in_the_vocabulary_is_taken():
    activations, similarities = planted()
    similarities[:, 4] = similarities[:, 1]
    assert explain(activations, similarities, list("abcdef"), (1,)).table["description"].item() == "b"


def test_a_repeated_word_counts_once_and_is_noted():
    activations, similarities = planted()
    twice = np.concatenate([similarities, similarities[:, :1]], axis=1)
    result = explain(activations, twice, [*"abcdef", "a"], (0, 1), top=50)
    once = explain(activations, similarities, list("abcdef"), (0, 1), top=50)
    assert result.table.equals(once.table)
    assert result.notes == ("clip_dissect: 1 repeated words of the vocabulary were counted once",)


def test_fewer_images_than_top_are_all_used_and_noted():
    activations, similarities = planted(n_images=30)
    result = explain(activations, similarities, list("abcdef"), (0,), top=100)
    assert "30 images are fewer than top=100" in result.notes[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_activation_that_is_not_finite_stops_with_unit_and_image(value):
    activations, similarities = planted()
    activations[7, 3] = value
    with pytest.raises(AssayError, match=r"unit 3 has activation .* on image 7"):
        explain(activations, similarities, list("abcdef"), (0,))


def test_units_outside_the_layer_an_empty_vocabulary_and_no_image_stop():
    activations, similarities = planted()
    with pytest.raises(AssayError, match=r"unit 4 .*4 units are 0 to 3"):
        explain(activations, similarities, list("abcdef"), (0, 4))
    with pytest.raises(AssayError, match="empty vocabulary"):
        explain(activations, similarities[:, :0], [], (0,))
    with pytest.raises(AssayError, match="no image"):
        explain(activations[:0], similarities[:0], list("abcdef"), (0,))
    with pytest.raises(ValueError, match="want"):
        explain(activations, similarities, ["a"], (0,))
