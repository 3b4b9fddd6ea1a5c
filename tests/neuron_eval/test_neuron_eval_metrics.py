import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.neuron_eval.columns import columns
from pipeline.neuron_eval.pairs import pairs
from pipeline.neuron_eval.registry import COMBINED, METRICS, NAMES, metric

ALPHA = 0.25
SAMPLED = ("correlation_top_and_random", "spearman_top_and_random")

# The slow, literal definitions, for one unit and one concept.


def in_a(a: list[float]) -> list[bool]:
    cutoff = sorted(a, reverse=True)[math.ceil(Fraction(1, 4) * len(a)) - 1]
    return [value >= cutoff for value in a]


def in_c(c: list[float]) -> list[bool]:
    return [value >= 0.5 for value in c]


def share(of: list[bool], given: list[bool]) -> float:
    kept = [x for x, condition in zip(of, given, strict=True) if condition]
    return sum(kept) / len(kept)


def no(held: list[bool]) -> list[bool]:
    return [not value for value in held]


def union(left: list[bool], right: list[bool]) -> list[bool]:
    return [x or y for x, y in zip(left, right, strict=True)]


def both(left: list[bool], right: list[bool]) -> list[bool]:
    return [x and y for x, y in zip(left, right, strict=True)]


def pairwise_auc(score: list[float], label: list[bool]) -> float:
    wins = [
        1.0 if s > t else 0.5 if s == t else 0.0
        for s, x in zip(score, label, strict=True)
        if x
        for t, y in zip(score, label, strict=True)
        if not y
    ]
    return sum(wins) / len(wins)


def stepwise_precision(score: list[float], label: list[bool]) -> float:
    total, recalled = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        above = [s >= threshold for s in score]
        recall = share(above, label)
        total += (recall - recalled) * share(label, above)
        recalled = recall
    return total


def pearson(x: list[float], y: list[float]) -> float:
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    dx, dy = [v - mean_x for v in x], [v - mean_y for v in y]
    return dot(dx, dy) / math.sqrt(dot(dx, dx) * dot(dy, dy))


def dot(x: list[float], y: list[float]) -> float:
    return math.fsum(v * w for v, w in zip(x, y, strict=True))


def midranks(x: list[float]) -> list[float]:
    return [sum(w < v for w in x) + (sum(w == v for w in x) + 1) / 2 for v in x]


def mean(x: list[float], where: list[bool]) -> float:
    return math.fsum(v for v, kept in zip(x, where, strict=True) if kept) / sum(where)


def log_floored(c: list[float]) -> list[float]:
    return [math.log(max(v, 1e-8)) for v in c]


LITERAL: dict[str, Callable[[list[float], list[float]], float]] = {
    "recall": lambda a, c: share(in_c(c), in_a(a)),
    "precision": lambda a, c: share(in_a(a), in_c(c)),
    "f1": lambda a, c: 2 * sum(both(in_a(a), in_c(c))) / (sum(in_a(a)) + sum(in_c(c))),
    "iou": lambda a, c: share(both(in_a(a), in_c(c)), union(in_a(a), in_c(c))),
    "accuracy": lambda a, c: sum(x == y for x, y in zip(in_a(a), in_c(c), strict=True)) / len(a),
    "balanced_accuracy": lambda a, c: (share(in_c(c), in_a(a)) + share(no(in_c(c)), no(in_a(a)))) / 2,
    "inverse_balanced_accuracy": lambda a, c: (share(in_a(a), in_c(c)) + share(no(in_a(a)), no(in_c(c)))) / 2,
    "auc": lambda a, c: pairwise_auc(c, in_a(a)),
    "inverse_auc": lambda a, c: pairwise_auc(a, in_c(c)),
    "correlation": pearson,
    "spearman": lambda a, c: pearson(midranks(a), midranks(c)),
    "cosine": lambda a, c: dot(a, c) / math.sqrt(dot(a, a) * dot(c, c)),
    "wpmi": lambda a, c: (
        mean(log_floored(c), in_a(a)) - math.log(math.fsum(max(v, 1e-8) for v in c) / len(c))
    ),
    "mean_activation_difference": lambda a, c: mean(a, in_c(c)) - mean(a, no(in_c(c))),
    "auprc": lambda a, c: stepwise_precision(c, in_a(a)),
    "inverse_auprc": lambda a, c: stepwise_precision(a, in_c(c)),
}


