"""Which images of a unit are shown."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.llm.selection import Shown, most_active, shown_images


def choose(activations: np.ndarray, units: list[int], n_top: int = 3, n_random: int = 3, seed: int = 0):
    return shown_images(activations, units, n_top=n_top, n_random=n_random, seed=seed, place="net/layer")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 10))
def test_the_most_active_are_those_of_a_plain_sort(values, n):
    slow = sorted(range(len(values)), key=lambda row: (-values[row], row))
    slow = [row for row in slow if values[row] > min(values)][:n]
    assert most_active(np.array(values, dtype=np.float32), n).tolist() == slow


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 12), st.integers(0, 9))
def test_random_images_are_others_and_distinct(n_images, n_top, n_random, seed):
    activations = np.random.default_rng(seed).random((n_images, 3))
    for shown in choose(activations, [0, 2], n_top, n_random, seed):
        assert len(shown.top) == min(n_top, n_images - 1)
        assert len(shown.random) == min(n_random, n_images - len(shown.top))
        assert len({*shown.top, *shown.random}) == len(shown.top) + len(shown.random)


def test_images_at_the_lowest_activation_are_never_most_active():
    latent = np.zeros((10, 1))
    latent[[7, 2], 0] = [1, 5]
    assert choose(latent, [0])[0].top == (2, 7)


def test_nan_free_types_do_not_matter_and_big_integers_keep_their_order():
    assert most_active(np.array([1, 2**40, 2**41], dtype=np.int64), 2).tolist() == [2, 1]
    assert most_active(np.array([1, 3, 2], dtype=np.float16), 2).tolist() == [1, 2]


def test_a_units_images_do_not_move_with_other_units_and_move_with_the_seed():
    activations = np.random.default_rng(0).random((50, 4))
    alone = choose(activations, [2])
    assert alone == [shown for shown in choose(activations, [0, 2, 3]) if shown.unit == 2]
    assert choose(activations, [2], seed=1)[0].random != alone[0].random
    assert choose(activations, [2], seed=1)[0].top == alone[0].top


def test_random_images_are_uniform_over_the_others():
    activations = np.zeros((6, 400))
    activations[3] = 1
    counts = np.zeros(6)
    for shown in choose(activations, list(range(400)), n_top=1, n_random=1):
        counts[list(shown.random)] += 1
    assert counts[3] == 0
    assert (np.abs(np.delete(counts, 3) - 80) < 5 * np.sqrt(400 * 0.2 * 0.8)).all()


def test_codes_are_read_by_columns_alone():
    class Codes:
        shape = (5, 3)
        dense = np.arange(15, dtype=float).reshape(5, 3)

        def __getitem__(self, key):
            rows, columns = key
            assert rows == slice(None)
            return self.dense[:, columns]

    assert choose(Codes(), [2, 1], 2, 1) == choose(Codes.dense, [2, 1], 2, 1)
    assert choose(Codes(), [2, 1], 2, 1)[0] == Shown(2, (4, 3), choose(Codes.dense, [2], 2, 1)[0].random)


def test_no_unit_is_no_question():
    assert choose(np.ones((3, 2)), []) == []
