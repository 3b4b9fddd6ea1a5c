import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.neuron_eval import sanity
from pipeline.neuron_eval.columns import columns
from pipeline.neuron_eval.pairs import Pairs, pairs
from pipeline.neuron_eval.registry import NAMES, metric
from pipeline.neuron_eval.sanity import extra_labels, missing_labels, sanity_table, width

N_IMAGES, N_UNITS = 20_000, 24
LOG_FLOOR = math.log(1e-8)

# Changes at a = c with frequency f and alpha = f, in shares of each metric's range: missing, extra.
CLOSED: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "recall": (lambda f: -1 / 2, lambda f: 0),
    "precision": (lambda f: 0, lambda f: -1 / 2),
    "f1": (lambda f: -1 / 3, lambda f: -1 / 3),
    "iou": (lambda f: -1 / 2, lambda f: -1 / 2),
    "accuracy": (lambda f: -f / 2, lambda f: -f),
    "balanced_accuracy": (lambda f: -1 / 4, lambda f: -f / (2 * (1 - f))),
    "inverse_balanced_accuracy": (lambda f: -f / (4 - 2 * f), lambda f: -1 / 4),
    "auc": (lambda f: -1 / 4, lambda f: -f / (2 * (1 - f))),
    "inverse_auc": (lambda f: -f / (4 - 2 * f), lambda f: -1 / 4),
    "correlation": (
        lambda f: (math.sqrt((1 - f) / (2 - f)) - 1) / 2,
        lambda f: (math.sqrt((1 - 2 * f) / (2 * (1 - f))) - 1) / 2,
    ),
    "cosine": (lambda f: -0.146447, lambda f: -0.146447),
    "auprc": (lambda f: -(1 - f) / 2, lambda f: -1 / 2),
    "inverse_auprc": (lambda f: -1 / 2, lambda f: -1 / 2 + f),
    "mean_activation_difference": (lambda f: -f / (4 - 2 * f), lambda f: -1 / 4),
    "wpmi": (
        lambda f: (LOG_FLOOR / 2 + math.log(2)) / -(LOG_FLOOR + math.log(f)),
        lambda f: -math.log(2) / -(LOG_FLOOR + math.log(f)),
    ),
}
CLOSED["spearman"] = CLOSED["correlation"]  # Midranks of two values are a straight line of them.


def concepts_of(f: float, n_images: int = N_IMAGES, n_units: int = N_UNITS) -> np.ndarray:
    rng = np.random.default_rng(7)
    rows = np.arange(n_images) < round(f * n_images)
    return np.stack([rng.permutation(rows) for _ in range(n_units)], axis=1).astype(float)


def change(name: str, before: Pairs, after: Pairs) -> np.ndarray:
    own = metric(name)
    return (own.scores(after).values - own.scores(before).values) / width(own, before)


@pytest.mark.parametrize("f", [0.499, 0.1, 0.01])
def test_changes_at_a_equals_c_are_the_closed_forms(f):
    c = concepts_of(f)
    before = pairs(c, c, alpha=f)
    perturbed = [
        before.with_concepts(columns("concepts", own(c, 11))) for own in (missing_labels, extra_labels)
    ]
    for name, forms in CLOSED.items():
        for form, after in zip(forms, perturbed, strict=True):
            found, expected = change(name, before, after), form(f)
            error = found.std(ddof=1) / math.sqrt(N_UNITS)
            bias = 2 * abs(expected) / (f * N_IMAGES)
            assert abs(found.mean() - expected) <= 5 * error + bias + 1e-12, name


def test_ties_are_shared_out_whatever_the_order_of_the_images():
    # Ties that go to the image that comes first, or last, would give -.75 or -.25.
    c = concepts_of(0.499)[:, :1]
    changed = extra_labels(c, 0)
    for order in (np.arange(N_IMAGES), np.argsort(c[:, 0]), np.argsort(-c[:, 0])):
        before, after = (pairs(c[order], own[order], alpha=0.499) for own in (c, changed))
        assert change("auc", before, after) == pytest.approx(-0.498, abs=0.002)
        assert change("spearman", before, after) == pytest.approx(-0.4776, abs=0.01)


def test_missing_labels_drop_half_of_the_positives_and_touch_nothing_else():
    soft = np.random.default_rng(0).choice([0, 0.2, 0.5, 0.8, 1], size=(20_000, 2))
    changed = missing_labels(soft, 0)
    positive = soft >= 0.5
    dropped = changed != soft
    assert not dropped[~positive].any()
    assert (changed[dropped] == 0).all()
    np.testing.assert_allclose(dropped[positive].mean(), 0.5, atol=0.015)


@pytest.mark.parametrize("f", [0.3, 0.05])
def test_extra_labels_double_the_positives_and_touch_nothing_else(f):
    c = concepts_of(f, n_units=10)
    changed = extra_labels(c, 0)
    assert (changed[c == 1] == 1).all()
    assert set(np.unique(changed)) == {0, 1}
    np.testing.assert_allclose(changed.mean(), 2 * f, rtol=0.03)