@st.composite
def tied_columns(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n_images, n_units = draw(st.integers(2, 14)), draw(st.integers(1, 3))
    shape = (n_images, n_units)
    size = n_images * n_units
    a = draw(st.lists(st.integers(-3, 6), min_size=size, max_size=size))
    c = draw(st.lists(st.sampled_from([0, 0.2, 0.5, 0.9, 1]), min_size=size, max_size=size))
    return np.reshape(a, shape) * 0.7, np.reshape(c, shape)


@settings(max_examples=50)
@given(tied_columns())
def test_each_metric_is_its_literal_definition_column_by_column(arrays):
    activations, concepts = arrays
    for name, literal in LITERAL.items():
        scores = metric(name)(activations, concepts, alpha=ALPHA)
        assert len(scores.values) == len(scores.reasons) == activations.shape[1]
        for u, (value, reason) in enumerate(zip(scores.values, scores.reasons, strict=True)):
            if not reason:
                expected = literal(activations[:, u].tolist(), concepts[:, u].tolist())
                assert value == pytest.approx(expected, rel=1e-12, abs=1e-12), name


@settings(max_examples=50)
@given(tied_columns(), st.floats(0, 1))
def test_a_score_is_in_its_range_or_nan_with_a_reason(arrays, penalty):
    own = pairs(*arrays, alpha=ALPHA, penalty=penalty, seed=3)
    for name in NAMES:
        scores, (low, high) = metric(name).scores(own), metric(name).bounds(own)
        assert (np.isnan(scores.values) == [reason != "" for reason in scores.reasons]).all(), name
        held = ~np.isnan(scores.values)
        assert (scores.values[held] >= low[held] - 1e-12).all(), name
        assert (scores.values[held] <= high[held] + 1e-12).all(), name


@settings(max_examples=50)
@given(tied_columns())
def test_a_combination_is_the_harmonic_mean_of_its_two_metrics(arrays):
    for name, (first, second) in COMBINED.items():
        x, y, found = (metric(n)(*arrays, alpha=ALPHA).values for n in (first, second, name))
        for left, right, value in zip(x, y, found, strict=True):
            expected = 2 / (1 / left + 1 / right) if left and right else 0 * left * right
            assert value == pytest.approx(expected, nan_ok=True), name


@settings(max_examples=50)
@given(tied_columns())
def test_midranks_are_the_ranks_of_a_literal_count(arrays):
    found = columns("activations", arrays[0]).midranks
    assert found.tolist() == [midranks(column) for column in arrays[0].T.tolist()]


def test_every_metric_of_the_list_is_there():
    assert set(NAMES) == {*LITERAL, *SAMPLED, *COMBINED}
    assert len(NAMES) == 24
    assert all(METRICS[name].name == name for name in NAMES)


def test_a_perfect_concept_scores_the_most_that_there_is():
    concept = np.repeat([1.0, 0.0], [30, 70])
    own = pairs(concept, concept, alpha=0.3, seed=0)
    for name in NAMES:
        assert metric(name).scores(own).values == pytest.approx(metric(name).bounds(own)[1]), name


def test_average_precision_takes_tied_scores_as_one_step():
    # One positive above, one of two tied below: 1/2 * 1 + 1/2 * 2/3.
    scores = metric("inverse_auprc")([3, 2, 2, 1], [1, 0, 1, 0], alpha=ALPHA)
    assert scores.values.tolist() == pytest.approx([5 / 6])


def test_ties_at_the_cutoff_are_all_active():
    own = pairs([5, 4, 4, 4, 1, 0, 0, 0], np.eye(8)[0], alpha=0.25)
    assert own.active.tolist() == [[True] * 4 + [False] * 4]


def test_a_share_that_rounding_lifts_over_an_integer_counts_as_that_integer():
    assert 0.07 * 100 > 7
    assert pairs(np.arange(100), np.eye(100)[0], alpha=0.07).n_active.tolist() == [7]


def test_each_unit_may_have_its_own_share_of_active_images():
    a = np.tile(np.arange(10.0), (2, 1)).T
    own = pairs(a, np.tile(np.eye(10)[0], (2, 1)).T, alpha=[0.2, 0.45])
    assert own.n_active.tolist() == [2, 5]


def test_a_vector_is_one_column():
    a, c = np.arange(8.0), np.array([0, 0, 1, 0, 1, 1, 0, 1.0])
    for name in NAMES:
        one, same = (metric(name)(x, y, alpha=ALPHA, seed=1) for x, y in ((a, c), (a[:, None], c[:, None])))
        assert one.values.shape == (1,)
        assert one.values.tolist() == same.values.tolist()


def test_huge_and_tiny_activations_correlate_as_ordinary_ones_do():
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=50), rng.random(50)
    for name in ("correlation", "cosine", "spearman"):
        expected = metric(name)(a, c).values
        for scale in (1e300, 1e-300):
            assert metric(name)(a * scale, c).values == pytest.approx(expected), name


