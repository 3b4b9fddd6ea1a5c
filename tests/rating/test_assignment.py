import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rating.assignment import check_slot, choose, shown_order

STUDIES = st.lists(st.integers(1, 40), min_size=1, max_size=6).map(
    lambda sizes: np.repeat(np.arange(len(sizes)), sizes)
)


def choose_slowly(counts, reserved, description_of, mine, stopped, n_raters, size):
    """The same by the words of the contract, one input at a time."""
    level = [int(c + r) for c, r in zip(counts, reserved, strict=True)]
    free = [i for i in range(len(level)) if not mine[i] and not stopped[i] and level[i] < n_raters]
    if not free:
        return []
    lowest = min(level[i] for i in free)
    votes = {}
    for i in free:
        votes[description_of[i]] = votes.get(description_of[i], 0) + (level[i] == lowest)
    best = next(d for d in sorted(votes) if votes[d] == max(votes.values()))
    return sorted((i for i in free if description_of[i] == best), key=lambda i: (level[i], i))[:size]


@given(STUDIES, st.integers(1, 4), st.integers(1, 15), st.integers(0, 2**32 - 1))
def test_the_choice_is_the_one_that_the_rule_names(description_of, n_raters, size, seed):
    rng = np.random.default_rng(seed)
    n = len(description_of)
    shuffled = rng.permutation(description_of)
    state = (
        rng.integers(0, 4, n),
        rng.integers(0, 3, n),
        shuffled,
        rng.random(n) < 0.2,
        rng.random(n) < 0.2,
        n_raters,
        size,
    )
    assert choose(*state).tolist() == choose_slowly(*state)


@given(STUDIES, st.integers(1, 4), st.integers(1, 15), st.integers(0, 400))
def test_with_plenty_of_raters_inputs_fill_evenly(description_of, n_raters, size, n_steps):
    counts, nothing = np.zeros(len(description_of), dtype=int), np.zeros(len(description_of), dtype=bool)
    for _ in range(n_steps):
        chosen = choose(counts, counts * 0, description_of, nothing, nothing, n_raters, size)
        counts[chosen] += 1
        each = [counts[description_of == d] for d in np.unique(description_of)]
        assert all(of_one.max() - of_one.min() <= 1 for of_one in each)
        assert counts.max() - counts.min() <= 2


@given(STUDIES, st.integers(1, 4), st.integers(1, 15), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_every_input_reaches_its_ratings_and_no_rater_gets_one_twice(
    description_of, n_raters, size, n_spare, seed
):
    rng, n = np.random.default_rng(seed), len(description_of)
    counts, nobody = np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    mine = np.zeros((n_raters + n_spare, n), dtype=bool)
    reserved, held = np.zeros(n, dtype=int), {}
    active = set(range(len(mine)))
    while active:
        rater = int(rng.choice(sorted(active)))
        if rater in held:
            counts[held[rater]] += 1
            reserved[held.pop(rater)] -= 1
            continue
        chosen = choose(counts, reserved, description_of, mine[rater], nobody, n_raters, size)
        assert not mine[rater][chosen].any()
        assert len(set(chosen)) == len(chosen)
        assert len(set(description_of[chosen])) <= 1
        mine[rater][chosen] = True
        if len(chosen):
            reserved[chosen] += 1
            held[rater] = chosen
        else:
            active.discard(rater)
    assert (counts == n_raters).all()


@given(st.lists(st.text(max_size=8), unique=True, max_size=15), st.text(max_size=8))
def test_the_order_shown_is_a_permutation_that_the_assignment_alone_decides(inputs, assignment):
    shown = shown_order(assignment, inputs)
    assert sorted(shown) == sorted(inputs)
    assert shown == shown_order(assignment, reversed(inputs))


def test_two_assignments_show_the_same_inputs_in_different_orders():
    inputs = [f"i{k}" for k in range(15)]
    assert len({tuple(shown_order(f"a{k}", inputs)) for k in range(20)}) == 20


def test_checks_sit_in_every_slot_about_as_often():
    slots = [check_slot(0, f"rater-{k}", "a cat", 15) for k in range(3000)]
    assert np.bincount(slots, minlength=15) == pytest.approx(200, abs=70)
    assert slots != [check_slot(1, f"rater-{k}", "a cat", 15) for k in range(3000)]
