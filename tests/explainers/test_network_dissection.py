import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from pipeline.errors import AssayError
from pipeline.explainers import explanations
from pipeline.explainers.network_dissection import explain, most_active_images

NAMES = ["red", "nan", "round", "blue", "wet", "old"]


def inputs(n=300, n_units=5, share=0.2, levels=None, seed=0):
    rng = np.random.default_rng(seed)
    attributes = (rng.random((n, len(NAMES))) < share).astype(np.uint8)
    activations = rng.normal(size=(n, n_units)).astype(np.float32)
    if levels:
        activations = rng.integers(levels, size=(n, n_units)).astype(np.float32)
    return activations, attributes, rng


def top_images(activation, k):
    """The k highest with what equals the last; above the lowest value where that is all images."""
    last = sorted(activation, reverse=True)[k - 1]
    images = {image for image, value in enumerate(activation) if value >= last}
    return images if last > min(activation) else {i for i, a in enumerate(activation) if a > min(activation)}


def overlaps(images, attributes):
    """The IoU with each attribute, by sets of images."""
    sets = [set(np.flatnonzero(column)) for column in attributes.T]
    return [Fraction(len(images & found), len(images | found)) for found in sets]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.sampled_from([2, 3, 8, None]), st.floats(0.01, 0.9))
@example(seed=0, n=25, levels=3, quantile=0.28)  # .28 x 25 is a little above 7 in floats
def test_the_attribute_is_the_first_of_highest_iou_with_the_top_images(seed, n, levels, quantile):
    activations, attributes, _ = inputs(n=n, levels=levels, seed=seed)
    result = explain(activations, attributes, NAMES, range(5), quantile=quantile)
    rows = {row["unit"]: row for row in result.table.to_dict("records")}
    reasons = dict(zip(result.unexplained["unit"], result.unexplained["reason"], strict=True))
    for unit in range(5):
        values = activations[:, unit].tolist()
        if min(values) == max(values):
            assert reasons[unit] == "constant activation"
            continue
        images = top_images(values, math.ceil(round(Fraction(quantile) * n, 9)))
        found = overlaps(images, attributes)
        if not max(found):
            assert reasons[unit] == "none of its most active images has an attribute"
            continue
        assert rows[unit]["description"] == NAMES[found.index(max(found))]
        assert rows[unit]["score"] == float(max(found))
        assert rows[unit]["n_top"] == len(images)


def test_a_unit_that_is_a_concept_gets_it():
    _, attributes, rng = inputs(n=400)
    for place, name in enumerate(NAMES):
        unit = attributes[:, [place]] + 0.1 * rng.random((400, 1))
        row = explain(unit, attributes, NAMES, (0,), quantile=attributes[:, place].mean()).table.iloc[0]
        assert (row["description"], row["score"]) == (name, 1.0)
        assert explain(unit, attributes, NAMES, (0,)).table["n_top"].item() == 2


@pytest.mark.parametrize(
    ("n", "quantile", "k"), [(200, 0.005, 1), (201, 0.005, 2), (30, 0.1, 3), (9, 0.001, 1)]
)
def test_the_top_is_the_quantile_of_the_images_rounded_up(n, quantile, k):
    top = most_active_images(np.arange(n)[:, None], quantile)
    np.testing.assert_array_equal(np.flatnonzero(top), np.arange(n - k, n))


def test_images_that_equal_the_last_of_the_top_are_in_it():
    activations = np.array([[3, 0], [5, 0], [3, 1], [3, 1], [1, 0]])
    np.testing.assert_array_equal(most_active_images(activations, 0.4), [[1, 1, 1, 1, 0], [0, 0, 1, 1, 0]])


def test_a_latent_that_fires_on_fewer_images_than_the_quantile_counts_these_and_no_zeros():
    codes = np.zeros((1000, 1), dtype=np.float32)
    codes[[7, 400]] = [[0.5], [2.0]]
    np.testing.assert_array_equal(np.flatnonzero(most_active_images(codes, 0.005)), [7, 400])
    below_zero = codes - 3
    np.testing.assert_array_equal(np.flatnonzero(most_active_images(below_zero, 0.005)), [7, 400])


def test_a_sparse_latent_is_not_given_the_commonest_attribute():
    attributes = np.zeros((1000, 2), dtype=np.uint8)
    attributes[:900, 0] = 1
    attributes[[5, 950], 1] = 1
    codes = np.zeros((1000, 1))
    codes[[5, 950]] = 1
    row = explain(codes, attributes, ["common", "rare"], (0,), quantile=0.01).table.iloc[0]
    assert (row["description"], row["score"], row["n_top"]) == ("rare", 1.0, 2)


def test_a_unit_whose_top_images_have_no_attribute_and_a_dead_unit_have_reasons():
    activations, attributes, _ = inputs()
    attributes[np.argsort(-activations[:, 3])[:2]] = 0
    activations[:, 1] = 4
    result = explain(activations, attributes, NAMES, (4, 3, 1, 0))
    assert list(result.table["unit"]) == [4, 0]
    assert result.unexplained.to_dict("records") == [
        {"unit": 3, "reason": "none of its most active images has an attribute"},
        {"unit": 1, "reason": "constant activation"},
    ]
    nothing = explain(activations, attributes[:, :0], [], (0, 1))
    assert nothing.table.empty and len(nothing.unexplained) == 2


class Codes:
    """Sparse codes that give dense columns and nothing else."""

    def __init__(self, dense):
        self._codes = csr_array(dense)
        self.shape = dense.shape

    def __getitem__(self, key):
        rows, columns = key
        assert rows == slice(None)
        return self._codes[:, columns].toarray()


def test_sparse_codes_and_small_blocks_give_what_the_dense_whole_gives(monkeypatch):
    activations, attributes, rng = inputs(n=200, n_units=8)
    activations[rng.random(activations.shape) < 0.95] = 0
    dense = explain(activations, attributes, NAMES, (7, 5, 2), quantile=0.1)
    monkeypatch.setattr(explanations, "BLOCK_BYTES", 8 * 200)
    sparse = explain(Codes(activations), attributes, NAMES, (7, 5, 2), quantile=0.1)
    assert dense.table.equals(sparse.table) and len(dense.table) == 3


def test_inputs_that_are_wrong_stop():
    activations, attributes, _ = inputs()
    for quantile in (0, 1, -0.1, math.nan):
        with pytest.raises(AssayError, match=r"explainer.quantile is"):
            explain(activations, attributes, NAMES, (0,), quantile=quantile)
    with pytest.raises(AssayError, match=r"unit 5 .*5 units are 0 to 4"):
        explain(activations, attributes, NAMES, (5,))
    with pytest.raises(AssayError, match="no image"):
        explain(activations[:0], attributes[:0], NAMES, (0,))
    with pytest.raises(ValueError, match="want"):
        explain(activations, attributes, NAMES[:2], (0,))
    with pytest.raises(ValueError, match="0 or 1"):
        explain(activations, attributes * 2, NAMES, (0,))
    activations[5, 2] = np.inf
    with pytest.raises(AssayError, match="unit 2 has activation inf on image 5"):
        explain(activations, attributes, NAMES, (2,))
