import numpy as np
import pytest
from le_oracles import literal

from pipeline.explainers.greedy_concepts import choose, moments


def inputs(seed, n_concepts=25, n_train=90, n_held=50):
    rng = np.random.default_rng(seed)
    n = n_train + n_held
    concepts = rng.random((n, n_concepts)) + 0.7 * rng.random((n, 1))
    true = rng.normal(size=n_concepts) * (rng.random(n_concepts) < 0.3)
    unit = concepts @ true + 0.4 * rng.normal(size=n)
    return concepts[:n_train], unit[:n_train], concepts[n_train:], unit[n_train:]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("options", [(10, 0.02, 10), (3, 0.0, 4), (1, 0.02, 1), (8, 0.05, 2)])
def test_the_choice_and_its_weights_are_the_literal_search(seed, options):
    train, y_train, held, y_held = inputs(seed)
    given = dict(zip(("max_concepts", "min_gain", "width"), options, strict=True))
    expected, weights = literal(train, y_train, held, y_held, **given)
    chosen, found = choose(moments(train.T, y_train), moments(held.T, y_held), **given)
    assert chosen == expected
    np.testing.assert_allclose(found, weights, rtol=1e-6, atol=1e-9)


def test_the_literal_search_finds_several_concepts_in_these_inputs():
    sizes = [len(literal(*inputs(seed), max_concepts=10, min_gain=0.02, width=10)[0]) for seed in range(12)]
    assert max(sizes) >= 4


def search(concepts, unit, held=None, y_held=None, **options):
    held, y_held = (concepts, unit) if held is None else (held, y_held)
    given = {"max_concepts": 10, "min_gain": 0.02, "width": 10} | options
    return choose(moments(concepts, unit), moments(held, y_held), **given)


def test_a_copy_of_a_chosen_concept_adds_nothing():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 300))
    chosen, weights = search(np.stack([first, first, second, second]), first + second, min_gain=0.0)
    assert sorted(chosen) == [0, 2]
    np.testing.assert_allclose(weights, [1, 1], rtol=1e-9)


def test_a_unit_that_no_concept_rises_with_gets_none():
    rng = np.random.default_rng(1)
    concepts = rng.random((3, 200))
    chosen, weights = search(concepts, -concepts.sum(axis=0))
    assert chosen == [] and len(weights) == 0


def test_a_first_concept_is_chosen_where_the_held_out_images_say_nothing():
    rng = np.random.default_rng(2)
    concepts = rng.random((4, 200))
    unit = concepts[2] + concepts[0]
    assert search(concepts, unit, concepts[:, :20], np.zeros(20))[0] == [0]


def test_a_concept_that_is_constant_on_the_held_out_images_loses_to_one_that_is_not():
    rng = np.random.default_rng(3)
    concepts = rng.random((2, 200))
    held = concepts[:, :50].copy()
    held[0] = 0.3
    assert search(concepts, concepts.sum(axis=0), held, held[1])[0][0] == 1


def test_one_that_did_not_help_is_never_tried_again():
    """b helps only beside c; tried before c it is out for good."""
    rng = np.random.default_rng(4)
    a, c, noise = rng.normal(size=(3, 5000))
    b = c + 0.05 * noise
    unit = 2 * a + c - b
    chosen, _ = search(np.stack([a, b, c]), unit, width=1, min_gain=0.0005)
    assert 1 not in chosen
