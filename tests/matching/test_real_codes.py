import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.errors import AssayError
from pipeline.matching.real_codes import embeddings_of, real_codes, sparse_codes, unit_rows, unit_sparse_rows


def some_codes(density: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.where(rng.random((40, 30)) < density, rng.normal(size=(40, 30)), 0.0)


@pytest.mark.parametrize("density", [0.03, 0.6])
def test_the_form_follows_the_density_and_not_the_form_that_came(density: float):
    codes = some_codes(density)
    found = [real_codes(codes), real_codes(sp.csr_array(codes)), real_codes(sp.coo_matrix(codes))]
    assert [sp.issparse(each) for each in found] == [density < 0.1] * 3
    for each in found:
        np.testing.assert_array_equal(each.toarray() if sp.issparse(each) else each, codes)


def test_stored_zeros_and_doubled_cells_are_the_zeros_and_sums_that_they_mean():
    codes = sp.coo_array(([1.0, 2.0, 0.0, -1.0], ([0, 0, 1, 2], [1, 1, 0, 1])), shape=(3, 2))
    found = sparse_codes(codes)
    assert found.nnz == 2
    np.testing.assert_array_equal(found.toarray(), [[0, 3], [0, 0], [0, -1]])


def test_the_codes_that_came_are_not_changed():
    codes = sp.csr_array(([0.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2))
    sparse_codes(codes)
    assert codes.nnz == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_value_that_is_not_finite_is_named_with_its_place(value: float, form):
    codes = np.zeros((4, 3))
    codes[2, 1] = value
    with pytest.raises(AssayError, match=rf"codes\[2, 1\] is {value}"):
        real_codes(form(codes))


@pytest.mark.parametrize("codes", [np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0)), [["a"]]])
def test_what_is_no_table_of_numbers_is_refused(codes):
    with pytest.raises(AssayError, match="codes have"):
        real_codes(codes)


def test_embeddings_of_other_images_are_refused():
    with pytest.raises(AssayError, match="3 rows and codes 4"):
        embeddings_of(np.ones((3, 2)), 4)


def test_unit_rows_have_length_one_and_rows_of_zeros_stay_and_are_named():
    codes = some_codes(0.2)
    codes[[3, 7]] = 0
    dense, zero = unit_rows(codes)
    sparse, sparse_zero = unit_sparse_rows(sp.csr_array(codes))
    assert np.flatnonzero(zero).tolist() == np.flatnonzero(sparse_zero).tolist() == [3, 7]
    np.testing.assert_allclose(np.linalg.norm(dense[~zero], axis=1), 1)
    np.testing.assert_allclose(sparse.toarray(), dense, rtol=1e-14)
    assert not dense[zero].any()
