"""The other matchers keep the one interface, and do what their docstrings say."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from matching_oracles import literal_f1, random_case
from scipy.optimize import nnls

from pipeline.errors import AssayError
from pipeline.matching.registry import NAMES, matcher

BETAS = (0.25, 1.0)


def real_case(seed, n_images=60, n_latents=20, n_attributes=4):
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((n_images, n_latents)) < 0.3, rng.exponential(size=(n_images, n_latents)), 0)
    attributes = (codes[:, :n_attributes] > 0) ^ (rng.random((n_images, n_attributes)) < 0.1)
    return codes, attributes


@pytest.mark.parametrize("name", NAMES)
def test_every_matcher_predicts_what_its_f1_says(name):
    codes, attributes = real_case(1)
    for matching in matcher(name)(codes, attributes, betas=BETAS, max_latents=5):
        for k in range(1, 6):
            predicted = matching.predict(codes, k)
            for a in range(4):
                f1 = 2 * (predicted[:, a] & attributes[:, a]).sum()
                f1 = f1 / (predicted[:, a].sum() + attributes[:, a].sum())
                assert matching.f1[a][min(k, len(matching.f1[a])) - 1] == f1
            right, found = matching.counts(codes, attributes, k)
            assert np.array_equal(found[:, k - 1], predicted.sum(axis=0))
            assert np.array_equal(right[:, k - 1], (predicted & attributes).sum(axis=0))


@pytest.mark.parametrize("name", NAMES)
def test_every_matcher_takes_sparse_codes_and_flags_empty_attributes(name):
    codes, attributes = real_case(2)
    attributes = np.column_stack([attributes, np.zeros(len(codes), dtype=bool)])
    codes = np.vstack([codes, np.zeros(codes.shape[1])])
    attributes = np.vstack([attributes, np.zeros(5, dtype=bool)])
    alone = np.zeros((len(codes), 1), dtype=bool)
    alone[-1] = True
    attributes = np.column_stack([attributes, alone])
    dense = matcher(name)(codes, attributes, betas=BETAS, max_latents=5)
    sparse = matcher(name)(sp.csr_array(codes), attributes, betas=BETAS, max_latents=5)
    for mine, theirs in zip(dense, sparse, strict=True):
        assert mine.reasons == theirs.reasons == ("", "", "", "", "no positive", "no overlap")
        assert not mine.predict(codes, 3)[:, 4:].any()
        for own, other in zip(mine.coalitions, theirs.coalitions, strict=True):
            assert np.array_equal(own, other)


def test_one_to_one_is_the_best_single_f1():
    for case in range(60):
        latents, attributes = random_case(case)
        (matching,) = matcher("one_to_one")(latents, attributes, betas=BETAS, max_latents=9)
        assert matching.beta == 1.0
        for a, present in enumerate(attributes.T):
            scores = [literal_f1([j], latents, present, 1) for j in range(latents.shape[1])]
            best = [scores.index(max(scores))] if max(scores) > 0 else []
            assert matching.coalitions[a].tolist() == best
            assert matching.f1[a].tolist() == [max(scores)] * len(best)


def test_ranked_or_takes_the_largest_single_f_beta_and_discards_nothing():
    for case in range(60):
        latents, attributes = random_case(case)
        for matching in matcher("ranked_or")(latents, attributes, betas=BETAS, max_latents=4):
            b2 = matching.beta**2
            for a, present in enumerate(attributes.T):
                n, tp = latents.sum(axis=0), (latents & present[:, None]).sum(axis=0)
                scores = (1 + b2) * tp / np.maximum(b2 * present.sum() + n, 1e-9)
                ranked = [j for j in sorted(range(len(n)), key=lambda j: -scores[j]) if scores[j] > 0][:4]
                assert matching.coalitions[a].tolist() == ranked
                f1 = [literal_f1(ranked, latents, present, k + 1) for k in range(len(ranked))]
                assert matching.f1[a].tolist() == f1


def test_ranked_or_keeps_doubles_that_fbmp_leaves_out():
    y = np.array([1, 1, 1, 0], dtype=bool)
    latents = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]], dtype=bool).T
    ranked = matcher("ranked_or")(latents, y[:, None], betas=[0.5], max_latents=2)[0]
    pursued = matcher("fbmp")(latents, y[:, None], betas=[0.5], max_latents=2)[0]
    assert ranked.coalitions[0].tolist() == [0, 1]
    assert pursued.coalitions[0].tolist() == [0, 2]


def literal_nn_omp(codes, target, max_latents):
    lengths = np.linalg.norm(codes, axis=0)
    unit = codes / np.where(lengths > 0, lengths, 1)
    latents, residual, weights = [], target.copy(), []
    for _ in range(max_latents):
        correlation = unit.T @ residual
        correlation[latents] = -np.inf
        if correlation.max() <= 1e-10 * np.linalg.norm(target):
            break
        latents.append(int(correlation.argmax()))
        fitted, _ = nnls(unit[:, latents], target)
        weights.append(fitted / lengths[latents])
        residual = target - unit[:, latents] @ fitted
    return latents, weights


@pytest.mark.parametrize("seed", range(8))
def test_nn_omp_equals_a_refit_on_all_images(seed):
    codes, attributes = real_case(seed)
    codes[:, 7] = 0
    (matching,) = matcher("nn_omp")(codes, attributes, betas=BETAS, max_latents=8)
    assert np.isnan(matching.beta)
    held_out, _ = real_case(100 + seed)
    for a in range(4):
        latents, weights = literal_nn_omp(codes, attributes[:, a].astype(float), 8)
        assert matching.coalitions[a].tolist() == latents
        for step, fitted in enumerate(weights):
            assert matching.weights[a][step, : step + 1] == pytest.approx(fitted, abs=1e-9)
            predicted = held_out[:, latents[: step + 1]] @ fitted > 0.5
            assert np.array_equal(matching.predict(held_out, step + 1)[:, a], predicted)


def test_nn_omp_finds_a_non_negative_sum_and_never_a_negative_weight():
    rng = np.random.default_rng(3)
    codes = rng.exponential(size=(200, 12)) * (rng.random((200, 12)) < 0.4)
    codes[:, 5] = np.where(rng.random(200) < 0.5, 1.0, 0.0)
    (matching,) = matcher("nn_omp")(codes, codes[:, [5]] > 0, betas=[1.0], max_latents=6)
    assert matching.coalitions[0].tolist() == [5]
    assert matching.f1[0].tolist() == [1.0]
    _, attributes = real_case(4)
    codes, _ = real_case(5)
    (matching,) = matcher("nn_omp")(codes, attributes, betas=[1.0], max_latents=10)
    assert min(own.min() for own in matching.weights) >= 0


def test_nn_omp_with_equal_latents_takes_one_of_them():
    codes, attributes = real_case(6)
    codes = np.repeat(codes, 2, axis=1)
    (matching,) = matcher("nn_omp")(codes, attributes, betas=[1.0], max_latents=10)
    for own in matching.coalitions:
        assert len(set(own // 2)) == len(own)
        assert (own % 2 == 0).all()


def test_negative_codes_count_as_0_for_nn_omp():
    codes, attributes = real_case(8)
    signed = np.where(codes == 0, -2.0, codes)
    mine, theirs = (matcher("nn_omp")(c, attributes, betas=[1.0], max_latents=5)[0] for c in (signed, codes))
    assert [own.tolist() for own in mine.coalitions] == [own.tolist() for own in theirs.coalitions]
    assert np.array_equal(mine.predict(signed, 3), theirs.predict(codes, 3))


def test_an_unknown_matcher_is_named():
    with pytest.raises(AssayError, match=r"matching.name='omp'.*fbmp, one_to_one, ranked_or, nn_omp"):
        matcher("omp")


def test_the_registry_imports_no_matcher_by_a_statement():
    path = Path(importlib.import_module("pipeline.matching.registry").__file__)
    imported = {
        node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    }
    assert not imported & {f"pipeline.matching.{name}" for name in NAMES}