def sampled(n_images: int, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(n_images, n_units)), rng.random((n_images, n_units)).round(1)


def test_top_and_random_correlates_over_25_top_and_25_random_images():
    a, c = sampled(20_000, 3)
    own = pairs(a, c, seed=2)
    for u, images in enumerate(own.top_and_random):
        top, others = images[:25], images[25:]
        assert set(top) <= set(np.argsort(a[:, u])[-40:])
        assert len(set(top)) == len(set(others)) == len(others) == 25
        x, y = a[images, u].tolist(), c[images, u].tolist()
        assert metric(SAMPLED[0]).scores(own).values[u] == pytest.approx(pearson(x, y))
        assert metric(SAMPLED[1]).scores(own).values[u] == pytest.approx(pearson(midranks(x), midranks(y)))


def test_top_images_that_are_fewer_than_25_are_all_taken():
    a, c = sampled(1000, 1)
    (images,) = pairs(a, c, seed=0).top_and_random
    assert len(images) == 27
    assert set(images[:2]) == set(np.argsort(a[:, 0])[-2:])


def test_images_tied_at_the_edge_of_the_top_are_drawn_into_it():
    a = np.zeros(20_000)
    a[:20] = 1
    drawn = [pairs(a, a, seed=seed).top_and_random[0][:25] for seed in range(200)]
    # The top 40 are the 20 positives and 20 of the tied rest: 25 of them hold 12.5 positives on average.
    assert np.mean([(images < 20).sum() for images in drawn]) == pytest.approx(12.5, abs=0.6)
    assert len({tuple(images[images >= 20]) for images in drawn}) == 200


def test_top_and_random_depends_on_the_seed_and_the_unit_and_not_on_the_concept():
    a, c = sampled(5000, 2)
    drawn = [images.tolist() for images in pairs(a, c, seed=0).top_and_random]
    assert [images.tolist() for images in pairs(a, 1 - c, seed=0).top_and_random] == drawn
    assert pairs(a[:, :1], c[:, :1], seed=0).top_and_random[0].tolist() == drawn[0]
    assert pairs(a, c, seed=1).top_and_random[0].tolist() != drawn[0]
    same = pairs(np.repeat(a[:, :1], 2, axis=1), c, seed=0).top_and_random
    assert same[0].tolist() != same[1].tolist()


VARYING, LABELS = [1.0, 2, 3, 4], [0.0, 1, 0, 1]
SETS = {"recall", "precision", "f1", "iou", "accuracy", "balanced_accuracy", "inverse_balanced_accuracy"}
OF_A = {*SETS, "auc", "auprc", "wpmi", *COMBINED}
OF_C = {*SETS, "inverse_auc", "mean_activation_difference", "inverse_auprc", *COMBINED}
OF_NOT_C = {name for name in NAMES if "inverse" in name and name != "inverse_auprc"} | {
    "mean_activation_difference",
    "combined_auc",
    "combined_balanced_accuracy",
}
CORRELATIONS = {"correlation", "spearman", *SAMPLED}


@pytest.mark.parametrize(
    ("activations", "concepts", "reason", "names"),
    [
        ([2, 2, 2, 2], LABELS, "constant_activation", set(NAMES)),
        ([0, 0, 0, -1], LABELS, "", set(NAMES)),
        ([-1, -1, -1, 0], LABELS, "", set(NAMES)),
        (VARYING, [0.1, 0.2, 0.3, 0.4], "no_positive", OF_C),
        (VARYING, [0.6, 0.7, 0.8, 0.9], "all_positive", OF_NOT_C),
        (VARYING, [0, 0, 0, 0], "zero_concept", {"cosine", "wpmi"}),
        (VARYING, [0.3, 0.3, 0.3, 0.3], "constant_concept", CORRELATIONS),
    ],
)
def test_a_degenerate_case_is_told_by_the_metrics_it_concerns(activations, concepts, reason, names):
    told = {n for n in NAMES if metric(n)(activations, concepts, alpha=ALPHA, seed=0).reasons == (reason,)}
    assert told == names


