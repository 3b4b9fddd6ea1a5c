import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.vqa.shape_questions import KINDS, NUMBERS, QUESTIONS, WORDS, ask, can_ask, one_question, truth
from pipeline.vqa.shape_scenes import COLOURS, EMPTY, SHAPES, scenes

PHRASE = rf"a(?: ({'|'.join(COLOURS)}))? ({'|'.join(SHAPES)}|shape)"
ASKED = re.compile(rf"is there {PHRASE}(?: (left of|above) {PHRASE})? \?")
LAYOUT = st.lists(st.integers(0, EMPTY), min_size=16, max_size=16)


def literal(text, cells):
    """The answer, read from the words alone and looked for object by object."""
    colour, shape, relation, other_colour, other_shape = ASKED.fullmatch(text).groups()
    there = [(COLOURS[c // 4], SHAPES[c % 4], *divmod(i, 4)) for i, c in enumerate(cells) if c != EMPTY]

    def fits(thing, wanted_colour, wanted_shape):
        return wanted_colour in (None, thing[0]) and wanted_shape in ("shape", thing[1])

    for thing in there:
        if not fits(thing, colour, shape):
            continue
        if relation is None:
            return True
        for other in there:
            ahead = thing[3] < other[3] if relation == "left of" else thing[2] < other[2]
            if fits(other, other_colour, other_shape) and ahead:
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(LAYOUT)
def test_the_truth_of_every_question_is_what_its_words_say(cells):
    assert truth(np.array([cells]))[0].tolist() == [literal(q.text, cells) for q in QUESTIONS]


def test_every_question_is_there_once_with_its_words_and_the_objects_it_names():
    assert len({q.text for q in QUESTIONS}) == len(QUESTIONS) == 504
    assert Counter(q.kind for q in QUESTIONS) == {
        "object": 16,
        "colour": 4,
        "shape": 4,
        "left": 240,
        "above": 240,
    }
    for question in QUESTIONS:
        colour, shape, _, other_colour, other_shape = ASKED.fullmatch(question.text).groups()
        for names, codes in (
            ((colour, shape), question.first),
            ((other_colour, other_shape), question.second),
        ):
            assert list(codes) == [
                c
                for c in range(16)
                if names[1] and names[0] in (None, COLOURS[c // 4]) and names[1] in ("shape", SHAPES[c % 4])
            ]
    assert set(WORDS) == {word for q in QUESTIONS for word in q.text.split()} | {"yes", "no"}
    assert len(WORDS) == len(set(WORDS))


def test_questions_of_one_kind_have_one_length():
    lengths = {kind: {len(QUESTIONS[i].text.split()) for i in NUMBERS[kind]} for kind in KINDS}
    assert lengths == {"object": {6}, "colour": {6}, "shape": {5}, "left": {11}, "above": {10}}


@pytest.mark.parametrize("kinds", [*[(kind,) for kind in KINDS], KINDS])
def test_answers_are_true_and_half_of_every_kind_are_yes(kinds):
    cells = scenes(300, seed=1, split="train", fewest=2).cells
    cells = cells[np.all([can_ask(cells, kind) for kind in kinds], axis=0)]
    assert len(cells) > 200
    asked = ask(cells, 8, kinds=kinds, rng=np.random.default_rng(0))
    assert asked.questions.shape == asked.answers.shape == (len(cells), 8)
    answers = {kind: [] for kind in kinds}
    for row, numbers, said in zip(cells, asked.questions, asked.answers, strict=True):
        for number, answer in zip(numbers, said, strict=True):
            assert literal(QUESTIONS[number].text, row.tolist()) == answer
            answers[QUESTIONS[number].kind].append(answer)
    for found in answers.values():
        assert abs(2 * sum(found) - len(found)) <= 1
        assert len(found) > 0.8 * asked.answers.size / len(kinds)


def test_neither_the_words_nor_the_scene_tell_the_answer():
    cells = scenes(2000, seed=2, split="train").cells
    asked = ask(cells, 8, rng=np.random.default_rng(1))
    for number in range(16):
        said = asked.answers[asked.questions == number]
        assert abs(said.mean() - 0.5) < 4 * 0.5 / np.sqrt(said.size)
    held = (cells != EMPTY).sum(axis=1)
    for n_objects in range(1, 5):
        said = asked.answers[held == n_objects]
        assert abs(said.mean() - 0.5) < 4 * 0.5 / np.sqrt(said.size)


def test_six_of_ten_noes_are_near():
    cells = scenes(1500, seed=3, split="train").cells
    asked = ask(cells, 8, rng=np.random.default_rng(2))
    near = []
    for row, numbers, said in zip(cells.tolist(), asked.questions, asked.answers, strict=True):
        there = [(c // 4, c % 4) for c in row if c != EMPTY]
        options = {
            any((c // 4 == colour) != (c % 4 == shape) for colour, shape in there)
            for c in range(16)
            if (c // 4, c % 4) not in there
        }
        if options == {True, False}:
            near += [
                any((n // 4 == colour) or (n % 4 == shape) for colour, shape in there)
                for n in numbers[~said].tolist()
            ]
    assert np.mean(near) == pytest.approx(0.6, abs=4 * np.sqrt(0.24 / len(near)))


def test_near_noes_of_a_relation_name_two_objects_that_are_there():
    cells = scenes(800, seed=4, split="train", fewest=3).cells
    cells = cells[can_ask(cells, "left")]
    asked = ask(cells, 8, kinds=("left",), rng=np.random.default_rng(3))
    lefts = [QUESTIONS[i] for i in NUMBERS["left"]]
    both = []
    for row, numbers, said in zip(cells.tolist(), asked.questions, asked.answers, strict=True):
        there = [{*q.first, *q.second} <= set(row) for q in lefts]
        if any(t and not literal(q.text, row) for q, t in zip(lefts, there, strict=True)):
            both += [there[n - NUMBERS["left"][0]] for n in numbers[~said].tolist()]
    assert np.mean(both) == pytest.approx(0.6, abs=4 * np.sqrt(0.24 / len(both)))


@settings(max_examples=40, deadline=None)
@given(LAYOUT, st.sampled_from(KINDS), st.booleans(), st.integers(0, 5))
def test_one_question_has_the_kind_and_answer_asked_for(cells, kind, answer, seed):
    layout = np.array(cells)
    possible = {literal(QUESTIONS[i].text, cells) for i in NUMBERS[kind]}
    assert bool(can_ask(layout[None], kind)[0]) == (possible == {True, False})
    if answer in possible:
        question = QUESTIONS[one_question(layout, kind, answer, np.random.default_rng(seed))]
        assert question.kind == kind
        assert literal(question.text, cells) == answer


def test_a_scene_that_cannot_be_asked_both_ways_is_named_and_other_kinds_stand_in():
    single = np.full((2, 16), EMPTY)
    single[0, :2] = [0, 5]
    single[1, 3] = 7
    with pytest.raises(AssayError, match=r"scene 1 has no question .* among kinds=\['left'\]"):
        ask(single, 2, kinds=("left",), rng=np.random.default_rng(0))
    asked = ask(single, 6, kinds=("left", "object"), rng=np.random.default_rng(0))
    assert {QUESTIONS[n].kind for n in asked.questions[1]} == {"object"}
    assert {QUESTIONS[n].kind for n in asked.questions[0]} == {"left", "object"}


@pytest.mark.parametrize("kinds", [(), ("size",), ("object", "object")])
def test_kinds_that_there_are_not_are_named(kinds):
    with pytest.raises(AssayError, match="are not some of object, colour"):
        ask(scenes(1, seed=0, split="train").cells, 1, kinds=kinds, rng=np.random.default_rng(0))
