import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.errors import AssayError
from pipeline.matching.monosemanticity import CONSTANT, NEVER_FIRES, ONE_IMAGE, monosemanticity


def pairwise(codes: np.ndarray, embeddings: np.ndarray) -> list[float]:
    """The definition: every pair of images, one latent at a time."""
    lengths = np.linalg.norm(embeddings, axis=1)
    scores = []
    for code in codes.T:
        low, high = code.min(), code.max()
        weights = (code - low) / (high - low) if high > low else code * 0
        above = below = 0.0
        for i, j in itertools.permutations(range(len(code)), 2):
            both = lengths[i] * lengths[j]
            cosine = embeddings[i] @ embeddings[j] / both if both > 0 else 0.0
            above += weights[i] * weights[j] * cosine
            below += weights[i] * weights[j]
        scores.append(above / below if below > 0 else np.nan)
    return scores


def a_case(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 14), rng.integers(1, 5)
    codes = np.where(rng.random((n, 6)) < rng.random(6), rng.normal(size=(n, 6)), 0.0)
    if seed % 2:
        codes = np.abs(codes)
    if seed % 3 == 0:
        codes += 0.5
    embeddings = rng.normal(size=(n, d))
    if seed % 5 == 0:
        embeddings[rng.integers(n)] = 0
    return codes, embeddings


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", range(30))
def test_the_closed_form_equals_the_sum_over_all_pairs(seed: int, form):
    codes, embeddings = a_case(seed)
    found = monosemanticity(form(codes), embeddings)
    np.testing.assert_allclose(found.values, pairwise(codes, embeddings), atol=1e-10)


def test_sparse_codes_give_what_the_same_dense_codes_give():
    rng = np.random.default_rng(1)
    codes = np.where(rng.random((300, 40)) < 0.05, rng.exponential(size=(300, 40)), 0.0)
    embeddings = rng.normal(size=(300, 8))
    noise = np.full((300, 200), 0.25)
    noise[0] = 0
    sparse, dense = monosemanticity(codes, embeddings), monosemanticity(np.hstack([codes, noise]), embeddings)
    np.testing.assert_allclose(sparse.values, dense.values[:40], rtol=1e-12)


def test_a_latent_of_like_images_scores_one_and_one_of_opposites_minus_one():
    embeddings = np.array([[1.0, 0], [2.0, 0], [-1.0, 0], [0, 1.0]])
    codes = np.array([[3.0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(monosemanticity(codes, embeddings).values, [1, -1, 0], atol=1e-15)


def test_noise_scores_the_mean_cosine_of_all_images():
    rng = np.random.default_rng(2)
    embeddings = rng.normal(size=(2000, 16)) + 1
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    of_all = (np.sum(unit.sum(axis=0) ** 2) - 2000) / (2000 * 1999)
    assert monosemanticity(rng.random((2000, 100)), embeddings).mean == pytest.approx(of_all, abs=0.01)


def test_undefined_latents_are_nan_with_a_reason_and_leave_the_mean():
    codes = np.array([[0, 2, 5, 1, 0], [0, 2, 0, 1, -1], [0, 2, 0, 0, 0]], dtype=float)
    embeddings = np.array([[1.0, 0], [1.0, 0], [0, 1.0]])
    for form in (np.asarray, sp.csr_array):
        found = monosemanticity(form(codes), embeddings)
        assert found.reasons == (NEVER_FIRES, CONSTANT, ONE_IMAGE, "", "")
        assert found.n_undefined == 3
        assert found.values[3] == pytest.approx(1)
        assert found.values[4] == pytest.approx(0)
        assert found.mean == pytest.approx(0.5)


def test_no_latent_with_a_score_has_the_mean_nan():
    assert np.isnan(monosemanticity(np.zeros((3, 2)), np.ones((3, 2))).mean)


def test_an_image_without_embedding_counts_as_unlike_all_and_is_counted():
    embeddings = np.array([[1.0, 0], [1.0, 0], [0, 0]])
    found = monosemanticity(np.ones((3, 1)) * [[1], [1], [0.5]], embeddings)
    assert found.n_zero_embeddings == 1
    least = monosemanticity(np.array([[1.0], [1], [1], [0]]), np.vstack([embeddings, [1, 1]]))
    assert least.values[0] == pytest.approx(1 / 3)


def test_values_of_another_number_of_images_are_refused():
    with pytest.raises(AssayError, match="give one row an image"):
        monosemanticity(np.ones((4, 2)), np.ones((3, 2)))


def test_bool_codes_are_weights_of_zero_and_one():
    fires = np.array([[True, False], [True, True], [False, True]])
    embeddings = np.array([[1.0, 0], [1.0, 0], [0, 1.0]])
    np.testing.assert_allclose(monosemanticity(fires, embeddings).values, [1, 0], atol=1e-15)
