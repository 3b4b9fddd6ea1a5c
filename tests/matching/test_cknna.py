import sys

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.errors import AssayError
from pipeline.matching import cknna as of_package
from pipeline.matching.cknna import cknna, unbiased_hsic


def literal_hsic(first: np.ndarray, second: np.ndarray) -> float:
    """Song et al., equation 5, with the vectors of ones written out."""
    n, ones = len(first), np.ones(len(first))
    products = np.trace(first @ second)
    sums = (ones @ first @ ones) * (ones @ second @ ones) / ((n - 1) * (n - 2))
    return (products + sums - 2 / (n - 2) * (ones @ first @ second @ ones)) / (n * (n - 3))


def literal(codes: np.ndarray, embeddings: np.ndarray, k: int) -> tuple[float, float, float]:
    """The three HSIC from whole matrices, neighbours by a stable sort of rounded cosines."""
    grams, masks = [], []
    for values in (codes, embeddings):
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        unit = values / np.where(lengths > 0, lengths, 1)
        gram = unit @ unit.T
        mask = np.zeros_like(gram)
        for i, row in enumerate(np.round(gram, 9)):
            order = [j for j in np.argsort(-row, kind="stable") if j != i]
            mask[i, order[:k]] = lengths[i] > 0
        grams.append(gram)
        masks.append(mask)
    common = masks[0] * masks[1]
    return (
        literal_hsic(common * grams[0], common * grams[1]),
        literal_hsic(masks[0] * grams[0], masks[0] * grams[0]),
        literal_hsic(masks[1] * grams[1], masks[1] * grams[1]),
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", range(30))
def test_it_equals_the_whole_matrices_ties_and_zero_rows_included(seed: int, form):
    rng = np.random.default_rng(seed)
    n = rng.integers(5, 40)
    k = int(rng.integers(1, n))
    shared = rng.normal(size=(n, 4))
    codes = np.maximum(shared @ rng.normal(size=(4, 30)) - 2, 0)
    codes[:, 20:] = rng.random((n, 10)) < 0.1
    embeddings = shared + rng.normal(size=(n, 4))
    if seed % 2:
        codes[rng.integers(n, size=3)] = codes[0]
        embeddings[rng.integers(n)] = 0
    if seed % 3 == 0:
        codes = (rng.random((n, 6)) < 0.3).astype(float)
    found = cknna(form(codes), embeddings, k)
    cross, own, other = literal(codes, embeddings, k)
    np.testing.assert_allclose(
        [found.cross, found.of_codes, found.of_embeddings], [cross, own, other], atol=1e-11
    )
    if own > 1e-9 and other > 1e-9:
        assert found.reason == ""
        assert found.value == pytest.approx(cross / np.sqrt(own * other), abs=1e-8)


def test_a_rotated_and_scaled_copy_aligns_fully():
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(200, 6))
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    scaled = embeddings @ rotation * rng.uniform(0.5, 2, size=(200, 1))
    assert cknna(scaled, embeddings).value == pytest.approx(1, abs=1e-9)


def test_unrelated_codes_do_not_align_and_related_ones_lie_between():
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(400, 8))
    near = embeddings + 0.7 * rng.normal(size=(400, 8))
    assert abs(cknna(rng.normal(size=(400, 8)), embeddings).value) < 0.02
    assert 0.1 < cknna(near, embeddings).value < 0.9


def test_with_all_others_as_neighbours_it_is_the_unbiased_cka():
    rng = np.random.default_rng(3)
    codes, embeddings = rng.normal(size=(30, 5)), rng.normal(size=(30, 5))
    codes += embeddings
    grams = []
    for values in (codes, embeddings):
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        gram = unit @ unit.T
        np.fill_diagonal(gram, 0)
        grams.append(gram)
    cross, own, other = (literal_hsic(grams[a], grams[b]) for a, b in ((0, 1), (0, 0), (1, 1)))
    assert cknna(codes, embeddings, k=29).value == pytest.approx(cross / np.sqrt(own * other), abs=1e-9)


def test_the_unbiased_hsic_of_independent_kernels_is_zero_on_average():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(500):
        x, y = rng.normal(size=(2, 8)) + 3
        first, second = np.outer(x, x), np.outer(y, y)
        np.fill_diagonal(first, 0)
        np.fill_diagonal(second, 0)
        found.append(unbiased_hsic(sp.csr_array(first), sp.csr_array(second)))
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(len(found))


def test_a_negative_hsic_below_has_the_value_zero_and_a_reason():
    angles = np.array([0.0, 60.0, 160.0, 300.0])
    chain = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
    found = cknna(chain, np.random.default_rng(0).normal(size=(4, 3)), k=2)
    assert found.of_codes < 0
    assert found.value == 0.0
    assert "of codes" in found.reason


def test_dead_codes_have_the_value_zero_and_a_reason():
    found = cknna(np.zeros((6, 4)), np.random.default_rng(0).normal(size=(6, 3)), k=2)
    assert (found.value, found.n_zero_codes) == (0.0, 6)
    assert found.reason == "the unbiased HSIC of codes with themselves is not positive"


def test_images_that_are_all_alike_have_the_value_zero_whatever_the_rounding():
    rng = np.random.default_rng(0)
    alike = np.outer(rng.uniform(0.1, 9, 40), rng.normal(size=7))
    found = cknna(alike, rng.normal(size=(40, 5)), k=39)
    assert found.value == 0.0
    assert found.reason == "the unbiased HSIC of codes with themselves is not positive"
    assert cknna(alike, alike, k=39).reason.startswith("the unbiased HSIC of codes and of embeddings")


def test_the_size_of_a_block_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((90, 50)) < 0.05, rng.random((90, 50)), 0)
    codes[30:60] = codes[:30]
    embeddings = rng.normal(size=(90, 5))
    whole = cknna(codes, embeddings, 7)
    monkeypatch.setattr(sys.modules["pipeline.matching.cknna"], "CELLS_AT_ONCE", 90 * 7)
    assert cknna(codes, embeddings, 7) == whole


@pytest.mark.parametrize("k", [0, 8, 2.5, -1])
def test_a_k_that_the_images_cannot_give_is_refused(k):
    with pytest.raises(AssayError, match=r"from 1 to 7"):
        cknna(np.ones((8, 2)), np.ones((8, 2)), k)


def test_three_images_are_too_few():
    with pytest.raises(AssayError, match="at least 4"):
        of_package(np.ones((3, 2)), np.ones((3, 2)), 1)
