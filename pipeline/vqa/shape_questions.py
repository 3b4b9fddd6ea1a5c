"""Yes/no questions about scenes of shapes: all there are, their truth, and balanced draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import AssayError
from pipeline.vqa.shape_scenes import COLOURS, GRID, N_CELLS, N_OBJECTS, SHAPES

KINDS = ("object", "colour", "shape", "left", "above")
NEAR_SHARE = 0.6


@dataclass(frozen=True)
class Question:
    """A question; first and second: the object codes that its one or two phrases name."""

    kind: str
    text: str
    first: tuple[int, ...]
    second: tuple[int, ...] = ()


@dataclass(frozen=True)
class Asked:
    """Questions drawn for n scenes: (n, per_scene) int64 numbers in QUESTIONS, and bool answers."""

    questions: np.ndarray
    answers: np.ndarray


def _name(code: int) -> str:
    return f"{COLOURS[code // len(SHAPES)]} {SHAPES[code % len(SHAPES)]}"


def _single() -> list[Question]:
    codes = range(N_OBJECTS)
    objects = [Question("object", f"is there a {_name(code)} ?", (code,)) for code in codes]
    colours = [
        Question("colour", f"is there a {name} shape ?", tuple(c for c in codes if c // len(SHAPES) == i))
        for i, name in enumerate(COLOURS)
    ]
    shapes = [
        Question("shape", f"is there a {name} ?", tuple(c for c in codes if c % len(SHAPES) == i))
        for i, name in enumerate(SHAPES)
    ]
    return [*objects, *colours, *shapes]


def _related(kind: str, words: str) -> list[Question]:
    return [
        Question(kind, f"is there a {_name(a)} {words} a {_name(b)} ?", (a,), (b,))
        for a in range(N_OBJECTS)
        for b in range(N_OBJECTS)
        if a != b
    ]


QUESTIONS = (*_single(), *_related("left", "left of"), *_related("above", "above"))
WORDS = (*dict.fromkeys(word for question in QUESTIONS for word in question.text.split()), "yes", "no")
NUMBERS = {kind: np.array([i for i, q in enumerate(QUESTIONS) if q.kind == kind]) for kind in KINDS}
SINGLE = np.array([[code in q.first for q in _single()] for code in range(N_OBJECTS)])
PAIRS = ~np.eye(N_OBJECTS, dtype=bool)


def truth(cells: np.ndarray) -> np.ndarray:
    """Return (n, 504) bool: the answer of every question of QUESTIONS for layouts (n, 16).

    "Left of" and "above" compare columns and rows of the grid, and one pair of objects is enough.
    """
    held = np.asarray(cells)[:, None, :] == np.arange(N_OBJECTS)[None, :, None]
    places = np.arange(N_CELLS)
    single = held.any(axis=2) @ SINGLE
    return np.hstack([single, _before(held, places % GRID), _before(held, places // GRID)])


def ask(
    cells: np.ndarray, per_scene: int, *, kinds: Sequence[str] = ("object",), rng: np.random.Generator
) -> Asked:
    """Draw `per_scene` questions for each layout (n, 16); half of each kind's answers are yes.

    A question's kind is uniform among those of `kinds` that have a yes and a no in its scene, and its answer
    is independent of the scene and of the words. A yes is uniform among the true questions; a no is near with
    probability 0.6: it shares a colour or a shape with what is there, or names two objects that are there in
    another relation. Raises AssayError for an unknown kind and a scene in which no kind can be asked.
    """
    check_kinds(kinds)
    true = truth(cells)
    kind = np.repeat(_feasible(true, kinds)[:, None], per_scene, axis=1)
    chosen = np.where(kind, rng.random(kind.shape), -1.0).argmax(axis=2)
    answers = np.zeros(chosen.shape, dtype=bool)
    questions = np.zeros(chosen.shape, dtype=np.int64)
    near = _near(cells)
    for i, name in enumerate(kinds):
        rows, slots = np.nonzero(chosen == i)
        wanted = _halves(len(rows), rng)
        numbers = NUMBERS[name]
        answers[rows, slots] = wanted
        questions[rows, slots] = _drawn(true[rows][:, numbers], near[rows][:, numbers], wanted, numbers, rng)
    return Asked(questions, answers)


def can_ask(cells: np.ndarray, kind: str) -> np.ndarray:
    """Return (n,) bool: whether the kind has a question with a yes and one with a no in each layout."""
    return _feasible_kind(truth(cells), kind)


def check_kinds(kinds: Sequence[str]) -> None:
    """Raise AssayError where `kinds` is empty, names one twice, or names one that is not of KINDS."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise AssayError(f"shapes_vqa: kinds={list(kinds)} are not some of {', '.join(KINDS)}, each once")


def one_question(cells: np.ndarray, kind: str, answer: bool, rng: np.random.Generator) -> int:
    """Return the number of a question of that kind and answer for one layout (16,), drawn as in `ask`."""
    numbers, layout = NUMBERS[kind], cells[None]
    wanted = np.array([answer])
    return int(_drawn(truth(layout)[:, numbers], _near(layout)[:, numbers], wanted, numbers, rng)[0])


def _before(held: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return (n, 240) bool: whether some first object lies before some second one along `places` (16,)."""
    earliest = np.where(held, places, GRID).min(axis=2)
    latest = np.where(held, places, -1).max(axis=2)
    return np.asarray((earliest[:, :, None] < latest[:, None, :])[:, PAIRS])


def _near(cells: np.ndarray) -> np.ndarray:
    """Return (n, 504) bool: whether a question, if its answer is no, is near what is there."""
    present = (np.asarray(cells)[:, None, :] == np.arange(N_OBJECTS)[None, :, None]).any(axis=2)
    grid = present.reshape(-1, len(COLOURS), len(SHAPES))
    shares = (grid.any(axis=2)[:, :, None] | grid.any(axis=1)[:, None, :]).reshape(-1, N_OBJECTS)
    both = (present[:, :, None] & present[:, None, :])[:, PAIRS]
    wide = np.zeros((len(present), len(COLOURS) + len(SHAPES)), dtype=bool)
    return np.hstack([shares, wide, both, both])


def _feasible_kind(true: np.ndarray, kind: str) -> np.ndarray:
    part = true[:, NUMBERS[kind]]
    return np.asarray(part.any(axis=1) & ~part.all(axis=1))


def _feasible(true: np.ndarray, kinds: Sequence[str]) -> np.ndarray:
    feasible = np.stack([_feasible_kind(true, kind) for kind in kinds], axis=1)
    if not feasible.any(axis=1).all():
        raise AssayError(
            f"shapes_vqa: scene {int((~feasible.any(axis=1)).argmax())} has no question with a yes and one "
            f"with a no among kinds={list(kinds)}; ask for `object` as well"
        )
    return feasible


def _halves(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n answers in random order, half of them yes; of an odd number the odd one is a coin's."""
    first = int(rng.integers(2))
    return rng.permutation((np.arange(n) + first) % 2 == 0)


def _drawn(
    true: np.ndarray, near: np.ndarray, wanted: np.ndarray, numbers: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw for each row (K questions of one kind) one whose truth is `wanted` (rows,)."""
    fits = true == wanted[:, None]
    favoured = ~wanted[:, None] & (near == (rng.random(len(wanted)) < NEAR_SHARE)[:, None])
    keys = np.where(fits, rng.random(fits.shape) + favoured, -1.0)
    return np.asarray(numbers[keys.argmax(axis=1)])
