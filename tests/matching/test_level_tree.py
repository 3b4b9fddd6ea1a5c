from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.tree import DecisionTreeClassifier

from pipeline.matching.level_tree import Cells, Lookup, depth_accuracies, stump_accuracy, stumps


@dataclass
class Node:
    """A node of the literal tree: the rows that reach it, and its cut where it has one."""

    rows: np.ndarray
    latent: int = -1
    threshold: float = 0.0
    sides: "tuple[Node, Node] | None" = None


def impurity(labels: np.ndarray) -> Fraction:
    """Rows times Gini, exactly."""
    n, p = len(labels), int(labels.sum())
    return Fraction(2 * p * (n - p), n)


def cuts_in_order(codes: np.ndarray):
    """Every cut of some rows, in the order of the tie rule."""
    for latent, column in enumerate(codes.T):
        values = np.unique(column)
        pairs = list(pairwise(values))
        below = [pair for pair in pairs if pair[0] < 0]
        above = [pair for pair in reversed(pairs) if pair[1] > 0]
        for low, high in [*below, *above]:
            middle = low + (high - low) / 2
            yield latent, middle if middle < high else low


def best_cut(codes: np.ndarray, labels: np.ndarray) -> tuple[int, float] | None:
    found = None
    for latent, threshold in cuts_in_order(codes):
        left = codes[:, latent] <= threshold
        total = impurity(labels[left]) + impurity(labels[~left])
        if found is None or total < found[0]:
            found = total, latent, threshold
    return None if found is None else found[1:]


def grow(codes: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> Node:
    node = Node(rows)
    if 0 < labels[rows].sum() < len(rows) and (cut := best_cut(codes[rows], labels[rows])):
        node.latent, node.threshold = cut
        left = codes[rows, node.latent] <= node.threshold
        node.sides = grow(codes, labels, rows[left]), grow(codes, labels, rows[~left])
    return node


def depth(node: Node) -> int:
    return 0 if node.sides is None else 1 + max(depth(side) for side in node.sides)


def predict(node: Node, row: np.ndarray, labels: np.ndarray, levels: int) -> bool:
    while levels and node.sides is not None:
        node = node.sides[0 if row[node.latent] <= node.threshold else 1]
        levels -= 1
    return 2 * labels[node.rows].sum() > len(node.rows)


def literal_accuracies(codes, labels, held, held_labels) -> list[float]:
    root = grow(codes, labels, np.arange(len(codes)))
    return [
        float(
            np.mean(
                [predict(root, row, labels, levels) == y for row, y in zip(held, held_labels, strict=True)]
            )
        )
        for levels in range(1, depth(root) + 1)
    ]


def cells(codes: np.ndarray) -> Cells:
    return Cells.of(sp.csr_array(codes))


def a_case(seed: int):
    """Codes of few distinct values, so that ties abound; signed ones, and ones without a zero, too."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 26)), int(rng.integers(1, 6))
    values = rng.integers(1, 4, size=(2 * n, d)) / 2
    if seed % 3 == 0:
        values *= rng.choice([-1, 1], size=(2 * n, d))
    filled = rng.random((2 * n, d)) < (1.0 if seed % 5 == 0 else rng.random())
    codes = np.where(filled, values, 0.0)
    labels = rng.random(2 * n) < 0.5
    return codes[:n], labels[:n], codes[n:], labels[n:]


@pytest.mark.parametrize("seed", range(150))
def test_it_is_the_tree_of_the_literal_search_at_every_depth(seed: int):
    fit, labels, held, held_labels = a_case(seed)
    found = depth_accuracies(cells(fit), labels, Lookup.of(cells(held)), held_labels)
    assert found.tolist() == literal_accuracies(fit, labels, held, held_labels)


@pytest.mark.parametrize("seed", range(40))
def test_the_stumps_are_the_best_cuts_of_each_latent_in_order(seed: int):
    fit, labels, held, held_labels = a_case(seed)
    found = stumps(cells(fit), labels)
    expected = []
    for latent in range(fit.shape[1]):
        alone = np.where(np.arange(fit.shape[1]) == latent, fit, 0.0)
        if (cut := best_cut(alone, labels)) is not None:
            left = fit[:, latent] <= cut[1]
            expected.append((impurity(labels[left]) + impurity(labels[~left]), *cut))
    expected.sort(key=lambda each: each[:2])
    assert found.latent.tolist() == [latent for _, latent, _ in expected]
    assert found.threshold.tolist() == [threshold for *_, threshold in expected]
    for place, (_, latent, threshold) in enumerate(expected):
        majority = [
            2 * labels[side].sum() > side.sum()
            for side in (fit[:, latent] <= threshold, fit[:, latent] > threshold)
        ]
        right = np.where(held[:, latent] > threshold, majority[1], majority[0]) == held_labels
        got = stump_accuracy(found, place, cells(fit), labels, Lookup.of(cells(held)), held_labels)
        assert got == right.mean()


@pytest.mark.parametrize("signed", [False, True])
def test_scikit_learn_grows_the_same_tree_while_nodes_are_large(signed: bool):
    """In small nodes cuts tie, and scikit-learn takes one at random."""
    rng = np.random.default_rng(4)
    codes = rng.normal(size=(3000, 6)).astype(np.float32)
    codes = np.where(rng.random((3000, 6)) < 0.4, codes if signed else np.abs(codes), 0).astype(np.float32)
    labels = codes @ rng.normal(size=6) + rng.normal(size=3000) > 0.3
    fit, held = slice(2000), slice(2000, None)
    found = depth_accuracies(cells(codes[fit]), labels[fit], Lookup.of(cells(codes[held])), labels[held])
    for levels in range(1, 5):
        tree = DecisionTreeClassifier(max_depth=levels, random_state=0).fit(codes[fit], labels[fit])
        assert found[levels - 1] == np.mean(tree.predict(codes[held]) == labels[held])


def test_a_cut_that_gains_nothing_is_still_taken():
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    labels = np.array([False, True, True, False])
    found = depth_accuracies(cells(codes), labels, Lookup.of(cells(codes)), labels)
    assert found.tolist() == [0.5, 1.0]


def test_a_pure_root_and_codes_that_do_not_vary_have_no_depth():
    codes = np.array([[1.0], [0.0], [2.0]])
    mixed = np.array([True, False, True])
    for values, labels in ((codes, ~np.zeros(3, bool)), (codes * 0, mixed), (codes * 0 + 1, mixed)):
        assert depth_accuracies(cells(values), labels, Lookup.of(cells(values)), labels).tolist() == []
        if not labels.all():
            assert len(stumps(cells(values), labels).node) == 0


def test_neighbouring_floats_are_told_apart():
    low = 1.0
    codes = np.array([[low], [np.nextafter(low, 2)]])
    labels = np.array([True, False])
    assert depth_accuracies(cells(codes), labels, Lookup.of(cells(codes)), labels).tolist() == [1.0]


def test_codes_are_looked_up_by_row_and_latent():
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((20, 9)) < 0.3, rng.normal(size=(20, 9)), 0.0)
    rows, latents = np.indices(codes.shape).reshape(2, -1)
    np.testing.assert_array_equal(Lookup.of(cells(codes)).at(rows, latents), codes.ravel())


def test_some_rows_are_numbered_as_they_are_asked_for():
    codes = np.array([[0, 2.0], [-1.0, 0], [3.0, 4.0]])
    taken = cells(codes).of_rows(np.array([2, 0]))
    assert sorted(zip(taken.row, taken.feature >> 1, taken.value, strict=True)) == [
        (0, 0, 3),
        (0, 1, 4),
        (1, 1, 2),
    ]
