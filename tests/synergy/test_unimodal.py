"""Curves of one modality come from the states of F, and insertion is asked only if wanted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synergy_games import Counting, cases, literal_area, smooth_game, table_game

from pipeline.synergy import explain_many, fsyn
from pipeline.synergy.areas import RULES
from pipeline.synergy.paths import counts


def one_at_a_time(game, order, other, steps, patches_first, inserted):
    """The value with one modality at its top players (or all but them), the other whole."""
    values = []
    for count in counts(len(order), steps):
        kept = np.isin(np.arange(len(order)), list(order)[:count])[None]
        pair = (kept if inserted else ~kept), np.ones((1, other), dtype=bool)
        values.append(float(game(*(pair if patches_first else pair[::-1]))[0]))
    return values


@given(cases(), st.integers(2, 12), st.sampled_from(RULES))
def test_curves_are_the_game_with_one_modality_perturbed(case, steps, rule):
    patch_order, token_order, seed = case
    m, n = len(patch_order), len(token_order)
    game = table_game(m, n, seed)
    pairs = {"x": [(patch_order, token_order)]}
    found = explain_many(game, pairs, steps, rule, insertion=True)["x"]
    for own, order, other, first in (
        (found.mu_image, patch_order, n, True),
        (found.mu_text, token_order, m, False),
    ):
        assert own.del_.tolist() == one_at_a_time(game, order, other, steps, first, inserted=False)
        assert own.ins.tolist() == one_at_a_time(game, order, other, steps, first, inserted=True)
        assert own.auc_del == pytest.approx(literal_area(own.del_, rule), abs=1e-14)
        assert own.auc_ins == pytest.approx(literal_area(own.ins, rule), abs=1e-14)
        assert own.srg == own.auc_ins - own.auc_del


def test_deletion_is_free_and_insertion_is_not_asked_unless_wanted():
    game = Counting(smooth_game(576, 12, 0))
    found = fsyn(game, range(576), range(12))
    assert game.n_asked == 58
    for own in (found.mu_image, found.mu_text):
        assert own.del_.shape == (11,)
        assert own.ins is own.auc_ins is own.srg is None
    more = explain_many(game, {"x": [(range(576), range(12))]}, insertion=True)["x"]
    assert more.f == found.f
    assert more.mu_image.auc_del == found.mu_image.auc_del


def test_an_order_that_finds_the_players_first_has_a_positive_srg_and_its_reverse_the_negative():
    def game(patches, tokens):
        return patches[:, :3].mean(axis=1) * tokens[:, 0]

    orders = {"good": [(range(10), range(4))], "bad": [(range(9, -1, -1), range(3, -1, -1))]}
    found = explain_many(game, orders, insertion=True)
    assert found["good"].mu_image.srg > 0.5 > -0.5 > found["bad"].mu_image.srg
    assert found["good"].mu_image.srg == pytest.approx(-found["bad"].mu_image.srg)


def test_an_explainer_may_lead_in_one_modality_and_find_no_synergy():
    """The text alone decides: mu_text is as good as can be, and F is 0."""
    found = fsyn(lambda patches, tokens: tokens[:, 0].astype(float), range(8), range(4))
    assert found.mu_text.auc_del < 0.3
    assert found.f == 0
