"""F_syn is the published sum, and what must hold of it on any game holds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synergy_games import Counting, cases, literal_area, literal_curves, set_function, smooth_game, table_game

from pipeline.errors import AssayError
from pipeline.synergy import explain_many, fsyn
from pipeline.synergy.areas import RULES, area
from pipeline.synergy.paths import counts

STEPS = st.integers(2, 13)


@given(cases(), STEPS, st.sampled_from(RULES))
def test_it_equals_the_formula_asked_state_by_state(case, steps, rule):
    patch_order, token_order, seed = case
    game = Counting(table_game(len(patch_order), len(token_order), seed))
    deletion, insertion = literal_curves(game, patch_order, token_order, steps)
    assert game.n_asked == 6 * steps + 2
    found = fsyn(game.game, patch_order, token_order, steps, rule)
    np.testing.assert_allclose(found.del_, deletion, atol=1e-14)
    np.testing.assert_allclose(found.ins, insertion, atol=1e-14)
    areas = literal_area(deletion, rule), literal_area(insertion, rule)
    np.testing.assert_allclose([found.auc_del, found.auc_ins], areas, atol=1e-14)
    assert found.f == pytest.approx(sum(areas) / 2, abs=1e-14)


@given(cases(), cases(), STEPS)
def test_curves_start_at_0_and_end_at_the_dividend_that_all_explainers_share(case, other, steps):
    patch_order, token_order, seed = case
    rng = np.random.default_rng(other[2])
    m, n = len(patch_order), len(token_order)
    game = table_game(m, n, seed)
    found = explain_many(
        game, {"a": [(patch_order, token_order)], "b": [(rng.permutation(m), rng.permutation(n))]}, steps
    )
    whole, nothing = (np.full((1, size), kept) for size, kept in ((m, True), (n, False)))
    full, patches = game(whole, ~nothing)[0], game(whole, nothing)[0]
    tokens, empty = game(~whole, ~nothing)[0], game(~whole, nothing)[0]
    for one in found.values():
        assert one.del_[0] == one.ins[0] == 0
        assert one.del_[-1] == one.ins[-1] == one.dividend == found["a"].dividend
        assert one.dividend == pytest.approx(full - patches - tokens + empty, abs=1e-14)
        corners = one.corners
        assert (corners.full, corners.patches_only) == (full, patches)
        assert (corners.tokens_only, corners.empty) == (tokens, empty)


@given(cases(max_players=7), STEPS, st.sampled_from(RULES))
def test_a_game_that_is_additive_over_modalities_has_none(case, steps, rule):
    patch_order, token_order, seed = case
    g, h = set_function(len(patch_order), seed), set_function(len(token_order), seed + 1)
    found = fsyn(lambda patches, tokens: g(patches) + h(tokens), patch_order, token_order, steps, rule)
    assert abs(found.f) <= 1e-12
    assert np.abs([*found.ins, *found.del_]).max() <= 1e-12
    assert math.isnan(found.ratio)


@given(cases(max_players=7), STEPS)
def test_a_product_of_modalities_has_the_closed_form(case, steps):
    patch_order, token_order, seed = case
    m, n = len(patch_order), len(token_order)
    g, h = set_function(m, seed), set_function(n, seed + 1)
    found = fsyn(lambda patches, tokens: g(patches) * h(tokens), patch_order, token_order, steps)

    def along(function, order, size, inserted):
        top = [np.isin(np.arange(size), list(order)[:count]) for count in counts(size, steps)]
        return np.array([function(kept[None] if inserted else ~kept[None])[0] for kept in top])

    for curve, inserted in ((found.ins, True), (found.del_, False)):
        a, b = along(g, patch_order, m, inserted), along(h, token_order, n, inserted)
        np.testing.assert_allclose(curve, (a - a[0]) * (b - b[0]), atol=1e-14)


def test_a_single_pair_that_needs_both_is_found_at_the_known_points():
    """f = 1 where patch 2 and token 1 are kept: syn_ins rises when both are in, syn_del when one is out."""

    def game(patches, tokens):
        return (patches[:, 2] & tokens[:, 1]).astype(float)

    first = fsyn(game, [2, 0, 1, 3], [1, 0], steps=5)
    assert first.ins.tolist() == [0, 0, 1, 1, 1]  # tokens 0, 0, 1, 2, 2
    assert first.del_.tolist() == [0, 0, 1, 1, 1]
    assert first.f == (0 / 2 + 0 + 1 + 1 + 1 / 2) / 4
    last = fsyn(game, [0, 1, 3, 2], [0, 1], steps=5)
    assert last.ins.tolist() == last.del_.tolist() == [0, 0, 0, 0, 1]
    assert (last.f, last.ratio, last.dividend) == (0.125, 0.125, 1)


@given(cases(), STEPS, st.randoms(use_true_random=False))
def test_names_of_players_do_not_matter(case, steps, random):
    patch_order, token_order, seed = case
    m, n = len(patch_order), len(token_order)
    game = table_game(m, n, seed)
    patch_name, token_name = random.sample(range(m), m), random.sample(range(n), n)
    renamed = fsyn(
        lambda patches, tokens: game(patches[:, patch_name], tokens[:, token_name]),
        np.array(patch_name)[list(patch_order)],
        np.array(token_name)[list(token_order)],
        steps,
    )
    assert renamed.f == fsyn(game, patch_order, token_order, steps).f


def test_players_of_no_effect_first_lower_f_and_last_raise_it():
    def game(patches, tokens):
        return patches[:, :4].mean(axis=1) * tokens[:, :3].mean(axis=1)

    good = fsyn(game, range(16), range(6))
    bad = fsyn(game, range(15, -1, -1), range(5, -1, -1))
    assert good.dividend == bad.dividend == 1
    assert good.f > 0.6 > 0.2 > bad.f


def test_only_the_rule_asked_for_sums_the_curve():
    curve = np.array([0.0, 1.0, 5.0])
    assert [float(area(curve, rule)) for rule in RULES] == [1.75, 2.0, 0.5]
    with pytest.raises(AssayError, match="rule is 'simpson'; choose one of trapezoid, mean, left"):
        fsyn(lambda p, t: np.zeros(len(p)), [0], [0], rule="simpson")


def test_the_ratio_is_f_over_the_dividend_and_nan_where_that_is_rounding():
    def game(size):
        return lambda patches, tokens: size * patches.mean(axis=1) * tokens.mean(axis=1)

    found = [fsyn(game(size), range(4), range(4)) for size in (1.0, -0.5, 2e-6, 5e-7, 0.0)]
    ratios = [one.ratio for one in found]
    assert ratios[:3] == pytest.approx([ratios[0]] * 3) and 0 < ratios[0] < 1
    assert np.isnan(ratios[3:]).all() and found[3].f != 0


def test_tie_breaks_are_averaged_and_each_is_reported():
    game, rng = table_game(5, 4, 3), np.random.default_rng(0)
    pairs = [(rng.permutation(5), rng.permutation(4)) for _ in range(3)]
    apart = [fsyn(game, *pair) for pair in pairs]
    together = explain_many(game, {"cam": pairs})["cam"]
    np.testing.assert_allclose(together.f_by_order, [one.f for one in apart], atol=1e-15)
    assert together.f == pytest.approx(np.mean(together.f_by_order), abs=1e-15)
    np.testing.assert_allclose(together.ins, np.mean([one.ins for one in apart], axis=0), atol=1e-15)
    np.testing.assert_allclose(together.del_, np.mean([one.del_ for one in apart], axis=0), atol=1e-15)
    assert together.mu_text.auc_del == pytest.approx(np.mean([one.mu_text.auc_del for one in apart]))


def test_equal_orders_count_as_often_as_they_are_given_and_cost_nothing():
    game, rng = smooth_game(16, 6, 0), np.random.default_rng(1)
    a, b = ((rng.permutation(16), rng.permutation(6)) for _ in range(2))
    one, thrice, mixed = (explain_many(game, {"x": pairs})["x"] for pairs in ([a], [a] * 3, [a, a, b]))
    assert (thrice.n_states, thrice.n_tie_states) == (one.n_states, 0)
    assert thrice.f == pytest.approx(one.f, abs=1e-15)
    assert mixed.f == pytest.approx((2 * one.f + fsyn(game, *b).f) / 3, abs=1e-15)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda p: np.zeros((len(p), 1)), r"shape \(4, 1\) for 4 states"),
        (lambda p: np.full(len(p), np.nan), "value is nan with 16 patches and 6 tokens kept"),
        (lambda p: np.where(p.any(axis=1) & ~p.all(axis=1), -np.inf, 1), "value is -inf with 14 patches"),
        (lambda p: np.where(p.all(axis=1), 1, -np.inf), "value is -inf with 0 patches and 6 tokens kept"),
    ],
)
def test_a_game_that_gives_no_number_a_state_is_refused(values, message):
    with pytest.raises(AssayError, match=message):
        fsyn(lambda patches, tokens: values(patches), range(16), range(6))


def test_explainers_must_have_orders_of_the_same_players():
    game = smooth_game(4, 3, 0)
    assert explain_many(game, {}) == {}
    with pytest.raises(AssayError, match="explainer 'b' has no orders"):
        explain_many(game, {"a": [(range(4), range(3))], "b": []})
    with pytest.raises(AssayError, match="'b' orders 5 patches and 3 tokens, 'a' 4 and 3"):
        explain_many(game, {"a": [(range(4), range(3))], "b": [(range(5), range(3))]})
