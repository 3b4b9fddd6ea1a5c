"""The vectorised study equals a loop over pairs with the pipeline's own functions."""

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd.aggregation.posterior import bragg
from pipeline.crowd.correlation import drawn_correlation
from pipeline.crowd.estimators import Population, Sample
from pipeline.crowd.estimators.combined import combined
from pipeline.crowd.presence import fit_presence, population_of
from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.simulation.curves import (
    OURS,
    PAPER,
    Combination,
    evaluations_needed,
    images_of,
    needed_table,
    rce_at,
    rce_curves,
)
from pipeline.simulation.raters import RATERS, keys, uniforms, votes
from pipeline.simulation.worlds import pair_of, synthetic_pair, synthetic_world, world_of_arrays

BUDGETS = (60, 240)


@pytest.fixture(scope="module")
def images():
    return images_of(synthetic_world(4, 0, n_images=3000))


def literal_draws(images, sampler, n, repeat, pair):
    """Return the indices (n,) and weights (n,) of one pair, as the study draws them."""
    rng = generator(0, "simulation draws", sampler, repeat)
    n_pairs, n_images = images.activation.shape
    if sampler == "uniform":
        return rng.integers(n_images, size=(n_pairs, n))[pair], np.ones(n)
    u = [rng.random(n) for _ in range(n_pairs)][pair]
    cumulated = np.cumsum(images.q[sampler][pair])
    index = np.array([min(int((cumulated <= x).sum()), n_images - 1) for x in u])
    return index, 1 / (n_images * images.q[sampler][pair][index])


