"""Beam search for the formula of concepts whose images have the highest activations of a unit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pipeline.composition import And, Formula, Not, Or
from pipeline.explainers.attribute_sums import attribute_counts, attribute_sums

FloatArray = NDArray[np.float64]
Bits = NDArray[np.uint8]

AND, OR, AND_NOT, OR_NOT = range(4)
DUPLICATES = 8
"""So many times the beam's width are ordered first; all, where too few of these differ in truth."""


@dataclass(frozen=True)
class Limits:
    """How far to search: concepts in a formula, beam width, and the share of images where it may hold."""

    length: int
    beam: int
    min_fraction: float
    max_fraction: float


@dataclass(frozen=True)
class Concepts:
    """Concepts on N images: attributes (N, A) of 0 and 1, and the same as bits (A, N / 8)."""

    attributes: NDArray[np.uint8]
    bits: Bits
    counts: FloatArray

    @property
    def n_images(self) -> int:
        """N."""
        return len(self.attributes)


@dataclass(frozen=True, eq=False)
class Found:
    """A formula for a unit: terms (operation, concept) joined from the left, starting from TRUE.

    `bits` says on which images it holds and `count` on how many; `doubled_ranks` is the sum of twice the
    unit's midranks over these.
    """

    terms: tuple[tuple[int, int], ...]
    bits: Bits
    doubled_ranks: float
    count: float
    auc: float

    @property
    def concepts(self) -> tuple[int, ...]:
        """The concepts, in the order of the table."""
        return tuple(sorted(concept for _, concept in self.terms))

    @property
    def n_negated(self) -> int:
        """How many concepts are negated."""
        return sum(operation in (AND_NOT, OR_NOT) for operation, _ in self.terms)


def concept_table(attributes: NDArray[np.uint8]) -> Concepts:
    """Return attributes (N, A) of 0 and 1 with what every search needs of them."""
    bits = np.ascontiguousarray(np.packbits(attributes, axis=0).T)
    return Concepts(attributes, bits, np.count_nonzero(attributes, axis=0).astype(np.float64))


def doubled_midranks(activations: NDArray[np.floating]) -> FloatArray:
    """Return twice the midranks, from 2 for a single lowest, of activations (N, U), as (U, N)."""
    return np.ascontiguousarray(2 * rankdata(activations, axis=0).T)


def area_under_roc(doubled_ranks: FloatArray, counts: FloatArray, n_images: int) -> FloatArray:
    """Return P(a where the formula holds > a where not), a tie one half; counts in 1..N-1.

    Twice a midrank is a whole number, so numerator and denominator are exact, and equal areas are equal.
    """
    return np.asarray((doubled_ranks - counts * (counts + 1)) / (2 * counts * (n_images - counts)))


def best_formulas(ranks: FloatArray, concepts: Concepts, limits: Limits) -> list[Found | None]:
    """Return the formula of highest AUC for each unit, or None where no concept may be used.

    `ranks` (U, N) are doubled midranks. A beam holds the `beam` best formulas so far that differ in truth,
    shorter ones too. Each new one is extended by every concept that it lacks, with AND, OR, AND NOT and
    OR NOT, until no formula is longer than `length`. Of equal AUC: the shorter, then the one with fewer NOT,
    then the one whose concepts stand first in the table, then AND before OR.
    So a longer formula is taken only if its AUC is higher. Up to length 3 and with a beam that never drops
    a formula the search is exhaustive, but for the shares of images: every part from the left must have an
    allowed one. Beyond, (a AND b) OR (c AND d) is never reached.
    Memory: U beam rows of N in float64, float32 and bytes; a block of 64 MiB of concepts; two arrays
    (U beam, A).
    """
    n = concepts.n_images
    root = Found((), np.packbits(np.ones(n, dtype=np.uint8)), n * (n + 1.0), n, 0.5)
    beams: list[list[Found]] = [[] for _ in ranks]
    growing = [[root] for _ in ranks]
    totals = np.empty(0)
    for length in range(1, limits.length + 1):
        sums, counts = _joint(ranks, growing, concepts)
        totals = sums if length == 1 else totals
        start = 0
        for unit, parents in enumerate(growing):
            rows = slice(start, start + len(parents))
            start = rows.stop
            grown = _Growth(parents, sums[rows], counts[rows], totals[unit], concepts)
            beams[unit], growing[unit] = _next_beam(beams[unit], grown, limits)
    return [beam[0] if beam else None for beam in beams]


