from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.splits import assign_splits
from pipeline.errors import AssayError

SHARES = {"train": 0.4, "validation": 0.1, "test": 0.5}
IDS = [f"image {i}" for i in range(20_000)]


def test_the_shares_are_met():
    counts = Counter(assign_splits(IDS, SHARES, 0))
    for name, share in SHARES.items():
        assert abs(counts[name] / len(IDS) - share) < 0.012


def test_every_image_has_a_split_when_the_shares_sum_to_one():
    tenths = {"train": 0.7, "validation": 0.1, "test": 0.2}
    assert "" not in assign_splits(IDS, tenths, 3)


def test_what_the_shares_leave_out_belongs_to_no_split():
    counts = Counter(assign_splits(IDS, {"train": 0.3}, 0))
    assert set(counts) == {"train", ""}
    assert abs(counts[""] / len(IDS) - 0.7) < 0.012


@given(st.lists(st.text(), unique=True, max_size=30), st.randoms(use_true_random=False), st.integers(0, 9))
def test_an_image_keeps_its_split_whatever_else_is_there(ids, random, seed):
    alone = {i: assign_splits([i], SHARES, seed)[0] for i in ids}
    shuffled = random.sample(ids, len(ids))
    assert assign_splits(shuffled, SHARES, seed) == [alone[i] for i in shuffled]


def test_another_seed_splits_otherwise():
    agree = [
        a == b for a, b in zip(assign_splits(IDS, SHARES, 0), assign_splits(IDS, SHARES, 1), strict=True)
    ]
    expected = sum(share**2 for share in SHARES.values())
    assert abs(sum(agree) / len(agree) - expected) < 0.015


def test_the_order_of_the_shares_does_not_matter():
    assert assign_splits(IDS, dict(reversed(SHARES.items())), 0) == assign_splits(IDS, SHARES, 0)


def test_the_split_of_an_image_is_pinned():
    assert assign_splits(list("abcdefgh"), SHARES, 0) == [
        "test",
        "test",
        "train",
        "test",
        "test",
        "test",
        "test",
        "validation",
    ]


@pytest.mark.parametrize(
    ("shares", "word"),
    [({"training": 0.5}, "training"), ({"train": 0.7, "test": 0.4}, "0.7"), ({"train": -0.1}, "-0.1")],
)
def test_impossible_shares_are_refused_by_name(shares, word):
    with pytest.raises(AssayError, match=word):
        assign_splits(["a"], shares, 0)