def test_a_sparse_unit_whose_ties_take_in_every_image_has_no_active_set():
    sparse, labels = np.eye(8)[0], np.eye(8)[:2].sum(axis=0)
    reasons = {name: metric(name)(sparse, labels, alpha=ALPHA, seed=0).reasons[0] for name in NAMES}
    assert {name for name, reason in reasons.items() if reason == "all_active"} == OF_A
    assert {reason for name, reason in reasons.items() if name not in OF_A} == {""}


def test_a_sample_without_variation_has_no_correlation():
    rare = np.zeros(5000)
    rare[-1] = 1
    reasons = {n: metric(n)(-np.arange(5000.0), rare, seed=0).reasons for n in ("correlation", *SAMPLED)}
    assert reasons == {"correlation": ("",), **dict.fromkeys(SAMPLED, ("constant_sample",))}


def test_one_degenerate_unit_leaves_the_others_alone():
    a, c = np.column_stack([VARYING, [2] * 4]), np.column_stack([LABELS, LABELS])
    for name in NAMES:
        scores = metric(name)(a, c, alpha=ALPHA, seed=0)
        alone = metric(name)(VARYING, LABELS, alpha=ALPHA, seed=0)
        assert scores.reasons == ("", "constant_activation")
        assert scores.values[0] == alone.values[0]


@pytest.mark.parametrize(
    ("activations", "concepts", "settings", "message"),
    [
        ([1, math.nan, 3], [0, 1, 1], {}, r"activations\[1, 0\] is nan; every value must be finite"),
        ([[1, 2], [3, math.inf]], [[0, 1], [1, 0]], {}, r"activations\[1, 1\] is inf"),
        ([1, 2, 3], [0, math.nan, 1], {}, r"concepts\[1, 0\] is nan"),
        ([1, 2, 3], [0, 1, 2], {}, r"concepts\[2, 0\] is 2.0; a concept's presence is in \[0, 1\]"),
        ([1, 2, 3], [0, 1], {}, r"activations are \(3,\) and concepts \(2,\)"),
        ([1], [1], {}, r"activations has shape \(1,\); expected"),
        (np.zeros((3, 0)), np.zeros((3, 0)), {}, r"activations has shape \(3, 0\)"),
        (VARYING, LABELS, {"alpha": 0}, r"alpha of unit 0 is 0.0; it must be in \(0, 1\)"),
        (VARYING, LABELS, {"alpha": [0.1, 0.2]}, r"alpha has shape \(2,\); give one share"),
        (VARYING, LABELS, {"penalty": 1.5}, "penalty is 1.5"),
    ],
)
def test_a_mistake_is_named_with_its_place(activations, concepts, settings, message):
    with pytest.raises(AssayError, match=message):
        metric("recall")(activations, concepts, **settings)


def test_top_and_random_needs_a_seed():
    with pytest.raises(AssayError, match="give them a seed"):
        metric(SAMPLED[0])(VARYING, LABELS)


def test_an_unknown_metric_is_named_with_the_known_ones():
    with pytest.raises(AssayError, match="unknown metric 'dice'; known: recall, precision, f1"):
        metric("dice")


@pytest.mark.long
@pytest.mark.parametrize("name", ["auc", "inverse_auc", "spearman", "auprc", "inverse_auprc"])
def test_a_rank_metric_takes_seconds_for_a_thousand_pairs_and_grows_as_a_sort_does(name):
    seconds = []
    for n_images in (1250, 10_000):
        a, c = sampled(n_images, 1000)
        start = time.perf_counter()
        metric(name)(a, c)
        seconds.append(time.perf_counter() - start)
    print(f"{name}: {seconds[1]:.2f} s, {seconds[1] / seconds[0]:.1f} times that of an eighth of the images")
    assert seconds[1] < 30
    assert seconds[1] / seconds[0] < 24