def _joint(
    ranks: FloatArray, growing: Sequence[Sequence[Found]], concepts: Concepts
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of doubled ranks and the counts of images of (formula and concept), both (P, A)."""
    found = [formula for parents in growing for formula in parents]
    if not found:
        return np.empty((0, len(concepts.counts))), np.empty((0, len(concepts.counts)))
    owner = np.repeat(np.arange(len(growing)), [len(parents) for parents in growing])
    distinct: dict[bytes, int] = {}
    place = [distinct.setdefault(formula.bits.tobytes(), len(distinct)) for formula in found]
    rows = np.frombuffer(b"".join(distinct), dtype=np.uint8).reshape(len(distinct), -1)
    images = np.unpackbits(rows, axis=1, count=concepts.n_images)
    weights = ranks[owner]
    for row, image in zip(weights, place, strict=True):
        row *= images[image]
    sums = attribute_sums(weights, concepts.attributes)
    return np.asarray(sums), attribute_counts(images, concepts.attributes)[place]


class _Growth:
    """A unit's formulas (P of them), each extended by every operation and concept: arrays (P, 4, A)."""

    def __init__(
        self,
        parents: Sequence[Found],
        joint_ranks: FloatArray,
        joint_counts: FloatArray,
        totals: FloatArray,
        concepts: Concepts,
    ) -> None:
        n = concepts.n_images
        self.parents = parents
        self.concepts = concepts
        ranks = np.array([[parent.doubled_ranks] for parent in parents]).reshape(-1, 1)
        counts = np.array([[parent.count] for parent in parents]).reshape(-1, 1)
        self.ranks = _four(joint_ranks, ranks, totals, n * (n + 1.0))
        self.counts = _four(joint_counts, counts, concepts.counts, n)
        self.changes = self.counts != counts[:, None]
        for row, parent in zip(self.changes, parents, strict=True):
            row[:, list(parent.concepts)] = False

    def areas(self, limits: Limits) -> FloatArray:
        """Return the AUC, or -inf where the formula is not allowed, (P, 4, A)."""
        n = self.concepts.n_images
        share = self.counts / n
        allowed = self.changes & (self.counts > 0) & (self.counts < n)
        allowed &= (share >= limits.min_fraction) & (share <= limits.max_fraction)
        areas = np.full(self.counts.shape, -np.inf)
        areas[allowed] = area_under_roc(self.ranks[allowed], self.counts[allowed], n)
        return areas

    def in_order(self, areas: FloatArray, places: NDArray[np.intp]) -> list[tuple[int, int, int]]:
        """Return flat places as (formula, operation, concept), best first by the rule of ties."""
        formula, operation, concept = np.unravel_index(places, areas.shape)
        negated = np.array([parent.n_negated for parent in self.parents])[formula] + (operation >= AND_NOT)
        known = np.array([parent.concepts for parent in self.parents], dtype=np.intp)
        names = np.sort(np.column_stack([known[formula], concept]), axis=1)
        order = np.lexsort((operation, *names.T[::-1], negated, -areas.ravel()[places]))
        cells = np.column_stack([formula, operation, concept])[order]
        return [(int(i), int(j), int(k)) for i, j, k in cells]

    def make(self, cell: tuple[int, int, int], area: float) -> Found:
        """Return the formula of a cell."""
        row, operation, concept = cell
        parent = self.parents[row]
        bits = _joined(parent.bits, operation, self.concepts.bits[concept], self.concepts.n_images)
        terms = (*parent.terms, (operation, concept))
        return Found(terms, bits, float(self.ranks[cell]), float(self.counts[cell]), area)


def _four(joint: FloatArray, own: FloatArray, totals: FloatArray, everything: float) -> FloatArray:
    """Return a sum over the images of AND, OR, AND NOT, OR NOT, (P, 4, A), from that over AND (P, A)."""
    return np.stack([joint, own + totals - joint, own - joint, everything - totals + joint], axis=1)


def _joined(bits: Bits, operation: int, concept: Bits, n_images: int) -> Bits:
    if operation in (AND_NOT, OR_NOT):
        concept = ~concept
        concept[-1] &= 0xFF << (-n_images % 8) & 0xFF
    return bits & concept if operation in (AND, AND_NOT) else bits | concept


def _next_beam(beam: list[Found], growth: _Growth, limits: Limits) -> tuple[list[Found], list[Found]]:
    """Return the new beam, best first, and what of it is new."""
    if not growth.parents:
        return beam, []
    areas = growth.areas(limits)
    floor = beam[-1].auc if len(beam) == limits.beam else -np.inf
    new = _distinct(growth, areas, np.flatnonzero(areas > floor), beam, limits.beam)
    kept = sorted([*beam, *new], key=lambda formula: -formula.auc)[: limits.beam]
    return kept, [formula for formula in kept if len(formula.terms) > len(growth.parents[0].terms)]


def _distinct(
    growth: _Growth, areas: FloatArray, places: NDArray[np.intp], beam: Iterable[Found], width: int
) -> list[Found]:
    """Return the first `width` formulas of `places` that differ in truth from the beam and each other."""
    new: list[Found] = []
    for size in (DUPLICATES * width, len(places)):
        new = []
        seen = {formula.bits.tobytes() for formula in beam}
        for cell in growth.in_order(areas, _leading(areas.ravel(), places, size)):
            formula = growth.make(cell, float(areas[cell]))
            if formula.bits.tobytes() not in seen:
                seen.add(formula.bits.tobytes())
                new.append(formula)
            if len(new) == width:
                return new
    return new


def _leading(flat: FloatArray, places: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Return the places of the `size` highest values, and of all that equal the last of them."""
    if size >= len(places):
        return places
    values = flat[places]
    return np.asarray(places[values >= np.partition(values, -size)[-size]])


def formula(found: Found, names: Sequence[str]) -> Formula:
    """Return the formula in its canonical form: parts by the first of their concepts in `names`."""
    return _named(_tree(found), names)


@dataclass(frozen=True)
class _Node:
    """A concept (then without parts) or AND or OR of parts; `first` is the lowest concept."""

    operation: int
    first: int
    parts: tuple["_Node", ...] = ()


def _tree(found: Found) -> _Node:
    tree: _Node | None = None
    for operation, concept in found.terms:
        leaf = _Node(AND_NOT if operation in (AND_NOT, OR_NOT) else AND, concept)
        tree = leaf if tree is None else _join(AND if operation in (AND, AND_NOT) else OR, tree, leaf)
    if tree is None:
        raise ValueError("a formula names one concept at least")
    return tree


def _join(operation: int, tree: _Node, leaf: _Node) -> _Node:
    parts = tree.parts if tree.parts and tree.operation == operation else (tree,)
    parts = tuple(sorted([*parts, leaf], key=lambda part: part.first))
    return _Node(operation, parts[0].first, parts)


def _named(node: _Node, names: Sequence[str]) -> Formula:
    if not node.parts:
        return Not(names[node.first]) if node.operation == AND_NOT else names[node.first]
    parts = tuple(_named(part, names) for part in node.parts)
    return And(parts) if node.operation == AND else Or(parts)
