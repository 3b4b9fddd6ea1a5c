import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.errors import AssayError
from pipeline.matching.fms import NOTHING_VARIES, TOO_FEW_NEGATIVES, TOO_FEW_POSITIVES, fms

MODES = ("corrected", "reference")


def halves(n: int) -> np.ndarray:
    """n images with the attribute, then n without."""
    return np.repeat([True, False], n)


@pytest.mark.parametrize("mode", MODES)
def test_an_attribute_that_one_latent_holds_alone_scores_one(mode):
    present = halves(50)
    found = fms(present[:, None] * 0.7, present[:, None], 0, mode=mode)
    assert found.values.tolist() == [1.0]
    assert (found.stump_accuracy[0], found.removed_accuracy[0], found.depth[0]) == (1.0, 0.5, 1)
    assert (found.ms_local[0], found.ms_global[0]) == (1.0, 1.0)


@pytest.mark.parametrize("mode", MODES)
def test_an_attribute_that_two_latents_hold_has_nothing_local(mode):
    present = halves(50)
    found = fms(np.stack([present, present], axis=1), present[:, None], 0, mode=mode)
    assert (found.ms_local[0], found.ms_global[0], found.values[0]) == (0.0, 1.0, 0.5)
    assert found.latents[0] == 0
    both = fms(np.stack([present, present], axis=1), present[:, None], 0, mode=mode, n_removed=2)
    assert both.values.tolist() == [1.0]


def test_an_attribute_split_over_four_latents_has_the_score_computed_by_hand():
    present = halves(40)
    codes = np.zeros((80, 4))
    codes[np.arange(40), np.arange(40) // 10] = 1
    found = fms(codes, present[:, None], 0, mode="reference")
    assert found.stump_accuracy[0] == 0.625
    assert found.removed_accuracy[0] == 0.625
    assert found.depth[0] == 4
    assert found.ms_global[0] == pytest.approx(1 - (0.125 + 0.25 + 0.375) / 3)
    assert found.values[0] == pytest.approx(0.625 * 0.75 / 2)


def test_the_larger_class_loses_images_so_chance_is_one_half():
    rng = np.random.default_rng(0)
    present = (np.arange(4000) < 300)[:, None]
    found = fms(rng.random((4000, 3)), present, 0)
    assert found.n_images[0] == 600
    assert found.stump_accuracy[0] == pytest.approx(0.5, abs=0.08)
    swapped = fms(rng.random((4000, 3)), ~present, 0)
    assert swapped.n_images[0] == 600


def test_held_out_noise_is_at_chance_and_in_sample_noise_is_not():
    rng = np.random.default_rng(1)
    codes = np.where(rng.random((600, 300)) < 0.1, rng.random((600, 300)), 0)
    present = rng.random((600, 20)) < 0.3
    corrected, reference = (fms(codes, present, 0, mode=mode) for mode in MODES)
    assert corrected.stump_accuracy.mean() == pytest.approx(0.5, abs=0.03)
    assert corrected.ms_global.mean() == pytest.approx(1, abs=0.05)
    assert reference.stump_accuracy.min() > 0.52
    assert reference.ms_global.mean() < 0.8


def test_in_sample_trees_go_on_until_every_image_is_told_apart():
    rng = np.random.default_rng(2)
    codes, present = rng.random((60, 4)), rng.random((60, 3)) < 0.4
    found = fms(codes, present, 0, mode="reference")
    for a in range(3):
        gains = (1 - found.ms_global[a]) * (found.depth[a] - 1)
        last_at_most = 1 - found.stump_accuracy[a]
        assert 0 < gains <= last_at_most * (found.depth[a] - 1)


def test_a_rising_function_of_the_codes_changes_nothing_in_sample():
    rng = np.random.default_rng(3)
    codes = np.where(rng.random((200, 20)) < 0.2, rng.random((200, 20)), 0)
    present = rng.random((200, 5)) < 0.3
    first, second = (fms(each, present, 0, mode="reference") for each in (codes, np.sqrt(codes) * 5))
    np.testing.assert_array_equal(first.values, second.values)


def test_a_seed_gives_one_result_and_another_seed_another():
    rng = np.random.default_rng(4)
    codes = np.where(rng.random((400, 50)) < 0.2, rng.random((400, 50)), 0)
    present = rng.random((400, 6)) < 0.2
    once, again, other = (fms(codes, present, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once.values, again.values)
    assert (once.values != other.values).any()


def test_dense_and_sparse_codes_and_further_attributes_change_nothing():
    rng = np.random.default_rng(5)
    codes = np.where(rng.random((300, 40)) < 0.1, rng.random((300, 40)), 0)
    present = rng.random((300, 4)) < 0.3
    whole = fms(codes, present, 0)
    np.testing.assert_array_equal(whole.values, fms(sp.csr_array(codes), present, 0).values)
    np.testing.assert_array_equal(whole.values[:2], fms(codes, present[:, :2], 0).values)


def test_an_attribute_without_a_score_is_nan_with_a_reason_and_leaves_the_mean():
    present = np.stack([halves(50), np.arange(100) < 9, np.arange(100) >= 9, np.zeros(100, bool)], axis=1)
    found = fms(present[:, :1], present, 0)
    assert found.reasons == ("", TOO_FEW_POSITIVES, TOO_FEW_NEGATIVES, TOO_FEW_POSITIVES)
    assert found.values[0] == found.mean == 1.0
    assert found.n_undefined == 3
    assert np.isnan(found.values[1:]).all()
    assert found.latents.tolist() == [0, -1, -1, -1]
    assert found.depth.tolist() == [1, 0, 0, 0]


def test_ten_images_of_a_class_are_enough_to_grow_on_five_and_judge_on_five():
    present = (np.arange(100) < 10)[:, None]
    assert fms(present, present, 0).n_images.tolist() == [20]
    assert fms(present, present, 0, mode="reference").values.tolist() == [1.0]
    few = (np.arange(100) < 5)[:, None]
    assert fms(few, few, 0).reasons == (TOO_FEW_POSITIVES,)
    assert fms(few, few, 0, mode="reference").values.tolist() == [1.0]


@pytest.mark.parametrize("codes", [np.zeros((40, 3)), np.ones((40, 3))])
def test_codes_that_do_not_vary_have_no_score(codes):
    found = fms(codes, halves(20)[:, None], 0)
    assert found.reasons == (NOTHING_VARIES,)
    assert np.isnan(found.values[0])
    assert np.isnan(found.mean)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"mode": "in sample"}, "corrected, reference"),
        ({"n_removed": 0}, "n_removed is 0"),
        ({"n_removed": 1.5}, "1.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings, named):
    with pytest.raises(AssayError, match=named):
        fms(np.ones((20, 2)), halves(10)[:, None], 0, **settings)


def test_attributes_of_other_images_are_refused():
    with pytest.raises(AssayError, match="a row for each row"):
        fms(np.ones((20, 2)), halves(9)[:, None], 0)
