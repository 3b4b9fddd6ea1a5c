import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.explainers.random import explain

NAMES = ["red", "nan", "round", "blue"]


def texts(units, seed=0, names=NAMES):
    table = explain(names, units, seed=seed).table
    return dict(zip(table["unit"], table["description"], strict=True))


def test_a_units_text_does_not_depend_on_the_other_units():
    every = texts(range(50))
    assert texts([7, 3]) == {7: every[7], 3: every[3]}
    assert list(texts([7, 3])) == [7, 3]


def test_another_seed_and_the_same_seed():
    assert texts(range(50)) == texts(range(50))
    assert texts(range(50)) != texts(range(50), seed=1)


def test_it_draws_from_its_own_generator():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    texts(range(5))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_all_names_are_equally_likely():
    counts = np.unique(list(texts(range(4000)).values()), return_counts=True)[1]
    assert len(counts) == 4
    assert ((counts - 1000) ** 2 / 1000).sum() < 16.27  # chi-square, 3 degrees of freedom, p = .001


def test_no_name_and_a_negative_unit_stop():
    with pytest.raises(AssayError, match="no concept"):
        explain([], (0,), seed=0)
    with pytest.raises(AssayError, match="unit -1"):
        explain(NAMES, (0, -1), seed=0)
