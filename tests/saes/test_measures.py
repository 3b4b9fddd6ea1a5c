import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from pipeline.saes.activation import Activation
from pipeline.saes.measures import cosine, dead_share, explained_variance, l0, measure, mse
from pipeline.saes.sae import Sae
from tests.saes.examples import Rows


def test_predicting_the_mean_explains_nothing_and_the_input_itself_everything(train: Rows) -> None:
    mean = np.broadcast_to(train.astype(np.float64).mean(axis=0), train.shape)
    assert explained_variance(train, mean) == pytest.approx(0, abs=1e-12)
    assert explained_variance(train, train) == 1.0


def test_explained_variance_is_the_same_for_batches_of_7_and_1024_and_n(train: Rows) -> None:
    noisy = train + np.random.default_rng(0).normal(0, 0.3, train.shape)
    found = [explained_variance(train, noisy, block=block) for block in (7, 1024, len(train))]
    exact = train.astype(np.float64)
    expected = 1 - ((exact - noisy) ** 2).sum() / ((exact - exact.mean(axis=0)) ** 2).sum()
    assert found == pytest.approx([expected] * 3, rel=1e-12)


def test_explained_variance_survives_a_large_offset(train: Rows) -> None:
    exact = train.astype(np.float64)
    noisy = exact + np.random.default_rng(0).normal(0, 0.3, train.shape)
    near, far = explained_variance(exact, noisy), explained_variance(exact + 1e6, noisy + 1e6, block=7)
    assert far == pytest.approx(near, rel=1e-8)


def test_rows_that_do_not_vary_leave_the_explained_variance_undefined() -> None:
    assert np.isnan(explained_variance(np.ones((5, 3)), np.zeros((5, 3))))


def test_mse_and_cosine_have_their_closed_forms() -> None:
    inputs = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    reconstruction = np.array([[4.0, 3.0], [0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert mse(inputs, reconstruction) == pytest.approx((1 + 1 + 1 + 4 + 0 + 1) / 8)
    assert cosine(inputs, reconstruction, block=3) == pytest.approx((24 / 25 + 0 + 1 + 0) / 4)


def test_l0_and_dead_share_count_codes_above_zero_only() -> None:
    codes = np.array([[1.0, 0.0, -2.0, 0.0], [0.5, 0.0, -1.0, 3.0]])
    stored = csr_array(codes)
    stored.data[stored.data == 3.0] = 0.0
    assert (l0(codes), dead_share(codes)) == (1.5, 0.5)
    assert (l0(stored), dead_share(stored)) == (1.0, 0.75)


def test_no_row_has_no_l0_and_only_dead_latents() -> None:
    assert np.isnan(l0(np.zeros((0, 4))))
    assert dead_share(np.zeros((0, 4))) == 1.0


def test_an_sae_that_copies_its_input_measures_as_perfect(train: Rows) -> None:
    d = train.shape[1]
    both = torch.cat([torch.eye(d), -torch.eye(d)], dim=1)
    copy = Sae("copy", Activation("relu"), both.T.contiguous(), torch.zeros(d), both, torch.zeros(2 * d))
    found = measure(copy, train)
    assert found.explained_variance == pytest.approx(1, abs=1e-10)
    assert (found.cosine, found.l0) == (pytest.approx(1), pytest.approx(d))
    assert (found.n_rows, found.dead_share) == (len(train), 0.0)


def test_measures_equal_those_of_codes_and_reconstruction_in_one_piece(train: Rows) -> None:
    from pipeline.saes.frozen import build

    sae = build(train.shape[1], dictionary_size=64, k=4)
    rows = train[:301]
    found, codes, reconstruction = measure(sae, rows), sae.encode(rows), sae.reconstruct(rows).numpy()
    assert found.explained_variance == pytest.approx(explained_variance(rows, reconstruction), rel=1e-6)
    assert found.mse == pytest.approx(mse(rows, reconstruction), rel=1e-6)
    assert found.cosine == pytest.approx(cosine(rows, reconstruction), rel=1e-6)
    assert (found.l0, found.dead_share) == (l0(codes.numpy()), dead_share(codes.numpy()))


def test_undefined_measures_are_null_in_facts() -> None:
    from pipeline.saes.frozen import build

    facts = measure(build(3, dictionary_size=5, k=2), np.ones((4, 3), dtype=np.float32)).facts()
    assert facts["explained_variance"] is None
    assert facts["l0"] == 0