def literal_error(images, combination, repeat, pair, budget, most):
    n, m = budget // combination.n_raters, combination.n_raters
    index, weight = literal_draws(images, combination.sampler, most // m, repeat, pair)
    key = keys(generator(0, "simulation votes", repeat), len(images.rho))[pair]
    yes = [
        sum(float(uniforms(np.array([i]), key)[0]) < chance for chance in tail(images.present[pair, i], m))
        for i in index[:n]
    ]
    if combination.aggregation == "majority":
        value = np.array([(np.sign(2 * k - m) + 1) / 2 for k in yes])
    else:
        prior = np.clip(images.probability[pair, index[:n]].astype(float), 0.001, 0.999)
        value = bragg(yes, m, prior)
    a = images.activation[pair, index[:n]].astype(float)
    found = drawn_correlation(a, weight[:n], value)
    return (found - images.rho[pair]) / abs(images.rho[pair])


def tail(present, m):
    """Return P(at least k of m say yes) for k = 1 to m, symmetric raters."""
    from math import comb

    p = 0.77 if present else 0.23
    mass = [comb(m, k) * p**k * (1 - p) ** (m - k) for k in range(m + 1)]
    return [sum(mass[k:]) for k in range(1, m + 1)]


@pytest.mark.parametrize("combination", (*PAPER, OURS[1]), ids=lambda c: c.name)
def test_curves_of_importance_are_those_of_a_literal_loop(images, combination):
    curve = rce_curves(images, [combination], "symmetric", budgets=BUDGETS, n_repeats=2)
    for budget, rce in zip(curve["evaluations"], curve["rce"], strict=True):
        errors = [
            literal_error(images, combination, repeat, pair, budget, BUDGETS[-1])
            for repeat in range(2)
            for pair in range(len(images.rho))
        ]
        assert rce == pytest.approx(np.nanmean(np.abs(errors)), rel=1e-12)


def test_the_combined_curve_is_that_of_the_pipelines_functions(images):
    combination = Combination("active", "bragg_em", "combined")
    curve = rce_curves(images, [combination], "asymmetric", budgets=(240,), n_repeats=1)
    drawn = [literal_draws(images, "active", 80, 0, pair) for pair in range(4)]
    key = keys(generator(0, "simulation votes", 0), 4)
    present = [images.present[pair, index] for pair, (index, _) in enumerate(drawn)]
    yes = [
        votes(shown, index, 3, RATERS["asymmetric"], key[pair])
        for pair, (shown, (index, _)) in enumerate(zip(present, drawn, strict=True))
    ]
    s = [images.probability[pair, index].astype(float) for pair, (index, _) in enumerate(drawn)]
    weight = np.concatenate([w / w.mean() for _, w in drawn])
    model = fit_presence(np.concatenate(s), np.concatenate(yes), np.full(320, 3), weight)
    errors = []
    for pair, (index, w) in enumerate(drawn):
        prior = model.prior(s[pair])
        bins = images.bins[pair]
        known = population_of(model, *bins, [3])
        a = images.activation[pair, index].astype(float)
        found = combined(Sample(a, w, model.posterior(prior, yes[pair], 3), prior), known)
        errors.append(abs(float(found.estimate.rho) - images.rho[pair]) / abs(images.rho[pair]))
    assert curve["rce"].tolist() == pytest.approx([np.mean(errors)], rel=1e-12)


def test_draws_of_one_image_share_their_votes_and_raters_err_as_often_as_they_should():
    rng = np.random.default_rng(0)
    image = rng.integers(50, size=(2, 400))
    present = image % 2 == 0
    said = votes(present, image, 3, RATERS["symmetric"], keys(rng, 2))
    for row in range(2):
        for one in range(50):
            assert len(set(said[row, image[row] == one])) <= 1
    many = np.arange(100_000)[None]
    share = votes(np.ones_like(many, dtype=bool), many, 3, RATERS["asymmetric"], keys(rng, 1)).mean() / 3
    assert share == pytest.approx(0.83, abs=0.003)
    assert votes(many % 2 == 0, many, 3, RATERS["perfect"], keys(rng, 1)).tolist() == [
        (3 * (many[0] % 2 == 0)).tolist()
    ]


def test_processes_change_nothing(images):
    combinations = [PAPER[3], OURS[0]]
    options = {"budgets": (60,), "n_repeats": 2}
    alone = rce_curves(images, combinations, "symmetric", **options)
    together = rce_curves(images, combinations, "symmetric", processes=2, **options)
    pd.testing.assert_frame_equal(alone, together)


def test_evaluations_are_read_off_the_curve_between_its_points():
    assert evaluations_needed([10, 1000], [1.0, 0.01], 0.1) == pytest.approx(100)
    assert np.isnan(evaluations_needed([10, 1000], [1.0, 0.5], 0.1))
    assert evaluations_needed([10, 1000], [0.05, 0.01], 0.1) == 10


def test_a_curve_that_comes_back_above_the_target_has_not_reached_it():
    assert evaluations_needed([10, 100, 1000, 10_000], [0.05, 1.0, 1.0, 0.01], 0.1) == pytest.approx(10**3.5)
    assert np.isnan(evaluations_needed([10, 100], [0.05, 0.2], 0.1))


def test_the_rce_between_two_budgets_is_read_off_the_same_line():
    assert rce_at([10, 1000], [1.0, 0.01], 100) == pytest.approx(0.1)
    assert np.isnan(rce_at([10, 1000], [1.0, 0.01], 5))


def test_budgets_above_a_combinations_most_are_left_out(images):
    combinations = [PAPER[3], OURS[0]]
    stopped = [Combination(c.sampler, c.aggregation, c.estimator, most=60) for c in combinations]
    alone = rce_curves(images, combinations, "symmetric", budgets=(60,), n_repeats=2)
    short = rce_curves(images, stopped, "symmetric", budgets=(60, 240), n_repeats=2)
    pd.testing.assert_frame_equal(short, alone)


def test_ratios_are_to_uniform_and_majority_of_the_same_raters():
    rows = [("uniform+majority", 100, 1.0), ("uniform+majority", 10_000, 0.1), ("mgis+majority", 100, 0.275)]
    curves = pd.DataFrame(rows, columns=["combination", "evaluations", "rce"]).assign(raters="symmetric")
    table = needed_table(curves, 0.275).set_index("combination")
    assert table.loc["mgis+majority", "times"] == pytest.approx(
        table.loc["uniform+majority", "evaluations"] / 100
    )
    assert table.loc["uniform+majority", "paper"] == 22_560


def test_a_calibrated_scorer_of_a_synthetic_pair_is_calibrated():
    pair = synthetic_pair(np.random.default_rng(0), 0.1, "calibrated", n_images=200_000)
    for low, high in ((0.05, 0.2), (0.4, 0.6), (0.8, 0.95)):
        inside = (pair.probability >= low) & (pair.probability < high)
        assert pair.present[inside].mean() == pytest.approx(pair.probability[inside].mean(), abs=0.03)


def test_what_the_scorer_misses_gets_a_low_probability():
    pair = synthetic_pair(np.random.default_rng(1), 0.1, "calibrated", missed=0.5, n_images=50_000)
    assert np.mean(pair.probability[pair.present] < 0.1) > 0.4


def test_only_pairs_with_a_truth_are_simulated():
    rng = np.random.default_rng(2)
    activation = np.column_stack([np.arange(100.0), rng.random(100)])
    truths = np.column_stack([np.arange(100) > 50, np.full(100, np.nan), np.arange(100) == 3])
    pairs = list(world_of_arrays(activation, np.full((100, 3), 0.5), truths, [(0, 0), (0, 1), (0, 2)]))
    assert len(pairs) == 1
    assert pairs[0].rho == pytest.approx(np.corrcoef(activation[:, 0], truths[:, 0])[0, 1])
    with pytest.raises(AssayError, match="no pair whose truth is known"):
        images_of([])


def test_a_constant_presence_has_no_correlation():
    assert np.isnan(pair_of(np.arange(5.0), np.full(5, 0.5), np.zeros(5, bool)).rho)
    with pytest.raises(AssayError, match="unknown calibration"):
        synthetic_pair(np.random.default_rng(0), 0.1, "odd")


def test_population_is_the_interface_of_the_bins(images):
    known = population_of(fit_presence([], [], [], []), *images.bins[0], [3])
    assert isinstance(known, Population)
    assert 0 < float(known.mean) < 1
