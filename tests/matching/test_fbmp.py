"""FBMP does what the paper says, exactly, whatever form the codes have."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from matching_oracles import literal_fbmp, random_case

from pipeline.errors import AssayError
from pipeline.matching import fbmp
from pipeline.matching.codes import firing
from pipeline.matching.overlaps import DenseOverlaps, SparseOverlaps, overlaps

BETAS = (0.25, 0.5, 1.0)
FORMS = {"sparse": SparseOverlaps, "dense": DenseOverlaps}
OVERLAPS = importlib.import_module("pipeline.matching.overlaps")


def equal(matching, coalitions, paths):
    assert [own.tolist() for own in matching.coalitions] == coalitions
    assert [path.tolist() for path in matching.f1] == paths


@pytest.mark.parametrize("form", ["sparse", "dense"])
@pytest.mark.parametrize("block", range(10))
def test_it_equals_the_literal_form_on_random_cases_with_ties(form, block, monkeypatch):
    monkeypatch.setattr(OVERLAPS, "DENSE_FROM", 0.0 if form == "dense" else 2.0)
    for case in range(25 * block, 25 * block + 25):
        latents, attributes = random_case(case)
        assert isinstance(overlaps(firing(latents)), FORMS[form]) or not latents.any()
        for beta, matching in zip(BETAS, fbmp(latents, attributes, BETAS, max_latents=6), strict=True):
            equal(matching, *literal_fbmp(latents, attributes, beta, 6))


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0, 7.1])
def test_it_equals_the_literal_form_for_betas_that_are_no_power_of_two(beta):
    for case in range(40):
        latents, attributes = random_case(1000 + case)
        equal(fbmp(latents, attributes, beta, 5), *literal_fbmp(latents, attributes, beta, 5))


def test_small_blocks_of_attributes_and_of_cells_change_nothing(monkeypatch):
    cases = [random_case(2000 + case) for case in range(40)]
    whole = [fbmp(*case, BETAS) for case in cases]
    for form in FORMS.values():
        monkeypatch.setattr(form, "scores_at_once", 1)
    monkeypatch.setattr(OVERLAPS, "ENTRIES", 3)
    monkeypatch.setattr(OVERLAPS, "IMAGES", 2)
    for case, expected in zip(cases, whole, strict=True):
        for mine, theirs in zip(fbmp(*case, BETAS), expected, strict=True):
            equal(mine, [c.tolist() for c in theirs.coalitions], [p.tolist() for p in theirs.f1])


def test_the_density_decides_the_form_of_counting():
    latents = np.zeros((20, 20), dtype=bool)
    latents[:2, :19] = True
    assert isinstance(overlaps(firing(latents)), SparseOverlaps)
    latents[:2] = True
    assert isinstance(overlaps(firing(latents)), DenseOverlaps)


def test_sparse_codes_give_what_dense_codes_give_and_only_codes_above_0_fire():
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((60, 30)) < 0.2, rng.normal(size=(60, 30)), 0.0)
    attributes = rng.random((60, 4)) < 0.3
    expected = literal_fbmp(codes > 0, attributes, 0.5, 20)
    stored_zeros = sp.csr_array(codes)
    stored_zeros.data[stored_zeros.data < -1] = 0
    doubled = sp.coo_array(
        (np.tile(codes[codes != 0] / 2, 2), np.tile(np.stack(codes.nonzero()), 2)), shape=codes.shape
    )
    for form in (codes, codes > 0, codes.astype(np.float32), stored_zeros, sp.csc_array(codes), doubled):
        equal(fbmp(form, attributes), *expected)
    equal(fbmp(codes, attributes.astype(np.uint8)), *expected)


def test_a_sparse_matrix_may_hold_a_cell_twice_and_in_any_order():
    values = np.array([2.0, 1.0, -3.0, 1.0, 1.0])
    twice = sp.csr_array((values, [1, 0, 1, 2, 0], [0, 3, 5]), shape=(2, 3))
    assert firing(twice).toarray().tolist() == [[True, False, False], [True, False, True]]
    assert fbmp(twice, [[0], [1]]).coalitions[0].tolist() == [2]


def test_a_known_case_by_hand():
    # y = 111100; latent 0 covers 110000, latent 1 covers 001110, latent 2 covers 000100.
    y = np.array([[1, 1, 1, 1, 0, 0]], dtype=bool).T
    latents = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0]], dtype=bool).T
    matching = fbmp(latents, y, beta=0.5)
    # F_.5: 1.25*2/(1+2), 1.25*2/(1+3), 1.25*1/(1+1): latent 0; then residual 2: 2.5/3.5, 1.25/1.5: latent 2,
    # union 3 of 4; then residual 1: 1.25/3.25: latent 1, union 5 of which 4.
    assert matching.coalitions[0].tolist() == [0, 2, 1]
    assert matching.f1[0].tolist() == [2 * 2 / 6, 2 * 3 / 7, 2 * 4 / 9]
    assert fbmp(latents, y, beta=0.5, max_latents=2).coalitions[0].tolist() == [0, 2]


def test_a_smaller_beta_prefers_the_precise_latent_and_a_larger_one_the_wide_latent():
    y = np.arange(40)[:, None] < 20
    precise, wide = np.arange(40) < 8, np.arange(40) < 28
    small, large = fbmp(np.stack([wide, precise], axis=1), y, [0.25, 2.0])
    assert small.coalitions[0][0] == 1
    assert large.coalitions[0][0] == 0


def test_the_lowest_index_wins_a_tie():
    y = np.array([[1], [1], [0]], dtype=bool)
    latents = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 0]], dtype=bool)
    assert fbmp(latents, y).coalitions[0].tolist() == [1]


def test_an_attribute_without_a_positive_or_an_overlap_has_an_empty_coalition_and_a_reason():
    latents = np.array([[1, 0], [0, 0], [1, 0]], dtype=bool)
    attributes = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 0]], dtype=bool)
    matching = fbmp(latents, attributes)
    assert matching.reasons == ("no positive", "no overlap", "")
    assert [len(own) for own in matching.coalitions] == [0, 0, 1]
    assert [len(own) for own in matching.f1] == [0, 0, 1]


def test_latents_that_all_never_fire_match_nothing():
    matching = fbmp(np.zeros((3, 4), dtype=bool), np.ones((3, 2), dtype=bool))
    assert matching.reasons == ("no overlap", "no overlap")


def test_several_betas_give_a_list_and_one_gives_a_matching():
    latents, attributes = random_case(7)
    several = fbmp(latents, attributes, [0.5, 1])
    assert [matching.beta for matching in several] == [0.5, 1.0]
    alone = fbmp(latents, attributes, np.float32(1))
    equal(several[1], [own.tolist() for own in alone.coalitions], [own.tolist() for own in alone.f1])
    assert alone.max_latents == 20


@pytest.mark.parametrize(
    ("latents", "attributes", "settings", "message"),
    [
        (np.zeros(3), np.zeros((3, 1)), {}, r"codes have shape \(3,\)"),
        (np.zeros((3, 0)), np.zeros((3, 1)), {}, r"codes have shape \(3, 0\)"),
        (np.zeros((3, 2)), np.zeros((4, 1)), {}, r"attributes have shape \(4, 1\); expected \(3, A\)"),
        (np.zeros((3, 2)), np.zeros((3, 0)), {}, r"attributes have shape \(3, 0\)"),
        (np.zeros((3, 2)), np.full((3, 1), 2), {}, r"attributes\[0, 0\] is 2"),
        (np.array([[0, 1.0], [0, np.nan]]), np.zeros((2, 1)), {}, r"codes\[1, 1\] is nan"),
        (sp.csr_array(np.array([[0, 1.0], [0, np.inf]])), np.zeros((2, 1)), {}, r"codes\[1, 1\] is inf"),
        (np.array([["a"]]), np.zeros((1, 1)), {}, "codes have the type <U1"),
        (np.zeros((3, 2)), np.zeros((3, 1)), {"beta": -1.0}, "beta is -1.0"),
        (np.zeros((3, 2)), np.zeros((3, 1)), {"beta": [0.5, np.nan]}, "beta is nan"),
        (np.zeros((3, 2)), np.zeros((3, 1)), {"beta": []}, "there is no beta"),
        (np.zeros((3, 2)), np.zeros((3, 1)), {"max_latents": 0}, "max_latents is 0"),
    ],
)
def test_what_cannot_be_matched_is_named(latents, attributes, settings, message):
    with pytest.raises(AssayError, match=message):
        fbmp(latents, attributes, **settings)


def test_large_cases_agree_between_the_two_forms_of_counting(monkeypatch):
    rng = np.random.default_rng(5)
    latents, attributes = rng.random((3000, 60)) < 0.2, rng.random((3000, 12)) < 0.3
    dense = fbmp(latents, attributes, BETAS)
    monkeypatch.setattr(OVERLAPS, "DENSE_FROM", 2.0)
    for mine, theirs in zip(dense, fbmp(latents, attributes, BETAS), strict=True):
        assert sum(map(len, mine.coalitions)) > len(attributes.T)
        equal(mine, [c.tolist() for c in theirs.coalitions], [p.tolist() for p in theirs.f1])