def test_a_concept_on_half_of_the_images_becomes_all_positive():
    assert extra_labels([1, 1, 0, 0], 0).tolist() == [1, 1, 1, 1]
    assert extra_labels([1, 1, 1, 0], 0).tolist() == [1, 1, 1, 1]
    assert extra_labels([0, 0, 0, 0], 0).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("perturbed", [missing_labels, extra_labels])
def test_changed_labels_depend_on_the_seed_and_the_unit_alone(perturbed):
    c = concepts_of(0.2, 500, 3)
    before = c.copy()
    whole = perturbed(c, 0)
    assert (c == before).all()
    assert (perturbed(c[:, :1], 0) == whole[:, :1]).all()
    assert (perturbed(c[:, 0], 0) == whole[:, 0]).all()
    assert (perturbed(c, 1) != whole).any()
    twice = perturbed(np.repeat(c[:, :1], 2, axis=1), 0)
    assert (twice[:, 0] != twice[:, 1]).any()


def noisy(n_images: int = 3000, n_units: int = 10) -> tuple[np.ndarray, np.ndarray]:
    c = concepts_of(0.1, n_images, n_units)
    return c + np.random.default_rng(1).normal(0, 0.4, c.shape), c


def test_the_table_is_the_mean_change_and_the_share_that_falls():
    a, c = noisy()
    table = sanity_table(a, c, seed=4, alpha=0.1).set_index("metric")
    assert table.index.tolist() == list(NAMES)
    before = pairs(a, c, alpha=0.1, seed=4)
    for test, changed in (("missing", missing_labels(c, 4)), ("extra", extra_labels(c, 4))):
        after = pairs(a, changed, alpha=0.1, seed=4)
        for name in NAMES:
            own = metric(name)
            changes = (own.scores(after).values - own.scores(before).values) / width(own, before)
            assert table.loc[name, f"{test}_n"] == 10
            assert table.loc[name, f"{test}_change"] == pytest.approx(changes.mean())
            assert table.loc[name, f"{test}_share"] == np.mean(changes < -0.001)
            assert table.loc[name, f"{test}_passes"] == (np.mean(changes < -0.001) >= 0.9)
    assert (table["passes"] == (table["missing_passes"] & table["extra_passes"])).all()
    assert set(table["flag"]) == {""}


def test_blocks_of_units_do_not_change_the_table(monkeypatch):
    a, c = noisy()
    whole = sanity_table(a, c, seed=0, alpha=np.linspace(0.05, 0.3, 10))
    monkeypatch.setattr(sanity, "BLOCK_VALUES", 3 * 3000)
    pd.testing.assert_frame_equal(sanity_table(a, c, seed=0, alpha=np.linspace(0.05, 0.3, 10)), whole)


def test_nine_of_ten_units_that_fall_are_enough():
    a, c = noisy()
    a[:, 0] = 1 - 2 * c[:, 0]
    table = sanity_table(a, c, ["correlation"], seed=0)
    assert table["missing_share"].tolist() == [0.9]
    assert table["missing_passes"].tolist() == [True]
    a[:, 1] = 1 - 2 * c[:, 1]
    assert sanity_table(a, c, ["correlation"], seed=0)["missing_passes"].tolist() == [False]


def test_units_without_a_score_are_left_out_and_told():
    a, c = noisy()
    a[:, 0] = 1
    table = sanity_table(a, c, ["correlation"], seed=0)
    assert table["missing_n"].tolist() == table["extra_n"].tolist() == [9]
    assert table["flag"].tolist() == ["missing_undefined;extra_undefined"]
    empty = sanity_table(np.ones((50, 2)), c[:50, :2], ["correlation", "mean_activation_difference"], seed=0)
    assert empty["flag"].tolist() == ["missing_no_unit;extra_no_unit"] * 2
    assert empty["missing_change"].isna().all()
    assert not empty["passes"].any()


def test_a_concept_that_becomes_all_positive_is_undefined_where_its_complement_is_needed():
    c = concepts_of(0.5, 400, 2)
    table = sanity_table(c, c, ["correlation", "inverse_auc", "iou"], seed=0, alpha=0.5).set_index("metric")
    assert table["extra_n"].to_dict() == {"correlation": 0, "inverse_auc": 0, "iou": 2}
    assert table["missing_n"].tolist() == [2, 2, 2]


def passing(f: float, n_images: int) -> set[str]:
    c = concepts_of(f, n_images, 20)
    table = sanity_table(c, c, seed=0, alpha=f)
    return set(table.loc[table["passes"], "metric"])


def test_the_five_metrics_that_the_paper_recommends_pass_at_common_and_rare_concepts():
    recommended = {"correlation", "cosine", "auprc", "f1", "iou"}
    common, rare = passing(0.499, 5000), passing(0.001, 50_000)
    assert recommended <= common & rare
    assert "inverse_auprc" in rare - common
    assert {"recall", "precision"}.isdisjoint(common | rare)
    blind = {"accuracy", "balanced_accuracy", "auc", "inverse_auc", "mean_activation_difference"}
    assert blind <= common - rare


def test_an_unknown_metric_is_refused_before_anything_is_computed():
    with pytest.raises(AssayError, match="unknown metric 'dice'"):
        sanity_table(*noisy(), ["dice"], seed=0)
