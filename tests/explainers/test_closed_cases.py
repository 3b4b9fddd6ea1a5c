"""What every computed method must find: a unit that is a concept, a unit that is one of two, a dead unit."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from pipeline.composition import Or, concepts_of, from_json
from pipeline.explainers import clip_dissect, invert, le_label, le_siglip, network_dissection, top_concept
from pipeline.explainers.explanations import CONSTANT, Explanations

NAMES = ("red", "nan", "null", "none", "true", "round", "striped", "wet fur")
EITHER, DEAD = len(NAMES), len(NAMES) + 1
N = 1200


@pytest.fixture(scope="module")
def world() -> tuple[np.ndarray, np.ndarray]:
    """Unit t is concept t and a little noise; then one that is red or round; then a dead one."""
    rng = np.random.default_rng(0)
    attributes = (rng.random((N, len(NAMES))) < 0.15).astype(np.uint8)
    exact = np.column_stack([attributes, attributes[:, 0] | attributes[:, 5]]).astype(float)
    noisy = np.maximum(exact + rng.normal(0, 0.05, exact.shape), 0)
    return np.column_stack([noisy, np.full(N, 0.25)]).astype(np.float32), attributes


def by_attributes(explain: Callable[..., Explanations], activations, attributes) -> Explanations:
    return explain(activations, attributes, NAMES, range(activations.shape[1]))


def by_words(explain: Callable[..., Explanations], activations, attributes) -> Explanations:
    """Give the method a scorer that is right: a cosine of .3 where the word is true, .1 where not."""
    noise = np.random.default_rng(1).normal(0, 0.01, attributes.shape)
    images = (0.1 + 0.2 * attributes + noise).astype(np.float32)
    words = np.eye(len(NAMES), dtype=np.float32)
    return explain(activations, images, words, NAMES, range(activations.shape[1]))


SCORER = {"a": 80.0, "b": -0.2}
METHODS = {
    **{
        name: partial(by_words, partial(clip_dissect.explain, similarity=name))
        for name in ("soft_wpmi", "wpmi", "cos", "cos_cubed")
    },
    # It sees the order within the top images alone, so these must not all show the concept.
    "rank_reorder": partial(by_words, partial(clip_dissect.explain, similarity="rank_reorder", top=360)),
    "le_siglip": partial(by_words, partial(le_siglip.explain, max_concepts=1, **SCORER)),
    "le_label": partial(by_attributes, partial(le_label.explain, max_concepts=1)),
    "invert": partial(by_attributes, partial(invert.explain, length=1)),
    "network_dissection": partial(by_attributes, partial(network_dissection.explain, quantile=0.05)),
    "top_concept": partial(by_attributes, top_concept.explain),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_unit_that_is_a_concept_gets_that_concept(world, method: str) -> None:
    table = METHODS[method](*world).table.set_index("unit")
    assert table["description"].loc[: EITHER - 1].tolist() == list(NAMES)


@pytest.mark.parametrize("method", METHODS)
def test_a_dead_unit_gets_a_reason(world, method: str) -> None:
    assert METHODS[method](*world).unexplained.to_dict("list") == {"unit": [DEAD], "reason": [CONSTANT]}


@pytest.mark.parametrize("method", METHODS)
def test_a_second_run_gives_the_same_table(world, method: str) -> None:
    first, second = (METHODS[method](*world).table for _ in range(2))
    assert first.equals(second)


def test_a_unit_that_is_one_of_two_is_found_by_invert(world) -> None:
    table = by_attributes(partial(invert.explain, length=2), *world).table.set_index("unit")
    assert from_json(table.loc[EITHER, "composition"], "here") == Or(("red", "round"))


@pytest.mark.parametrize(
    ("give", "explain"),
    [(by_attributes, le_label.explain), (by_words, partial(le_siglip.explain, **SCORER))],
    ids=["le_label", "le_siglip"],
)
def test_a_unit_that_is_one_of_two_is_found_by_linear_explanations(world, give, explain) -> None:
    table = give(explain, *world).table.set_index("unit")
    made_of = from_json(table.loc[EITHER, "composition"], "here")
    assert set(concepts_of(made_of)) == {"red", "round"}
    assert all(weight > 0 for weight, _ in made_of.terms)
