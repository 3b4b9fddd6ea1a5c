import numpy as np
import pytest
import torch

from pipeline.errors import AssayError
from pipeline.saes.activation import Activation, largest, noise


def test_topk_keeps_k_of_each_row_and_takes_the_lower_latent_on_a_tie() -> None:
    pre = torch.tensor([[1.0, 3.0, 3.0, 3.0, 0.0], [5.0, 4.0, 3.0, 2.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    codes = Activation("topk", k=2).codes(pre)
    assert codes.tolist() == [[0, 3, 3, 0, 0], [5, 4, 0, 0, 0], [2, 2, 0, 0, 0]]


def test_topk_equals_a_stable_sort_on_rows_full_of_ties() -> None:
    random = np.random.default_rng(0)
    pre = random.integers(-2, 3, size=(300, 12)).astype(np.float32)
    for k in (1, 3, 11, 12, 20):
        order = np.argsort(-pre, axis=1, kind="stable")[:, :k]
        expected = np.zeros(pre.shape, dtype=bool)
        np.put_along_axis(expected, order, True, axis=1)
        assert (largest(torch.from_numpy(pre), k).numpy() == expected).all()


def test_a_negative_among_the_k_largest_is_code_zero_and_does_not_fire() -> None:
    codes = Activation("topk", k=3).codes(torch.tensor([[-1.0, 2.0, -0.5, -3.0]]))
    assert codes.tolist() == [[0, 2, 0, 0]]


def test_a_negative_threshold_of_a_foreign_sae_gives_no_negative_code() -> None:
    activation = Activation("threshold", threshold=torch.tensor([-1.0, 0.5]))
    assert activation.codes(torch.tensor([[-0.5, 0.5], [0.2, 0.6]])).tolist() == pytest.approx(
        np.array([[0, 0], [0.2, 0.6]])
    )


@pytest.mark.parametrize("kind", ["topk", "threshold", "noise"])
def test_a_kind_without_what_it_needs_is_an_error(kind: str) -> None:
    with pytest.raises(AssayError, match=f"'{kind}' lacks"):
        Activation(kind)


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(AssayError, match="'softmax' is not known"):
        Activation("softmax")


def test_noise_depends_on_the_seed_and_the_row_alone() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    codes = noise(rows, 40, 5, seed=3)
    assert ((codes > 0).sum(axis=1) == 5).all()
    assert (noise(rows[::-1], 40, 5, seed=3)[::-1] == codes).all()
    assert (noise(rows[7:8], 40, 5, seed=3)[0] == codes[7]).all()
    assert not (noise(rows, 40, 5, seed=4) == codes).all()
    assert ((codes > 0).any(axis=0)).sum() > 35


def test_noise_takes_minus_zero_for_zero() -> None:
    plus, minus = np.zeros((1, 3), dtype=np.float32), -np.zeros((1, 3), dtype=np.float32)
    assert (noise(plus, 9, 2, seed=0) == noise(minus, 9, 2, seed=0)).all()
