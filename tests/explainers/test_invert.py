from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import mannwhitneyu

from pipeline.composition import combine, from_json
from pipeline.errors import AssayError
from pipeline.explainers import explanations, formula_search
from pipeline.explainers.invert import explain

NAMES = ["red", "nan", "round", "blue", "wet", "old"]


def inputs(n=300, n_units=5, n_names=6, share=0.3, levels=None, seed=0):
    rng = np.random.default_rng(seed)
    attributes = (rng.random((n, n_names)) < share).astype(np.uint8)
    activations = rng.normal(size=(n, n_units)).astype(np.float32)
    if levels:
        activations = rng.integers(levels, size=(n, n_units)).astype(np.float32)
    return activations, attributes, rng


def pairs_won(activation, holds):
    """The AUC, one pair of images at a time."""
    won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in activation[holds] for b in activation[~holds]]
    return sum(won) / len(won)


def literals(attributes):
    """(concept, negated, truth) for every attribute and its negation."""
    for concept, negated in product(range(attributes.shape[1]), (False, True)):
        yield concept, negated, attributes[:, concept].astype(bool) != negated


def all_formulas(attributes, length, allowed):
    """Yield (length, NOTs, concepts, truth) of all formulas joined from the left, every part allowed."""
    level = [(1, int(negated), (i,), truth) for i, negated, truth in literals(attributes) if allowed(truth)]
    for n in range(2, length + 2):
        yield from level
        level = [
            (n, nots + negated, tuple(sorted((*concepts, i))), joined)
            for _, nots, concepts, truth in level
            for i, negated, other in literals(attributes)
            if i not in concepts
            for joined in (truth & other, truth | other)
            if allowed(joined)
        ]


def truth_of(row, attributes, names=NAMES):
    formula = from_json(row["composition"], "test") if row["composition"] else row["description"]
    return combine(formula, {name: attributes[:, i] for i, name in enumerate(names)}) == 1


@pytest.mark.parametrize("levels", [None, 3])
@pytest.mark.parametrize(
    ("length", "max_fraction"), [(1, 0.5), (2, 0.5), (3, 0.5), (2, 1.0), (3, 1.0), (3, 0.1)]
)
def test_a_wide_beam_finds_the_best_of_all_formulas_and_the_first_of_equals(length, max_fraction, levels):
    activations, attributes, _ = inputs(n=23, n_units=3, n_names=4, levels=levels, seed=length)
    result = explain(
        activations, attributes, NAMES[:4], range(3), length=length, beam=4000, max_fraction=max_fraction
    )

    def allowed(truth):
        return 0 < truth.mean() <= max_fraction and not truth.all()

    formulas = list(all_formulas(attributes, length, allowed))
    for unit, row in enumerate(result.table.to_dict("records")):
        scored = [(-pairs_won(activations[:, unit], f[3]), *f[:3]) for f in formulas]
        area, size, nots, concepts = min(scored)
        assert row["score"] == -area
        assert row["length"] == size
        assert row["description"].count("NOT ") == nots
        assert all(NAMES[i] in row["description"] for i in concepts)


@pytest.mark.parametrize("levels", [None, 2, 5])
def test_score_fraction_and_p_are_those_of_the_formula_in_the_row(levels):
    activations, attributes, _ = inputs(n=90, levels=levels, seed=3)
    for row in explain(activations, attributes, NAMES, range(5)).table.to_dict("records"):
        holds = truth_of(row, attributes)
        values = activations[:, row["unit"]].astype(float)
        assert row["score"] == pairs_won(values, holds)
        assert row["fraction"] == holds.mean()
        expected = mannwhitneyu(values[holds], values[~holds], alternative="two-sided", method="asymptotic")
        assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)


def test_an_auc_of_one_half_has_p_1():
    activations = np.array([[0], [1], [1], [0]])
    attributes = np.array([[1], [1], [0], [0]], dtype=np.uint8)
    row = explain(activations, attributes, ["red"], (0,)).table.iloc[0]
    assert (row["description"], row["score"], row["p_value"]) == ("red", 0.5, 1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.integers(2, 9))
def test_a_row_tells_the_truth_whatever_the_beam(seed, length, beam, levels):
    activations, attributes, _ = inputs(n=25, n_units=2, n_names=5, levels=levels, seed=seed)
    result = explain(activations, attributes, NAMES[:5], range(2), length=length, beam=beam)
    for row in result.table.to_dict("records"):
        holds = truth_of(row, attributes, NAMES[:5])
        assert row["score"] == pytest.approx(pairs_won(activations[:, row["unit"]], holds), abs=1e-12)
        assert row["fraction"] == holds.mean() <= 0.5
        assert 1 <= row["length"] <= length


def planted(truth, rng, noise=0.1):
    return (truth + noise * rng.random(len(truth)))[:, None].astype(np.float32)


def test_a_unit_that_is_a_concept_gets_it_as_plain_text():
    _, attributes, rng = inputs()
    for place, name in enumerate(NAMES):
        row = explain(planted(attributes[:, place], rng), attributes, NAMES, (0,)).table.iloc[0]
        assert (row["description"], row["composition"], row["score"]) == (name, "", 1.0)


