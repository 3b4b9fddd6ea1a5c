import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.explainers.top_concept import explain, first_highest

NAMES = ["red", "nan", "round", "blue"]


def inputs(n=120, seed=0):
    rng = np.random.default_rng(seed)
    attributes = (rng.random((n, 4)) < 0.4).astype(np.uint8)
    return rng.normal(size=(n, 5)).astype(np.float32), attributes


def test_the_concept_is_the_one_of_highest_signed_correlation():
    activations, attributes = inputs()
    result = explain(activations, attributes, NAMES, (4, 1, 0))
    expected = np.corrcoef(activations.T.astype(float), attributes.T.astype(float))[:5, 5:]
    assert list(result.table["description"]) == [NAMES[expected[unit].argmax()] for unit in (4, 1, 0)]
    np.testing.assert_allclose(result.table["score"], expected[[4, 1, 0]].max(axis=1), atol=1e-12)
    assert list(result.table["method"].unique()) == ["top_concept"]


def test_a_strong_negative_correlation_is_not_chosen():
    _, attributes = inputs()
    attributes[:, 3] = 1 - attributes[:, 0]
    activations = -attributes[:, [0]].astype(np.float32)
    assert explain(activations, attributes, NAMES, (0,)).table["description"].item() == "blue"


def test_of_equal_concepts_the_first_in_the_table_is_taken():
    activations, attributes = inputs(n=999)
    wide = np.concatenate([attributes] + [attributes[:, [1]]] * 40, axis=1)
    activations = np.repeat(attributes[:, [1]] + 0.01 * activations[:, [0]], 33, axis=1)
    result = explain(activations, wide, [f"c{i}" for i in range(44)], range(33))
    assert set(result.table["description"]) == {"c1"}


def test_ties_within_rounding_go_to_the_first_and_nan_never_wins():
    scores = np.array([[np.nan, 0.3, 0.3 + 1e-16, 0.1], [np.nan, -0.5, -0.2, -0.2]])
    np.testing.assert_array_equal(first_highest(scores), [1, 2])


def test_a_constant_concept_is_never_chosen():
    _, attributes = inputs()
    attributes[:, 0], attributes[:, 2] = 1, 0
    activations = -(attributes[:, [1]] + attributes[:, [3]]).astype(np.float32)
    assert explain(activations, attributes, NAMES, (0,)).table["description"].item() in {"nan", "blue"}


def test_a_constant_unit_is_unexplained():
    activations, attributes = inputs()
    activations[:, 1] = 7
    result = explain(activations, attributes, NAMES, (0, 1))
    assert result.unexplained.to_dict("records") == [{"unit": 1, "reason": "constant activation"}]
    nothing = explain(np.ones_like(activations), attributes, NAMES, (0, 1))
    assert nothing.table.empty and len(nothing.unexplained) == 2


def test_no_varying_concept_no_image_and_nan_stop():
    activations, attributes = inputs()
    with pytest.raises(AssayError, match="none of the 4 attributes varies"):
        explain(activations, np.ones_like(attributes), NAMES, (0,))
    with pytest.raises(AssayError, match="enlarge the training split"):
        explain(activations[:0], attributes[:0], NAMES, (0,))
    with pytest.raises(ValueError, match="want"):
        explain(activations, attributes, NAMES[:3], (0,))
    activations[5, 2] = np.nan
    with pytest.raises(AssayError, match="unit 2 has activation nan on image 5"):
        explain(activations, attributes, NAMES, (2,))
