import math
from itertools import product

import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.explainers.similarities import cos_cubed, cosines, soft_wpmi, wpmi
from pipeline.explainers.similarities.cosines import Cosines
from pipeline.explainers.similarities.most_active import most_active
from pipeline.explainers.similarities.registry import NAMES, similarity


def scored(name, activations, images, texts, units=None, **settings):
    """All scores (u, T) of a similarity, from its blocks."""
    units = range(activations.shape[1]) if units is None else units
    result = np.full((len(units), len(texts)), -7.0)
    for block in similarity(name).scores(activations, Cosines(images, texts), units, **settings):
        result[block.units, block.concepts] = block.scores
    return result


def of_cosines(name, activations, values, units=None, **settings):
    return scored(name, activations, values, np.eye(values.shape[1], dtype=values.dtype), units, **settings)


def inputs(n_images=60, n_units=7, n_words=9, seed=0, levels=None, low=-1.0):
    rng = np.random.default_rng(seed)
    activations = rng.normal(size=(n_images, n_units)).astype(np.float32)
    if levels:
        activations = rng.integers(levels, size=(n_images, n_units)).astype(np.float32)
    return activations, rng.uniform(low, 1, size=(n_images, n_words)).astype(np.float32)


def ordered(activation, top):
    return sorted(range(len(activation)), key=lambda image: (-activation[image], image))[:top]


def log_mean_exp(values):
    high = max(values)
    return high + math.log(math.fsum(math.exp(value - high) for value in values) / len(values))


def literal_information(activations, values, factor, *, top, lam, temperature):
    """Both mutual informations, one number at a time; `factor(rank, size, P)` is an image's share of it."""
    n_images, n_units = activations.shape
    size = min(top, n_images)
    logs = np.zeros((n_units, values.shape[1]))
    for unit, word in product(range(n_units), range(values.shape[1])):
        for rank, image in enumerate(ordered(activations[:, unit], size)):
            exponentials = [math.exp(temperature * float(cosine)) for cosine in values[image]]
            logs[unit, word] += math.log(factor(rank, size, exponentials[word] / math.fsum(exponentials)))
    return logs - lam * np.array([log_mean_exp(column) for column in logs.T])


def soft_factor(rank, size, probability):
    return 1 + (0.998 - rank / size * (0.998 - 0.97)) * (probability - 1) + 1e-7


def hard_factor(rank, size, probability):
    return probability + 1e-7


def literal_reorder(activation, cosine, top):
    images = ordered(activation, top)
    values = [float(activation[image]) for image in images]
    by_cosine = sorted(images, key=lambda image: (cosine[image], image))
    dealt = dict(zip(by_cosine, sorted(values), strict=True))
    change = sum(abs(value - dealt[image]) ** 3 for image, value in zip(images, values, strict=True)) / top
    usual = sum(abs(one - other) ** 3 for one in values for other in values) / top**2
    mean = sum(float(cosine[image]) for image in images) / top
    return -change / usual / math.sqrt(mean) if mean > 0 and usual > 0 else math.nan


def literal_cos(activation, cosine):
    a, c = [float(value) for value in activation], [float(value) for value in cosine]
    products = math.fsum(x * y for x, y in zip(a, c, strict=True))
    return products / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in c))


def literal_cos_cubed(activation, cosine):
    return literal_cos(*((values - values.astype(float).mean()) ** 3 for values in (activation, cosine)))


def pairwise(function, activations, values, *rest):
    return np.array([[function(a, c, *rest) for c in values.T] for a in activations.T])


SETTINGS = [
    (10, 1.0, 10.0, None),
    (1, 1.0, 10.0, None),
    (60, 0.6, 2.0, None),
    (15, 1.0, 10.0, 3),
    (90, 1.0, 30.0, None),
]


@pytest.mark.parametrize(("name", "factor"), [("soft_wpmi", soft_factor), ("wpmi", hard_factor)])
@pytest.mark.parametrize(("top", "lam", "temperature", "levels"), SETTINGS)
def test_mutual_informations_are_their_definition(name, factor, top, lam, temperature, levels):
    activations, values = inputs(levels=levels)
    settings = {"top": top, "lam": lam, "temperature": temperature}
    found = of_cosines(name, activations, values, **settings)
    assert found.dtype == np.float64
    expected = literal_information(activations, values, factor, **settings)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_default_settings_are_the_authors():
    activations, values = inputs(n_images=120)
    soft = literal_information(activations, values, soft_factor, top=100, lam=1.0, temperature=10.0)
    hard = literal_information(activations, values, hard_factor, top=28, lam=0.6, temperature=2.0)
    np.testing.assert_allclose(of_cosines("soft_wpmi", activations, values), soft, atol=1e-10)
    np.testing.assert_allclose(of_cosines("wpmi", activations, values), hard, atol=1e-10)
    reordered = of_cosines("rank_reorder", activations, values)
    np.testing.assert_array_equal(reordered, of_cosines("rank_reorder", activations, values, top=6))