@pytest.mark.parametrize(
    ("truth", "text", "composition"),
    [
        (lambda c: c[3] | c[0], "red OR blue", '{"or": ["red", "blue"]}'),
        (lambda c: c[3] & c[0], "red AND blue", '{"and": ["red", "blue"]}'),
        (lambda c: c[3] & (1 - c[0]), "NOT red AND blue", '{"and": [{"not": "red"}, "blue"]}'),
        (
            lambda c: (c[4] & c[0]) | c[2],
            "(red AND wet) OR round",
            '{"or": [{"and": ["red", "wet"]}, "round"]}',
        ),
        (
            lambda c: (c[4] | c[2]) & (1 - c[0]),
            "NOT red AND (round OR wet)",
            '{"and": [{"not": "red"}, {"or": ["round", "wet"]}]}',
        ),
        (lambda c: c[4] | c[2] | c[0], "red OR round OR wet", '{"or": ["red", "round", "wet"]}'),
    ],
)
def test_a_unit_that_is_a_formula_gets_it_in_the_order_of_the_table(truth, text, composition):
    _, attributes, rng = inputs(share=0.15, n=600)
    row = explain(planted(truth(attributes.T), rng), attributes, NAMES, (0,), beam=100).table.iloc[0]
    assert (row["description"], row["composition"]) == (text, composition)
    assert row["score"] == 1.0


def test_a_unit_that_is_not_a_concept_gets_the_negation_where_its_share_is_allowed():
    _, attributes, rng = inputs(share=0.7)
    activations = planted(1 - attributes[:, 2], rng)
    row = explain(activations, attributes, NAMES, (0,)).table.iloc[0]
    assert (row["description"], row["composition"], row["length"]) == ("NOT round", '{"not": "round"}', 1)
    _, rare, rng = inputs(share=0.3)
    text = explain(planted(1 - rare[:, 2], rng), rare, NAMES, (0,), length=1).table["description"].item()
    assert text != "NOT round"
    whole = explain(planted(1 - rare[:, 2], rng), rare, NAMES, (0,), length=1, max_fraction=1.0)
    assert whole.table["description"].item() == "NOT round"


def near_and_its_halves():
    """The unit fires for left or right; near holds on one image more, so it is the best single concept."""
    rows = [[1, 0, 1]] * 30 + [[0, 1, 1]] * 30 + [[0, 0, 1]] + [[0, 0, 0]] * 139
    attributes = np.array(rows, dtype=np.uint8)
    return planted(attributes[:, 0] | attributes[:, 1], np.random.default_rng(0)), attributes


def test_a_narrow_beam_misses_the_formula_whose_parts_are_weak_and_a_wider_one_finds_it():
    activations, attributes = near_and_its_halves()
    names = ["left", "right", "near"]
    assert explain(activations, attributes, names, (0,), length=1).table["description"].item() == "near"
    narrow = explain(activations, attributes, names, (0,), beam=1, length=2).table.iloc[0]
    assert "near" in narrow["description"] and narrow["score"] < 1
    row = explain(activations, attributes, names, (0,), beam=2, length=2).table.iloc[0]
    assert (row["description"], row["score"]) == ("left OR right", 1.0)


def test_concepts_of_equal_truth_fill_one_place_of_the_beam_and_the_first_is_named():
    activations, attributes = near_and_its_halves()
    near = attributes[:, [2]]
    wide = np.concatenate([attributes] + [near] * 40 + [1 - near] * 40, axis=1)
    names = ["left", "right", "near", *(f"c{i}" for i in range(80))]
    assert explain(activations, wide, names, (0,), length=1).table["description"].item() == "near"
    row = explain(activations, wide, names, (0,), beam=2, length=2).table.iloc[0]
    assert (row["description"], row["score"]) == ("left OR right", 1.0)


def test_a_longer_formula_that_says_the_same_is_not_taken():
    rng = np.random.default_rng(0)
    classes = (rng.integers(4, size=400)[:, None] == np.arange(4)).astype(np.uint8)
    row = explain(planted(classes[:, 2], rng), classes, NAMES[:4], (0,)).table.iloc[0]
    assert (row["description"], row["length"]) == ("round", 1)


def test_a_plain_concept_is_preferred_to_a_negation_of_equal_truth():
    rng = np.random.default_rng(1)
    half = rng.permutation(np.repeat([0, 1], 50)).astype(np.uint8)
    attributes = np.stack([1 - half, half], axis=1)
    assert explain(planted(half, rng), attributes, ["off", "on"], (0,)).table["description"].item() == "on"


def test_min_fraction_keeps_out_the_conjunction_that_holds_on_one_lucky_image():
    activations, attributes, _ = inputs(n=400, n_units=3, share=0.05)
    lucky = explain(activations, attributes, NAMES, range(3))
    assert (lucky.table["fraction"] * 400 < 20).any()
    assert "formulas hold on fewer than 20 images" in lucky.notes[0]
    safe = explain(activations, attributes, NAMES, range(3), min_fraction=0.05)
    assert (safe.table["fraction"] >= 0.05).all() and safe.notes == ()
    assert (safe.table["score"] < lucky.table["score"]).any()


