"""TAPAScore and dstay count what a pair changes, pair by pair, and never drop one silently."""

import numpy as np
import pytest
import scipy.sparse as sp
from matching_oracles import literal_dstay, literal_tapascore, random_pairs

from pipeline.errors import AssayError
from pipeline.matching import dstay, latent_maxima, scaled_codes, tapascore


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else float("nan")


def graded(case):
    before, after, *rest = random_pairs(case)
    rng = np.random.default_rng(case)
    return before * rng.random(before.shape), after * rng.random(after.shape), *rest


def difference(add, rem):
    return -rem if np.isnan(add) else add if np.isnan(rem) else add - rem


@pytest.mark.parametrize("draw", [random_pairs, graded])
def test_tapascore_equals_the_literal_form(draw):
    for case in range(80):
        before, after, _, added, removed, coalitions = draw(case)
        rows = literal_tapascore(before, after, added, removed, coalitions, 3)
        found = tapascore(before, after, added, removed, coalitions)
        sparse = tapascore(sp.csr_array(before), sp.csr_array(after), added, removed, coalitions)
        add, rem = mean(row[0] for row in rows), mean(row[1] for row in rows)
        assert [found.add, found.rem, found.score] == pytest.approx(
            [add, rem, difference(add, rem)], nan_ok=True
        )
        for side, column in ((found.delta_add, 0), (found.delta_rem, 1)):
            expected = [np.nan if row[column] is None else row[column] for row in rows]
            assert np.array_equal(side, expected, equal_nan=True)
        assert found.empty_add.tolist() == [row[2] for row in rows]
        assert found.empty_rem.tolist() == [row[3] for row in rows]
        assert found.n_empty == sum(row[2] or row[3] for row in rows)
        assert np.array_equal(sparse.delta_add, found.delta_add, equal_nan=True)
        assert np.array_equal(sparse.delta_rem, found.delta_rem, equal_nan=True)


@pytest.mark.parametrize("draw", [random_pairs, graded])
def test_macro_and_the_table_are_means_by_attribute(draw):
    for case in range(40):
        before, after, _, added, removed, coalitions = draw(case)
        rows = literal_tapascore(before, after, added, removed, coalitions, 3)
        found = tapascore(before, after, added, removed, coalitions)
        table = found.per_attribute(names=list("abcde"))
        assert table["name"].tolist() == list("abcde")
        sides = []
        for column, ids, name in ((0, added, "add"), (1, removed, "rem")):
            own = [[row[column] for row, a in zip(rows, ids, strict=True) if a == i] for i in range(5)]
            assert table[f"n_{name}"].tolist() == [len(values) for values in own]
            assert table[f"mean_{name}"].tolist() == pytest.approx([mean(v) for v in own], nan_ok=True)
            sides.append(mean([mean(values) for values in own if values]))
        assert found.macro == pytest.approx(difference(*sides), nan_ok=True)
        assert table["n_empty_add"].sum() == found.empty_add.sum()
        assert table["n_empty_rem"].sum() == found.empty_rem.sum()


def test_a_perfect_swap_scores_2_the_reverse_minus_2_and_no_change_0():
    before, after = np.eye(2, dtype=bool)[[0, 0]], np.eye(2, dtype=bool)[[1, 1]]
    swap = [1, 1], [0, 0], [[0], [1]]
    assert tapascore(before, after, *swap).score == 2.0
    assert tapascore(after, before, *swap).score == -2.0
    assert tapascore(after, after, *swap).score == 0.0


def test_pairs_that_only_remove_score_the_fall_alone():
    before, after = np.array([[1, 0], [1, 0]], dtype=bool), np.array([[0, 0], [1, 0]], dtype=bool)
    found = tapascore(before, after, [-1, -1], [0, 0], [[0], [1]])
    assert (found.score, found.rem, found.n_empty) == (0.5, -0.5, 0)
    assert np.isnan(found.add)
    assert np.isnan(found.delta_add).all()
    only_added = tapascore(after, before, [0, 0], [-1, -1], [[0], [1]])
    assert (only_added.score, only_added.add) == (0.5, 0.5)


def test_shared_latents_leave_both_coalitions_of_that_pair_only():
    before, after = np.array([[1, 1, 0]], dtype=bool), np.array([[1, 0, 0]], dtype=bool)
    found = tapascore(before, after, [0], [1], [[0, 1], [1, 0, 2]])
    assert found.n_shared.tolist() == [2]
    assert (found.add, found.rem, found.n_empty) == (0.0, 0.0, 1)
    assert tapascore(before, after, [-1], [1], [[0, 1], [1, 2]]).rem == -1.0


def test_only_the_first_k_latents_count_and_are_shared():
    before, after = np.zeros((1, 3), dtype=bool), np.array([[0, 0, 1]], dtype=bool)
    coalitions = [[0, 1, 2], [2]]
    assert tapascore(before, after, [0], [-1], coalitions, k=2).score == 0.0
    assert tapascore(before, after, [0], [-1], coalitions, k=3).score == 1.0
    assert tapascore(before, after, [0], [1], coalitions, k=2).rem == 1.0
    assert tapascore(before, after, [0], [1], coalitions, k=3).n_shared.tolist() == [1]