@pytest.mark.parametrize(("top", "levels"), [(2, None), (10, None), (60, None), (30, 4), (60, 3)])
def test_rank_reorder_is_its_definition(top, levels):
    activations, values = inputs(levels=levels, low=-0.3)
    values[::3] = values[0]
    found = of_cosines("rank_reorder", activations, values, top=top)
    expected = pairwise(literal_reorder, activations, values, top)
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("name", "literal"), [("cos", literal_cos), ("cos_cubed", literal_cos_cubed)])
@pytest.mark.parametrize("levels", [None, 3])
def test_cosine_similarities_are_their_definition(name, literal, levels):
    activations, values = inputs(levels=levels)
    found = of_cosines(name, activations, values)
    np.testing.assert_allclose(found, pairwise(literal, activations, values), rtol=0, atol=1e-7)


def test_rank_reorder_of_three_images_is_the_hand_computed_number():
    activation = np.array([[3.0], [1.0], [0.0]])
    cosine = np.array([[0.1], [0.5], [0.3]])
    # 0, 3 and 1 are dealt out: changes 3, 2 and 1; pairs differ by 2, 3 and 1, each twice, of 9.
    change, usual, mean = (27 + 8 + 1) / 3, 2 * (8 + 27 + 1) / 9, 0.3
    score = of_cosines("rank_reorder", activation, cosine, top=3).item()
    assert score == pytest.approx(-change / usual / math.sqrt(mean), rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_expected_difference_of_rank_reorder_stands_a_large_mean(shift):
    activations, values = inputs(low=0)
    activations = np.round(activations.astype(float), 6)
    found = of_cosines("rank_reorder", activations + shift, values, top=40)
    np.testing.assert_allclose(found, of_cosines("rank_reorder", activations, values, top=40), rtol=1e-6)


def test_more_images_than_32_bits_tell_apart_are_reordered_all_the_same():
    """2^17 ranks and 2^16 places need 33 bits. Activations from .5 to 1 differ by .5^3 / 10 in the mean."""
    rng = np.random.default_rng(5)
    activations = rng.random((1 << 17, 1))
    values = rng.random((1 << 17, 2)) + activations
    images = np.argsort(-activations[:, 0], kind="stable")[: 1 << 16]
    falling = activations[images, 0]
    found = of_cosines("rank_reorder", activations, values, top=1 << 16)[0]
    for score, cosine in zip(found, values[images].T, strict=True):
        dealt = falling[np.argsort(np.argsort(-cosine))]
        expected = -np.mean(np.abs(falling - dealt) ** 3) / (0.5**3 / 10) / math.sqrt(cosine.mean())
        assert score == pytest.approx(expected, rel=0.02)


def test_soft_wpmi_of_one_image_and_two_words_is_the_hand_computed_number():
    values = np.array([[0.1, 0.0]])
    share = math.e / (math.e + 1)
    expected = [0.5 * math.log(1 + 0.998 * (p - 1) + 1e-7) for p in (share, 1 - share)]
    found = of_cosines("soft_wpmi", np.ones((1, 3)), values, top=100, lam=0.5)
    np.testing.assert_allclose(found, [expected] * 3, rtol=1e-14)


def test_more_than_a_hundred_ranks_do_not_underflow():
    activations, values = inputs(n_images=450, n_units=2, n_words=3)
    values[:] = [1.0, -1.0, -1.0]
    found = of_cosines("soft_wpmi", activations, values, top=400, lam=0.0, temperature=100.0)
    assert np.isfinite(found).all()
    factors = np.log(1 - soft_wpmi.inclusion_probabilities(400) + 1e-7)
    np.testing.assert_allclose(found[:, 1], factors.sum(), rtol=1e-12)


def test_inclusion_falls_from_998_by_equal_steps_and_never_reaches_97():
    p = soft_wpmi.inclusion_probabilities(100)
    assert p[0] == 0.998
    np.testing.assert_allclose(np.diff(p), -0.00028, rtol=1e-9)
    assert p[-1] == pytest.approx(0.97028)


@pytest.mark.parametrize("name", NAMES)
def test_small_blocks_give_the_same_scores(name, monkeypatch):
    activations, values = inputs(n_images=80, n_units=11, n_words=23, levels=4, low=0)
    whole = of_cosines(name, activations, values)
    monkeypatch.setattr(cosines, "BLOCK_BYTES", 2000)
    monkeypatch.setattr("pipeline.explainers.explanations.BLOCK_BYTES", 2000)
    monkeypatch.setattr("pipeline.explainers.similarities.rank_reorder.CACHE_BYTES", 100)
    monkeypatch.setattr(cos_cubed, "HELD_BYTES", 2000)
    for module in (soft_wpmi, wpmi):
        monkeypatch.setattr(module, "UNITS_AT_ONCE", 3)
    np.testing.assert_allclose(of_cosines(name, activations, values), whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_and_their_products_give_the_same_scores(name):
    rng = np.random.default_rng(3)
    activations, (images, texts) = rng.normal(size=(90, 6)), (rng.random((n, 12)) for n in (90, 17))
    found = scored(name, activations, images, texts)
    np.testing.assert_allclose(found, of_cosines(name, activations, images @ texts.T), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_chosen_units_are_those_of_the_whole_layer(name):
    activations, values = inputs(low=0)
    found = of_cosines(name, activations, values, [4, 1])
    np.testing.assert_allclose(found, of_cosines(name, activations, values)[[4, 1]], rtol=1e-12)


def test_threads_of_rank_reorder_change_nothing(monkeypatch):
    monkeypatch.setattr("pipeline.explainers.similarities.rank_reorder.CACHE_BYTES", 1)
    activations, values = inputs(low=0)
    one, three = (of_cosines("rank_reorder", activations, values, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_only_read(name):
    arrays = inputs(low=0)
    texts = np.eye(9, dtype=np.float32)
    for array in (*arrays, texts):
        array.setflags(write=False)
    assert np.isfinite(scored(name, *arrays, texts)).all()


def test_without_a_score_there_is_nan():
    activations, values = inputs(low=0)
    values[:, 2] = 0
    values[:, 3] = 0.25
    assert np.isnan(of_cosines("cos", activations, values)[:, 2]).all()
    assert np.isnan(of_cosines("cos_cubed", activations, values)[:, 2:4]).all()
    assert np.isnan(of_cosines("rank_reorder", activations, values)[:, 2]).all()
    activations[:40, 1] = 9
    assert np.isnan(of_cosines("rank_reorder", activations, values, top=40)[1]).all()


def test_cos_cubed_does_not_depend_on_scale_however_small():
    """The authors' code divides by .001 at least, and would shrink the second concept's score."""
    activations, values = inputs()
    values[:, 1] = 1e-3 * values[:, 0]
    found = of_cosines("cos_cubed", activations * np.float32(1e12), values)
    np.testing.assert_allclose(found[:, 0], found[:, 1], rtol=1e-5)


def test_equal_activations_are_taken_by_lowest_image_index():
    activations = np.array([[1, 0], [2, 0], [1, 1], [2, 5], [0, 0], [1, 1]], dtype=np.float16)
    np.testing.assert_array_equal(most_active(activations, (0, 1), 3).T, [[1, 3, 0], [3, 2, 5]])


def test_a_unit_that_fires_on_few_images_is_filled_up_from_everywhere_not_from_the_first_folder():
    activations = np.zeros((1000, 2), dtype=np.float32)
    activations[[5, 900], 0] = 1, 2
    filled = most_active(activations, (0, 1), 102)
    assert filled[:2, 0].tolist() == [900, 5]
    rest = filled[2:]
    assert len(set(rest[:, 0])) == 100 and 300 < rest[:, 0].mean() < 700 and rest.max() > 900
    # One order for all units, so that all dead units show the same images.
    assert [image for image in filled[:, 1] if image not in (5, 900)][:99] == rest[:99, 0].tolist()


def test_most_active_is_a_stable_sort_above_the_lowest_activation():
    rng = np.random.default_rng(3)
    activations = rng.integers(6, size=(200, 30)).astype(np.float32)
    expected = np.argsort(-activations, axis=0, kind="stable")
    for top in (1, 7, 100):
        np.testing.assert_array_equal(most_active(activations, range(30), top), expected[:top])
    np.testing.assert_array_equal(most_active(activations, [9, 2], 7), expected[:7, [9, 2]])


def test_an_unknown_similarity_stops_with_the_known():
    with pytest.raises(
        AssayError, match=r"no similarity 'cosine'.*soft_wpmi, wpmi, rank_reorder, cos, cos_cubed"
    ):
        similarity("cosine")
