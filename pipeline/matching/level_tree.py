"""Decision trees on sparse codes, grown level by level: a whole level in a few passes over its cells.

The tree is the usual one (CART, Gini, no limit of depth): an impure node takes the cut that lowers the
impurity most, also where no cut lowers it. On ties: the lowest latent, then a cut among negative codes
before one among positive codes, then the threshold furthest from 0.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.matching.codes import BoolArray, FloatArray, IntArray, Sparse


@dataclass(frozen=True, eq=False)
class Cells:
    """The non-zero codes of R rows, E of them, by feature and then from the outermost code inwards.

    row, feature, value: (E,). A latent has two features: 2 latent for its negative codes and 2 latent + 1
    for its positive ones, so that the rows whose code is 0 always lie behind the last cell of a feature.
    """

    row: IntArray
    feature: IntArray
    value: FloatArray
    n_rows: int

    @classmethod
    def of(cls, codes: Sparse) -> "Cells":
        """Return the cells of sparse codes (R, D) without stored zeros."""
        row = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        value = np.asarray(codes.data, dtype=np.float64)
        feature = 2 * codes.indices.astype(np.int64) + (value > 0)
        order = np.lexsort((-np.abs(value), feature))
        return cls(row[order], feature[order], value[order], codes.shape[0])

    def of_rows(self, rows: IntArray) -> "Cells":
        """Return the cells of some rows, none twice, numbered as in `rows`."""
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        row = place[self.row]
        return Cells(row, self.feature, self.value, len(rows)).taken(np.flatnonzero(row >= 0))

    def taken(self, chosen: IntArray) -> "Cells":
        """Return some of the cells, in the given order."""
        return Cells(self.row[chosen], self.feature[chosen], self.value[chosen], self.n_rows)


@dataclass(frozen=True, eq=False)
class Lookup:
    """The code of any row at any latent: keys (E,) rise, latent times n_rows plus row."""

    keys: IntArray
    values: FloatArray
    n_rows: int

    @classmethod
    def of(cls, cells: Cells) -> "Lookup":
        """Return the look-up of some cells; what has no cell is 0."""
        keys = (cells.feature >> 1) * cells.n_rows + cells.row
        order = np.argsort(keys)
        return cls(keys[order], cells.value[order], cells.n_rows)

    def at(self, rows: IntArray, latents: IntArray) -> FloatArray:
        """Return the codes at (row, latent) pairs, (P,)."""
        if not len(self.keys):
            return np.zeros(len(rows))
        keys = latents * self.n_rows + rows
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.values[place], 0.0)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts (C,) of nodes in two sides: the codes that lie further out than `threshold`, and the others.

    On a feature of positive codes the outer side is above the threshold, on one of negative codes it is the
    threshold and below. score: the fall in impurity, comparable within a node. start, stop: the cells of
    the outer side.
    """

    node: IntArray
    feature: IntArray
    threshold: FloatArray
    score: FloatArray
    start: IntArray
    stop: IntArray

    @property
    def latent(self) -> IntArray:
        """The latent of each cut, (C,)."""
        return self.feature >> 1

    def taken(self, chosen: IntArray) -> "Cuts":
        """Return some of the cuts, in the given order."""
        return Cuts(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def outer(self, values: FloatArray, cut: IntArray) -> BoolArray:
        """Return whether codes (P,) lie on the outer side of the cut of each, (P,)."""
        above = values > self.threshold[cut]
        return np.asarray(above == (self.feature[cut] & 1 == 1))


def stumps(cells: Cells, labels: BoolArray) -> Cuts:
    """Return the best cut of each latent that varies, best latent first, the lowest one on ties."""
    root = np.zeros(len(cells.row), dtype=np.int64)
    cuts = _best_cuts(cells, root, labels, *_counts(np.zeros(len(labels), dtype=np.int64), labels, 1), True)
    return cuts.taken(np.argsort(-cuts.score, kind="stable"))


def stump_accuracy(
    cuts: Cuts, place: int, fit: Cells, fit_labels: BoolArray, held: Lookup, held_labels: BoolArray
) -> float:
    """Return the share of held rows that one of the stumps labels rightly.

    Each side of the cut predicts the majority of its fitted rows, negative on ties.
    """
    cut = np.array([place])
    node = _children(cuts.taken(cut), 1, fit, np.zeros(len(fit_labels), dtype=np.int64))
    rows = np.arange(len(held_labels))
    outer = cuts.outer(held.at(rows, cuts.latent[cut].repeat(len(rows))), cut.repeat(len(rows)))
    return float(np.mean(_majority(node, fit_labels, 2)[outer.astype(np.int64)] == held_labels))


def depth_accuracies(fit: Cells, fit_labels: BoolArray, held: Lookup, held_labels: BoolArray) -> FloatArray:
    """Return the accuracy on held rows of the tree of the fitted rows, cut off at depth 1, 2, ... L, (L,).

    A node of the cut-off tree predicts the majority of its fitted rows, negative on ties. L is the depth at
    which no impure node has a latent that varies; 0 where the root is pure or has none.
    """
    node, held_node = (np.zeros(len(labels), dtype=np.int64) for labels in (fit_labels, held_labels))
    predicted = np.zeros(len(held_labels), dtype=np.bool_)
    accuracies: list[float] = []
    n_nodes = int(0 < fit_labels.sum() < len(fit_labels))
    while n_nodes:
        cuts = _best_cuts(fit, node[fit.row], fit_labels, *_counts(node, fit_labels, n_nodes), False)
        if not len(cuts.node):
            break
        node = _children(cuts, n_nodes, fit, node)
        held_node = _held_children(cuts, n_nodes, held, held_node)
        moved = np.flatnonzero(held_node >= 0)
        predicted[moved] = _majority(node, fit_labels, 2 * n_nodes)[held_node[moved]]
        accuracies.append(float(np.mean(predicted == held_labels)))
        names, n_nodes = _impure(node, fit_labels, 2 * n_nodes)
        node, held_node = names[node], names[held_node]
        fit = _by_node(fit, node)
    return np.array(accuracies)


def _counts(node: IntArray, labels: BoolArray, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return the rows and the positive rows of each node, (n_nodes,) each; node -1 is none."""
    inside = node >= 0
    n_rows, n_positive = (
        np.bincount(node[rows], minlength=n_nodes).astype(np.float64) for rows in (inside, inside & labels)
    )
    return n_rows, n_positive


def _majority(node: IntArray, labels: BoolArray, n_nodes: int) -> BoolArray:
    """Return whether more than half of each node's rows are positive, (n_nodes,)."""
    n_rows, n_positive = _counts(node, labels, n_nodes)
    return 2 * n_positive > n_rows


def _impure(node: IntArray, labels: BoolArray, n_nodes: int) -> tuple[IntArray, int]:
    """Return a new number for each node that has both labels, -1 for the others and for node -1."""
    n_rows, n_positive = _counts(node, labels, n_nodes)
    mixed = (n_positive > 0) & (n_positive < n_rows)
    names = np.full(n_nodes + 1, -1)
    names[:-1][mixed] = np.arange(mixed.sum())
    return names, int(mixed.sum())


def _children(cuts: Cuts, n_nodes: int, cells: Cells, node: IntArray) -> IntArray:
    """Return the fitted rows' children: 2 node, plus 1 on the outer side; -1 without a cut or a node."""
    inner = np.full(n_nodes + 1, -1)
    inner[cuts.node] = 2 * cuts.node
    children = inner[node]
    lengths = cuts.stop - cuts.start
    cell = np.arange(lengths.sum()) + np.repeat(cuts.start - (np.cumsum(lengths) - lengths), lengths)
    children[cells.row[cell]] += 1
    return children


def _held_children(cuts: Cuts, n_nodes: int, held: Lookup, node: IntArray) -> IntArray:
    """Return the held rows' children, as `_children`."""
    place = np.full(n_nodes + 1, -1)
    place[cuts.node] = np.arange(len(cuts.node))
    cut = place[node]
    rows = np.flatnonzero(cut >= 0)
    outer = cuts.outer(held.at(rows, cuts.latent[cut[rows]]), cut[rows])
    children = np.full(len(node), -1)
    children[rows] = 2 * node[rows] + outer
    return children


def _by_node(cells: Cells, node: IntArray) -> Cells:
    """Return the cells of rows that are in a node, by node; within a node the order stays."""
    of_cell = node[cells.row]
    inside = np.flatnonzero(of_cell >= 0)
    of_cell = of_cell[inside]
    if len(of_cell) and (of_cell[1:] < of_cell[:-1]).any():
        small = len(node) <= np.iinfo(np.uint16).max
        inside = inside[np.argsort(of_cell.astype(np.uint16) if small else of_cell, kind="stable")]
    return cells.taken(inside)


def _best_cuts(
    cells: Cells,
    node: IntArray,
    labels: BoolArray,
    n_rows: FloatArray,
    n_positive: FloatArray,
    by_latent: bool,
) -> Cuts:
    """Return the best cut of each node that has one, or, of a root alone, of each latent that varies.

    cells: by node (E,), feature, and inwards. labels: of all rows. n_rows, n_positive: of each node.
    """
    n_features = 2 * (int(cells.feature.max(initial=0)) // 2 + 1)
    key = node * n_features + cells.feature
    scores, starts = _scores(key, cells.value, labels[cells.row], n_rows[node], n_positive[node])
    best = _first_best(cells.feature >> 1 if by_latent else node, scores)
    threshold = _thresholds(key, cells.value, n_rows[node[best]], best)
    opened = starts[np.searchsorted(starts, best, side="right") - 1]
    return Cuts(node[best], cells.feature[best], threshold, scores[best], opened, best + 1)


def _scores(
    key: IntArray, value: FloatArray, label: BoolArray, n_rows: FloatArray, n_positive: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return the score of parting each cell and those further out from its node's other rows, (E,).

    Also the first cell of each key. With r rows parted, s of them positive, of n rows and p positive, the
    fall of the Gini impurity is 2 (s n - r p)^2 / (r (n - r)) / n^3; the score leaves out what a node has
    in common. Products of whole numbers, exact below n = 19,000, so that equal falls are equal scores.
    -1 where there is no cut: the next code inwards is the same, or nothing is left.
    """
    closes = np.ones(len(key), dtype=np.bool_)
    np.not_equal(key[1:], key[:-1], out=closes[:-1])
    starts = (
        np.concatenate([[0], np.flatnonzero(closes)[:-1] + 1]) if len(key) else np.empty(0, dtype=np.int64)
    )
    lengths = np.diff(starts, append=len(key))
    total = np.cumsum(label, dtype=np.int64)
    parted = np.arange(1.0, len(key) + 1) - np.repeat(starts, lengths)
    positive = total - np.repeat(total[starts] - label[starts], lengths)
    left = n_rows - parted
    cut = closes
    cut[:-1] |= value[1:] != value[:-1]
    cut &= left > 0
    gain = positive * n_rows - parted * n_positive
    gain *= gain
    return np.where(cut, gain / (parted * np.maximum(left, 1)), -1.0), starts


def _first_best(keys: IntArray, scores: FloatArray) -> IntArray:
    """Return for each key the place of its greatest score, the first on ties; keys rise.

    A key without a score of at least 0 has none.
    """
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    greatest = np.maximum.reduceat(scores, starts)
    greatest[greatest < 0] = np.inf
    best = np.flatnonzero(scores == np.repeat(greatest, np.diff(starts, append=len(keys))))
    return np.asarray(best[np.diff(keys[best], prepend=-1) != 0])


def _thresholds(key: IntArray, value: FloatArray, n_rows: FloatArray, best: IntArray) -> FloatArray:
    """Return the threshold of cuts: midway to the next code inwards, the lower of the two if none is between.

    Behind the last cell of a feature come the rows of code 0, or else the codes of the other sign. n_rows:
    of the node of each cut. A code of at most the threshold is on the lower side.
    """
    own, other = key[best], key[best] ^ 1
    first, stop = (np.searchsorted(key, other, side=side) for side in ("left", "right"))
    n_own = np.searchsorted(key, own, side="right") - np.searchsorted(key, own)
    across = (stop > first) & (n_own + stop - first == n_rows)
    inwards = np.where(across, value[np.maximum(stop - 1, 0)], 0.0)
    following = np.minimum(best + 1, len(key) - 1)
    same = (following > best) & (key[following] == own)
    inwards[same] = value[following[same]]
    low, high = np.minimum(value[best], inwards), np.maximum(value[best], inwards)
    middle = low + (high - low) / 2
    return np.where(middle < high, middle, low)