def test_the_reference_drops_a_pair_with_an_empty_added_side_and_says_so():
    before = np.array([[1, 0], [1, 0]], dtype=bool)
    after = np.array([[0, 1], [0, 0]], dtype=bool)
    pairs = before, after, [1, 2], [0, 0], [[0], [1], []]
    corrected, reference = (tapascore(*pairs, mode=mode) for mode in ("corrected", "reference"))
    assert (corrected.add, corrected.rem, corrected.score) == (0.5, -1.0, 1.5)
    assert (reference.add, reference.rem, reference.score) == (1.0, -1.0, 2.0)
    assert corrected.n_empty == reference.n_empty == 1
    assert reference.dropped.tolist() == [False, True]
    assert not corrected.dropped.any()
    assert reference.per_attribute()["n_rem"].tolist() == [1, 0, 0]


def test_dstay_equals_the_literal_form():
    for draw in (random_pairs, graded):
        for case in range(60):
            before, after, present, added, removed, coalitions = draw(case)
            expected = literal_dstay(before, after, present, added, removed, coalitions, 3)
            found = dstay(before, after, present, added, removed, coalitions)
            assert found.values == pytest.approx([np.nan if v is None else v for v in expected], nan_ok=True)
            assert found.mean == pytest.approx(mean(expected), nan_ok=True)
            assert found.n_undefined == sum(value is None for value in expected)


def test_dstay_by_attribute_counts_the_pairs_that_leave_it_alone():
    before = np.array([[1, 1, 1], [1, 0, 1]], dtype=bool)
    after = np.array([[0, 1, 0], [1, 1, 1]], dtype=bool)
    present = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    found = dstay(before, after, present, [-1, 1], [0, -1], [[0], [1], [2], []])
    assert found.values == pytest.approx([1 / 3, 0.0])
    assert found.mean == pytest.approx(1 / 6)
    assert found.attribute_values == pytest.approx([0.0, 0.0, 1.0, 0.0])
    assert found.n_pairs.tolist() == [1, 1, 1, 1]
    assert (found.n_empty, found.n_undefined) == (1, 0)


def test_dstay_without_an_untouched_attribute_is_nan_and_counted():
    codes = np.ones((1, 1), dtype=bool)
    found = dstay(codes, codes, [[1]], [-1], [0], [[0]])
    assert np.isnan(found.mean)
    assert found.n_undefined == 1
    assert np.isnan(found.attribute_values).all()


def test_scaled_codes_are_shares_of_the_training_maximum():
    maxima = latent_maxima(np.array([[2.0, 0, -1], [1, 0, 0]]))
    assert maxima.tolist() == [2.0, 0.0, 0.0]
    codes = np.array([[1.0, 3, 0], [5, 0, 1], [-1, 0, 0]])
    for form in (codes, sp.csr_array(codes)):
        assert scaled_codes(form, maxima).toarray().tolist() == [[0.5, 0, 0], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"added": [1, -1], "removed": [0, -1]}, "pair 1 neither adds nor removes"),
        ({"added": [1, 0]}, "pair 1 both adds and removes attribute 0"),
        ({"added": [1, 3]}, r"added\[1\] is 3; attributes are 0 to 2"),
        ({"removed": [-2, 0]}, r"removed\[0\] is -2"),
        ({"removed": [0]}, r"removed has shape \(1,\)"),
        ({"added": [1.0, 1.0]}, "type float64"),
        ({"after": np.zeros((3, 4))}, r"before has shape \(2, 4\) and after \(3, 4\)"),
        ({"after": np.array([[0, 0, 0, 0], [0, 0, 1.5, 0]])}, r"after\[1, 2\] is 1\.5"),
        ({"before": np.array([[0, -0.5, 0, 0], [0, 0, 0, 0]])}, r"before\[0, 1\] is -0\.5"),
        ({"before": sp.csr_array(np.array([[0, -0.5, 0, 0], [0, 0, 0, 0]]))}, r"before\[0, 1\] is -0\.5"),
        ({"coalitions": [[0], [4], []]}, "latent 4, but the codes have 4 latents"),
        ({"k": 0}, "k is 0"),
    ],
)
def test_a_pair_that_cannot_be_scored_is_named_by_both_scores(changed, message):
    given = {"before": np.zeros((2, 4)), "after": np.zeros((2, 4)), "added": [1, 1], "removed": [0, 0]}
    given |= {"coalitions": [[0], [1], []]} | changed
    with pytest.raises(AssayError, match=message):
        tapascore(**given)
    with pytest.raises(AssayError, match=message):
        dstay(present=np.ones((2, 3)), **given)


def test_other_mistakes_are_named():
    codes = np.zeros((1, 2))
    with pytest.raises(AssayError, match="mode is 'paper'"):
        tapascore(codes, codes, [0], [-1], [[0]], mode="paper")
    with pytest.raises(AssayError, match="present has 2 attributes, but there are 1 coalitions"):
        dstay(codes, codes, np.zeros((1, 2)), [0], [-1], [[0]])
    with pytest.raises(AssayError, match=r"maxima have shape \(3,\), but the codes have 2 latents"):
        scaled_codes(codes, np.ones(3))
