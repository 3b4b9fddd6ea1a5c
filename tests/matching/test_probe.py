from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

from pipeline.errors import AssayError
from pipeline.matching.logistic import Data, fit
from pipeline.matching.probe import (
    NO_NEGATIVE,
    NO_POSITIVE,
    NO_VALIDATION,
    Probe,
    auc,
    best_thresholds,
    linear_probe,
    load_probe,
    probe_scores,
)


def images(n: int, seed: int, d: int = 10, a: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Activations on uneven scales, and attributes that are logistic in them."""
    truth = np.random.default_rng(99)
    scales, weights = truth.uniform(0.1, 20, d), truth.normal(size=(d, a))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return (x * scales + 5).astype(np.float32), rng.random((n, a)) < expit(2 * x @ weights - 1)


def f1(present: np.ndarray, predicted: np.ndarray) -> float:
    total = present.sum() + predicted.sum()
    return 2 * (present & predicted).sum() / total if total else 0.0


@pytest.fixture(scope="module")
def probe() -> Probe:
    return linear_probe(*images(1500, 0), *images(500, 1), 0)


def test_it_does_what_the_fitted_maximum_likelihood_does(probe: Probe):
    x, y = images(1500, 0)
    held_x, held_y = images(4000, 2)
    found = probe.probabilities(held_x)
    for a in range(4):
        best = LogisticRegression(C=1e6, max_iter=2000).fit((x - x.mean(0)) / x.std(0), y[:, a])
        expected = best.predict_proba((held_x - x.mean(0)) / x.std(0))[:, 1]
        assert np.abs(found[:, a] - expected).mean() < 0.03
        assert auc(found, held_y)[a] > roc_auc_score(held_y[:, a], expected) - 0.003


def test_the_kept_state_is_that_of_the_least_validation_loss():
    x, y = images(60, 0, d=40)
    held_x, held_y = images(200, 1, d=40)
    settings = {"learning_rate": 0.05, "batch_size": 16, "patience": 400}
    few = [
        linear_probe(x, y, held_x, held_y, 0, max_epochs=n, **settings).validation_loss for n in range(1, 40)
    ]
    many = linear_probe(x, y, held_x, held_y, 0, max_epochs=400, **settings)
    assert (many.epochs < 40).all()
    np.testing.assert_array_equal(many.validation_loss, np.min(few, axis=0))
    probabilities = many.probabilities(held_x)
    loss = -np.where(held_y, np.log(probabilities), np.log1p(-probabilities)).mean(axis=0)
    np.testing.assert_allclose(loss, many.validation_loss)


def test_where_nothing_can_be_learnt_the_training_share_is_kept():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 80)), rng.random((50, 1)) < 0.2
    found = linear_probe(x, y, rng.normal(size=(2000, 80)), rng.random((2000, 1)) < 0.2, 0, learning_rate=0.1)
    assert found.epochs.tolist() == [0]
    np.testing.assert_allclose(found.probabilities(x), y.mean())


def test_an_attribute_is_fitted_as_if_it_were_alone(probe: Probe):
    x, y = images(1500, 0)
    held_x, held_y = images(500, 1)
    for a in range(4):
        alone = linear_probe(x, y[:, [a]], held_x, held_y[:, [a]], 0)
        assert alone.epochs[0] == probe.epochs[a]
        np.testing.assert_allclose(alone.weights[:, 0], probe.weights[:, a], rtol=1e-6, atol=1e-9)


def test_a_seed_gives_one_probe_and_another_seed_another(probe: Probe):
    again, other = (linear_probe(*images(1500, 0), *images(500, 1), seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.weights, probe.weights)
    assert (other.weights != probe.weights).any()


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.random((30, 1)) < 0.5
    data = Data(x, y, x, y)
    one = fit(data, 0, 1e-4, 30, 1, 5, False)
    start = np.log(y.mean() / (1 - y.mean()))
    slope = x.T @ (y.mean() - y)
    np.testing.assert_allclose(one.weights, -1e-4 * np.sign(slope), rtol=1e-4)
    assert one.biases[0] == pytest.approx(start, abs=1.1e-4)
    assert one.loss[0] < -(y * np.log(y.mean()) + ~y * np.log(1 - y.mean())).mean()


def test_attributes_of_one_class_are_flagged_and_never_or_always_predicted():
    x, y = images(300, 0)
    held_x, held_y = images(200, 1)
    y, held_y = y.copy(), held_y.copy()
    y[:, 0], y[:, 1], held_y[:, 2] = False, True, False
    found = linear_probe(x, y, held_x, held_y, 0)
    assert found.reasons == (NO_POSITIVE, NO_NEGATIVE, NO_VALIDATION, "")
    probabilities = found.probabilities(held_x)
    assert (probabilities[:, 0] == 0).all()
    assert (probabilities[:, 1] == 1).all()
    assert (found.thresholds[:3] == 0.5).all()
    assert np.isnan(found.validation_loss[:2]).all()
    assert np.isfinite(found.validation_loss[2:]).all()
    scores = probe_scores(found, held_x, held_y)
    assert scores["reason"].tolist() == list(found.reasons)
    assert scores["f1"][2] == 0
    assert np.isnan(scores["auc"][2])


def test_an_attribute_without_positives_in_training_is_not_predicted_at_any_threshold():
    x, y = images(100, 0, a=1)
    found = linear_probe(x, y & False, x, y, 0)
    assert not found.predict(x).any()


def test_a_column_that_does_not_vary_is_harmless():
    x, y = images(300, 0)
    constant = np.hstack([x, np.full((300, 1), 3.0)])
    found = linear_probe(constant, y, constant, y, 0)
    assert np.isfinite(found.probabilities(constant)).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_has_the_greatest_f1_of_all(seed: int):
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(0, 6, size=(25, 3)) / 6
    present = rng.random((25, 3)) < 0.4
    found = best_thresholds(probabilities, present)
    for a in range(3):
        cuts = [found[a], *np.linspace(0, 1, 61)]
        own, *others = [f1(present[:, a], probabilities[:, a] >= cut) for cut in cuts]
        assert own == max(others)


def test_scores_are_the_known_ones_of_scikit_learn(probe: Probe):
    x, y = images(700, 5)
    scores, probabilities = probe_scores(probe, x, y), probe.probabilities(x)
    assert scores["attribute"].tolist() == [0, 1, 2, 3]
    for a in range(4):
        predicted = probabilities[:, a] >= probe.thresholds[a]
        assert scores["f1"][a] == pytest.approx(f1_score(y[:, a], predicted))
        assert scores["f1_at_half"][a] == pytest.approx(f1_score(y[:, a], probabilities[:, a] >= 0.5))
        assert scores["auc"][a] == pytest.approx(roc_auc_score(y[:, a], probabilities[:, a]))
        assert scores["accuracy"][a] == np.mean(predicted == y[:, a])
    tied = np.round(probabilities, 1)
    np.testing.assert_allclose(auc(tied, y), [roc_auc_score(y[:, a], tied[:, a]) for a in range(4)])


def test_a_saved_probe_is_the_same_probe(probe: Probe, tmp_path: Path):
    probe.save(tmp_path / "probe.safetensors")
    loaded = load_probe(tmp_path / "probe.safetensors")
    x, _ = images(50, 7)
    np.testing.assert_array_equal(loaded.probabilities(x), probe.probabilities(x))
    np.testing.assert_array_equal(loaded.thresholds, probe.thresholds)
    np.testing.assert_array_equal(loaded.epochs, probe.epochs)
    assert (loaded.reasons, loaded.seed) == (probe.reasons, probe.seed)


def test_a_file_that_is_no_probe_is_refused(tmp_path: Path):
    path = tmp_path / "probe.safetensors"
    with pytest.raises(AssayError, match="is missing"):
        load_probe(path)
    path.write_bytes(b"no weights")
    with pytest.raises(AssayError, match="is no probe"):
        load_probe(path)
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(AssayError, match="is no probe of format"):
        load_probe(path)


def test_tables_that_do_not_fit_are_refused(probe: Probe):
    x, y = images(30, 0)
    with pytest.raises(AssayError, match="validation_x 9"):
        linear_probe(x, y, x[:, :9], y, 0)
    with pytest.raises(AssayError, match="validation_y 3"):
        linear_probe(x, y, x, y[:, :3], 0)
    with pytest.raises(AssayError, match="a row for each row"):
        linear_probe(x, y[:20], x, y, 0)
    with pytest.raises(AssayError, match="trained on 10"):
        probe.probabilities(x[:, :4])
    with pytest.raises(AssayError, match="the probe has 4"):
        probe_scores(probe, x, y[:, :2])
    with pytest.raises(AssayError, match="patience is 0"):
        linear_probe(x, y, x, y, 0, patience=0)
    with pytest.raises(AssayError, match=r"train_x\[3, 2\] is nan"):
        linear_probe(np.where(np.indices(x.shape).sum(0) == 5, np.nan, x)[:, :3], y, x, y, 0)
