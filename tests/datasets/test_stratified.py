from collections import Counter

import pytest

from pipeline.datasets.stratified import held_out
from pipeline.errors import AssayError

IDS = [f"{i:03d}" for i in range(200)]
STRATA = ["a"] * 100 + ["b"] * 60 + ["c"] * 40


def test_every_stratum_gives_its_share_and_the_total_is_exact():
    taken = held_out(IDS, STRATA, 0.15, 42)
    assert Counter(STRATA[int(i)] for i in taken) == {"a": 15, "b": 9, "c": 6}


def test_remainders_go_to_the_largest_and_ties_to_the_first_name():
    taken = held_out(IDS[:9], list("aaabbbccc"), 0.5, 0)  # 4.5 rounds up to 5: 1.67 each
    assert Counter("aaabbbccc"[int(i)] for i in taken) == {"a": 2, "b": 2, "c": 1}


def test_the_order_of_the_images_plays_no_part_and_the_seed_does():
    forward = held_out(IDS, STRATA, 0.5, 1)
    assert forward == held_out(IDS[::-1], STRATA[::-1], 0.5, 1)
    assert forward != held_out(IDS, STRATA, 0.5, 2)


@pytest.mark.parametrize(("share", "n"), [(0.0, 0), (1.0, 200)])
def test_none_or_all_can_be_held_out(share, n):
    assert len(held_out(IDS, STRATA, share, 0)) == n


def test_no_image_gives_none_and_a_share_above_one_is_refused():
    assert held_out([], [], 0.5, 0) == set()
    with pytest.raises(AssayError, match=r"1\.5 is not between"):
        held_out(IDS, STRATA, 1.5, 0)