def test_shares_at_both_bounds_are_allowed():
    attributes = np.repeat(np.eye(2, dtype=np.uint8), [3, 7], axis=0)
    activations = attributes[:, [0]] + 0.0
    options = {"length": 1, "min_fraction": 0.3, "max_fraction": 0.3}
    assert explain(activations, attributes, ["a", "b"], (0,), **options).table["fraction"].item() == 0.3


def test_a_dead_unit_has_a_reason_and_the_order_is_that_of_the_selection():
    activations, attributes, _ = inputs()
    activations[:, 1] = 0
    result = explain(activations, attributes, NAMES, (4, 1, 0))
    assert list(result.table["unit"]) == [4, 0]
    assert result.unexplained.to_dict("records") == [{"unit": 1, "reason": "constant activation"}]
    alone = explain(activations, attributes, NAMES, (0,)).table
    assert alone.iloc[0].to_dict() == result.table.iloc[1].to_dict()


@pytest.mark.parametrize("attributes", [np.ones((50, 2)), np.zeros((50, 2)), np.zeros((50, 0))])
def test_without_a_concept_of_allowed_share_every_unit_has_a_reason(attributes):
    activations, _, _ = inputs(n=50)
    names = NAMES[: attributes.shape[1]]
    result = explain(activations, attributes.astype(np.uint8), names, (0, 3))
    assert result.table.empty
    assert set(result.unexplained["reason"]) == {
        "no attribute or its negation holds on more than 0 and at most 0.5 of the images"
    }


class Codes:
    """Sparse codes that give dense columns and nothing else."""

    def __init__(self, dense):
        self._codes = csr_array(dense)
        self.shape = dense.shape

    def __getitem__(self, key):
        rows, columns = key
        assert rows == slice(None)
        return self._codes[:, columns].toarray()


def test_sparse_codes_give_what_the_dense_ones_give():
    activations, attributes, rng = inputs(n=200, n_units=8)
    activations[rng.random(activations.shape) < 0.95] = 0
    activations[:, 5] = 0
    dense = explain(activations, attributes, NAMES, (7, 5, 2))
    sparse = explain(Codes(activations), attributes, NAMES, (7, 5, 2))
    assert dense.table.equals(sparse.table) and dense.unexplained.equals(sparse.unexplained)


def test_the_size_of_a_block_changes_nothing(monkeypatch):
    activations, attributes, _ = inputs(n=80, n_units=9, levels=4)
    whole = explain(activations, attributes, NAMES, range(9))
    monkeypatch.setattr(explanations, "BLOCK_BYTES", 8 * 80 * 2)
    assert explain(activations, attributes, NAMES, range(9)).table.equals(whole.table)


@pytest.mark.parametrize("levels", [None, 2])
def test_how_many_candidates_are_ordered_at_once_changes_nothing(monkeypatch, levels):
    activations, attributes, rng = inputs(n=60, n_units=6, levels=levels)
    repeated = attributes[:, rng.integers(6, size=24)]
    names = [f"c{i}" for i in range(24)]
    monkeypatch.setattr(formula_search, "DUPLICATES", 1)
    few = explain(activations, repeated, names, range(6))
    monkeypatch.setattr(formula_search, "DUPLICATES", 10**6)
    assert explain(activations, repeated, names, range(6)).table.equals(few.table)


def test_float16_and_reordered_images_change_nothing():
    activations, attributes, rng = inputs(n=80, levels=7)
    whole = explain(activations, attributes, NAMES, range(5)).table
    assert explain(activations.astype(np.float16), attributes, NAMES, range(5)).table.equals(whole)
    order = rng.permutation(80)
    assert explain(activations[order], attributes[order], NAMES, range(5)).table.equals(whole)


def test_inputs_that_are_wrong_stop():
    activations, attributes, _ = inputs()
    with pytest.raises(AssayError, match=r"explainer.length is 0"):
        explain(activations, attributes, NAMES, (0,), length=0)
    with pytest.raises(AssayError, match=r"explainer.beam is 0"):
        explain(activations, attributes, NAMES, (0,), beam=0)
    for low, high in ((0.6, 0.5), (-0.1, 0.5), (0.0, 1.1), (0.0, 0.0)):
        with pytest.raises(AssayError, match=r"explainer\.min_fraction is"):
            explain(activations, attributes, NAMES, (0,), min_fraction=low, max_fraction=high)
    with pytest.raises(AssayError, match="attribute 'red' has two columns"):
        explain(activations, attributes, ["red", *NAMES[:4], "red"], (0,))
    with pytest.raises(AssayError, match=r"unit 5 .*5 units are 0 to 4"):
        explain(activations, attributes, NAMES, (5,))
    with pytest.raises(ValueError, match="want"):
        explain(activations, attributes[:-1], NAMES, (0,))
    with pytest.raises(ValueError, match="0 or 1"):
        explain(activations, attributes * 2, NAMES, (0,))
    activations[5, 2] = np.nan
    with pytest.raises(AssayError, match="unit 2 has activation nan on image 5"):
        explain(activations, attributes, NAMES, (2,))
