import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pipeline.errors import AssayError
from pipeline.scorers import calibration
from pipeline.scorers.calibration import fit_calibration, probabilities
from pipeline.scorers.scorer import unit_rows


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).normal(size=(n, d)), "row")


def test_probabilities_are_the_sigmoid_of_each_pair_whatever_the_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, texts = rows(23, 5), rows(4, 5, seed=1)
    slow = [
        [1 / (1 + np.exp(-58.0 * (float(np.dot(i.astype(float), t)) - 0.13))) for t in texts] for i in images
    ]
    for chunk in (1, 7, 4096):
        monkeypatch.setattr(calibration, "CHUNK", chunk)
        got = probabilities(images, texts, 58.0, -0.13)
        assert got.dtype == np.float32 and got.shape == (23, 4)
        np.testing.assert_allclose(got, slow, rtol=1e-6, atol=1e-30)


def test_probabilities_fill_what_is_given_and_take_no_text_and_no_image() -> None:
    out = np.full((3, 2), -1, dtype=np.float32)
    assert probabilities(rows(3, 4), rows(2, 4), 10.0, 0.0, out=out) is out
    assert (out >= 0).all()
    assert probabilities(rows(3, 4), np.empty((0, 4)), 1.0, 0.0).shape == (3, 0)
    assert probabilities(np.empty((0, 4)), rows(2, 4), 1.0, 0.0).shape == (0, 2)


def test_a_fit_finds_the_numbers_that_made_the_labels() -> None:
    rng = np.random.default_rng(0)
    cosines = rng.uniform(-0.2, 0.4, size=(4000, 25))
    labels = rng.random(cosines.shape) < expit(58 * (cosines - 0.13))
    fit = fit_calibration(cosines, labels)
    assert fit.a == pytest.approx(58, rel=0.02) and fit.b == pytest.approx(-0.13, abs=0.002)
    assert (fit.n_images, fit.n_pairs, fit.n_positive) == (4000, 100_000, labels.sum())
    assert fit.flags == ()


def newton(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    beta = np.zeros(2)
    design = np.stack([x, np.ones_like(x)], 1)
    for _ in range(200):
        p = expit(design @ beta)
        step = np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (y - p))
        beta += step * min(1.0, 5 / np.abs(step).max())
    return float(beta[0]), float(beta[1] / beta[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(2, 60), st.floats(-0.3, 0.3))
def test_a_fit_equals_newtons_method_and_its_loss_is_the_mean_log_loss(seed: int, a: float, b: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(0.1, 0.1, 400)
    y = (rng.random(400) < expit(a * (x + b))).astype(float)
    fit = fit_calibration(x, np.concatenate([y[:-2], [0, 1]]))
    y[-2:] = 0, 1
    if fit.flags:
        return
    expected = newton(x, y)
    assert fit.a == pytest.approx(expected[0], rel=1e-3) and fit.b == pytest.approx(expected[1], abs=1e-3)
    p = expit(fit.a * (x + fit.b))
    assert fit.log_loss == pytest.approx(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)), rel=1e-9)


def test_a_fit_keeps_the_share_of_positives() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.1, 5000)
    y = rng.random(5000) < expit(20 * (x - 0.1))
    fit = fit_calibration(x, y)
    assert expit(fit.a * (x + fit.b)).mean() == pytest.approx(y.mean(), abs=1e-5)


def test_labels_told_apart_without_error_stop_at_the_bound_and_are_flagged() -> None:
    x = np.array([0.10, 0.11, 0.12, 0.30, 0.31])
    fit = fit_calibration(x, np.array([0, 0, 0, 1, 1]))
    assert fit.flags == ("separable",)
    assert 100 < fit.a <= 1000 and -0.30 < fit.b < -0.12 and fit.log_loss < 1e-6


@pytest.mark.parametrize("x", [[0.3, 0.2, 0.1, 0.0], [0.1, 0.1, 0.1, 0.1]])
def test_cosines_that_do_not_rise_with_the_labels_give_the_share_of_positives(x: list[float]) -> None:
    fit = fit_calibration(np.array(x), np.array([0, 0, 1, 1]))
    assert fit.flags == ("no_signal",)
    assert fit.a > 0
    np.testing.assert_allclose(expit(fit.a * (np.array(x) + fit.b)), 0.5, atol=1e-3)


@pytest.mark.parametrize(("label", "said"), [(0, "no positive label"), (1, "no negative label")])
def test_one_class_alone_is_refused(label: int, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        fit_calibration(np.array([0.1, 0.2]), np.array([label, label]))


def test_other_shapes_and_cosines_that_are_not_finite_are_refused() -> None:
    with pytest.raises(AssayError, match="differ in shape"):
        fit_calibration(np.zeros((3, 2)), np.zeros((2, 3)))
    with pytest.raises(AssayError, match="not finite"):
        fit_calibration(np.array([0.1, np.nan]), np.array([0, 1]))


def test_unit_rows_have_length_one_and_a_bad_row_is_named() -> None:
    np.testing.assert_allclose(np.linalg.norm(rows(50, 9), axis=1), 1, atol=1e-6)
    for bad in (0.0, np.nan, np.inf):
        values = np.ones((4, 3))
        values[2] = bad
        with pytest.raises(AssayError, match="image row 2"):
            unit_rows(values, "image row")
