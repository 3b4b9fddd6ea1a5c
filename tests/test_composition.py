"""Composite explanations: their text, their JSON, and their value from their concepts' values."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.composition import (
    And,
    Linear,
    Not,
    Or,
    combine,
    concepts_of,
    describe,
    from_json,
    linear,
    polarity,
    to_json,
)
from pipeline.errors import AssayError

CONCEPTS = ["red", "nan", "a or b", "wet fur"]
formulas = st.recursive(
    st.sampled_from(CONCEPTS),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
weights = st.floats(-5, 5).filter(lambda w: abs(w) > 1e-3)
sums = st.lists(
    st.tuples(weights, st.sampled_from(CONCEPTS)), min_size=1, max_size=4, unique_by=lambda t: t[1]
)


def holds(formula, truths):
    """The formula's truth, literally."""
    if isinstance(formula, str):
        return truths[formula]
    if isinstance(formula, Not):
        return not holds(formula.part, truths)
    parts = [holds(part, truths) for part in formula.parts]
    return all(parts) if isinstance(formula, And) else any(parts)


def by_enumeration(formula, chances):
    """The probability of a formula of independent concepts: the sum over all worlds in which it holds."""
    total = 0.0
    for world in itertools.product((False, True), repeat=len(CONCEPTS)):
        truths = dict(zip(CONCEPTS, world, strict=True))
        if holds(formula, truths):
            total += np.prod([chances[c] if truths[c] else 1 - chances[c] for c in CONCEPTS])
    return total


@given(formulas, st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_a_formula_has_the_probability_of_the_worlds_in_which_it_holds(formula, chances):
    of = dict(zip(CONCEPTS, chances, strict=True))
    found = combine(formula, {concept: np.array([chance]) for concept, chance in of.items()})
    assert found == pytest.approx(by_enumeration(formula, of), abs=1e-12)


@given(formulas)
def test_on_truth_values_a_formula_is_its_truth(formula):
    worlds = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    values = dict(zip(CONCEPTS, worlds.T, strict=True))
    expected = [holds(formula, dict(zip(CONCEPTS, world, strict=True))) for world in worlds.astype(bool)]
    np.testing.assert_array_equal(combine(formula, values), np.array(expected, dtype=float))


@given(formulas | sums.map(linear))
def test_json_and_back_is_the_same_composition(composition):
    assert from_json(to_json(composition), "here") == composition
    assert set(concepts_of(composition)) <= set(CONCEPTS)


@given(sums)
def test_the_text_of_a_sum_shows_its_exact_weights(terms):
    composition = linear(terms)
    for weight, concept in composition.terms:
        assert f"{abs(weight):.4g} {concept}" in describe(composition)
        assert float(f"{weight:.4g}") == weight


def test_texts_read_as_people_write_them():
    assert describe(linear([(1.23456, "dog"), (-0.3, "wet fur")])) == "1.235 dog - 0.3 wet fur"
    assert describe(And((Or(("red", "blue")), Not("round")))) == "(red OR blue) AND NOT round"
    assert describe(Not(And(("a", "b")))) == "NOT (a AND b)"
    assert describe("dog") == "dog"


def test_a_sum_is_the_weighted_sum_of_its_concepts():
    values = {"dog": np.array([1.0, 0.5, np.nan]), "cat": np.array([0.0, 1.0, 1.0])}
    np.testing.assert_array_equal(combine(Linear(((2.0, "dog"), (-1.0, "cat"))), values), [2.0, 0.0, np.nan])


def test_a_concept_named_twice_is_one_concept():
    half = {"a": np.array([0.5]), "b": np.array([0.5])}
    assert combine(And(("a", Not("a"))), half) == 0
    assert combine(Or(("a", And(("a", "b")))), half) == 0.5


def test_too_many_repeated_concepts_are_refused():
    names = [f"c{i}" for i in range(13)]
    formula = Or((And(tuple(names)), And(tuple(names))))
    with pytest.raises(AssayError, match="13 concepts more than once"):
        combine(formula, {name: np.zeros(1) for name in names})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{red", "no JSON"),
        ('{"xor": ["a", "b"]}', "neither a concept nor one of"),
        ('{"and": ["a"]}', "joins two formulas or more"),
        ('{"not": ""}', "no concept's text"),
        ('{"linear": []}', "no list of"),
        ('{"linear": [[0, "a"]]}', "not 0"),
        ('{"linear": [[true, "a"]]}', "finite weight"),
        ('{"linear": [[1, "a"], [2, " a "]]}', "twice"),
        ("[1, 2]", "neither"),
    ],
)
def test_what_is_no_composition_is_refused_with_its_place(text, message):
    with pytest.raises(AssayError, match=message) as error:
        from_json(text, "mine.csv, line 4")
    assert "mine.csv, line 4" in str(error.value)


def test_infinite_weights_are_refused():
    with pytest.raises(AssayError, match="finite"):
        from_json(json.dumps({"linear": [[float("inf"), "a"]]}), "here")


@given(formulas, st.lists(st.floats(0, 1), min_size=4, max_size=4), st.sampled_from(CONCEPTS))
def test_a_concept_of_one_polarity_moves_the_value_one_way(formula, chances, concept):
    of = {text: np.array([chance, chance]) for text, chance in zip(CONCEPTS, chances, strict=True)}
    of[concept] = np.array([of[concept][0], 1.0])
    low, high = combine(formula, of)
    sign = polarity(formula).get(concept)
    if sign is None:
        assert low == high
    if sign:
        assert sign * (high - low) >= -1e-12


def test_rounding_never_makes_a_probability_of_more_than_1():
    formula = Or((And(("a", "b")), And((Not("a"), "c")), And((Not("a"), Not("c"))), Not("b")))
    rng = np.random.default_rng(0)
    found = combine(formula, {name: rng.random(20_000) for name in "abc"})
    assert found.max() <= 1
