"""The small LLaVA: its words, its packed questions, its training and its files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.vlms import tiny_llava
from pipeline.vlms.tiny_llava import TinyShape, build
from pipeline.vlms.training.tiny_llava import COOL_DOWN, IGNORED, SHORTEST_LESSON, Batch, Draw, packed, train
from pipeline.vlms.words import ASSISTANT, COLON, END, PAD, Words

COLOURS = {"red": (230, 30, 30), "blue": (40, 60, 230)}
SHAPE = TinyShape(words=("is", "what", "it", *COLOURS, "?", "yes", "no"), side=16, patch=8, width=16)


def draw(step: int, n_images: int, n_questions: int) -> Batch:
    """Squares of one colour; what is it: its colour; is it: yes."""
    rng = generator(0, "tests", "tiny_llava", step)
    names, colour = list(COLOURS), rng.integers(0, 2, n_images)
    pixels = np.array(list(COLOURS.values()), dtype=np.uint8)[colour]
    images = np.broadcast_to(pixels[:, None, None], (n_images, 16, 16, 3))
    asked = rng.integers(0, 2, (n_images, n_questions))
    questions = [["what is it ?" if i else "is it ?" for i in row] for row in asked]
    answers = [[names[c] if i else "yes" for i in row] for row, c in zip(asked, colour, strict=True)]
    return images, questions, answers, np.tile(colour[:, None], (1, 4))


def fitted(n_steps: int, **changed: Any) -> dict[str, torch.Tensor]:
    settings = {"n_patch_classes": 2, "n_steps": n_steps, "n_images": 16, "n_questions": 3, "threads": 1}
    return train([draw], SHAPE, **settings | changed).state


def test_training_learns_what_the_image_shows_and_the_question_asks(tmp_path: Path) -> None:
    trained = train([draw], SHAPE, n_patch_classes=2, n_steps=150, n_images=16, n_questions=3, threads=1)
    assert trained.accuracy > 0.95
    tiny_llava.save(tmp_path, SHAPE, trained.state)
    vlm = tiny_llava.load(weights={"source": "folder", "path": tmp_path})
    for shown, pixel in COLOURS.items():
        for asked, told in (("what is it?", shown), ("is it?", "yes")):
            answer = vlm.answer(vlm.prepare(Image.new("RGB", (16, 16), pixel), asked))
            assert answer.text == told
            assert len(answer.ids) == 1


def test_the_next_lesson_begins_when_this_one_is_known_and_the_last_with_the_cool_down() -> None:
    asked: list[str] = []

    def lesson(name: str, known: bool) -> Draw:
        def drawn(step: int, n_images: int, n_questions: int) -> Batch:
            asked.append(name)
            images, questions, answers, labels = draw(step, n_images, n_questions)
            coin = generator(0, "tests", "coin", step).random((n_images, n_questions)) < 0.5
            tossed = [["yes" if heads else "no" for heads in row] for row in coin]
            return images, questions, answers if known else tossed, labels

        return drawn

    n_steps, settings = 400, {"n_patch_classes": 2, "n_images": 16, "n_questions": 3, "threads": 1}
    lessons = [lesson("known", True), lesson("a coin's", False), lesson("never", True), lesson("last", True)]
    train(lessons, SHAPE, n_steps=n_steps, **settings)
    first = asked.count("known")
    assert SHORTEST_LESSON <= first < n_steps / 2
    n_last = int(COOL_DOWN * n_steps)
    assert asked == ["known"] * first + ["a coin's"] * (n_steps - first - n_last) + ["last"] * n_last


def test_equal_settings_give_equal_weights_and_leave_torchs_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, other = fitted(3), fitted(3), fitted(3, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_saved_weights_come_back_bit_for_bit(tmp_path: Path) -> None:
    module = build(SHAPE, "eager")
    tiny_llava.save(tmp_path, SHAPE, module.state_dict())
    loaded = tiny_llava.load(weights={"source": "folder", "path": tmp_path})
    assert loaded.shape == SHAPE
    for name, value in module.state_dict().items():
        assert torch.equal(loaded.module.state_dict()[name], value)


def test_the_default_shape_has_about_177_thousand_parameters() -> None:
    shape = TinyShape(words=tuple(f"w{i}" for i in range(18)))
    assert sum(weight.numel() for weight in build(shape, "eager").parameters()) == 177_792
    assert shape.n_patches == 16


def test_packed_questions_teach_each_answer_and_its_end_alone() -> None:
    words = Words(SHAPE.words)
    ids, targets = packed(words, 4, [["is it red ?", "is it blue ?"], ["is it ?"]], [["yes", "no"], ["no"]])
    assert ids.shape == targets.shape == (2, 7 + 8 + 8)
    yes, no = words.ids["yes"], words.ids["no"]
    assert ids[0, 7:15].tolist() == [*words.encode("is it red ?"), ASSISTANT, COLON, yes, END]
    assert ids[1, 14:].tolist() == [PAD] * 9
    learnt = [
        (row, place, int(targets[row, place])) for row, place in (targets != IGNORED).nonzero().tolist()
    ]
    assert learnt == [(0, 12, yes), (0, 13, END), (0, 20, no), (0, 21, END), (1, 11, no), (1, 12, END)]


def test_a_model_asks_as_it_was_taught() -> None:
    vlm = tiny_llava.TinyLlava(build(SHAPE, "eager"), SHAPE, attention="eager")
    prepared = vlm.prepare(Image.new("RGB", (16, 16)), "is it red?")
    ids, targets = packed(vlm.words, 4, [["is it red ?"]], [["yes"]])
    first = int((targets[0] != IGNORED).nonzero()[0])
    assert prepared.input_ids.tolist() == ids[0, : first + 1].tolist()


@pytest.mark.parametrize(
    ("questions", "answers", "wrong"),
    [("is it green ?", "yes", "does not know 'green'"), ("is it red ?", "yes yes", "not one word")],
)
def test_a_word_that_is_not_known_is_named(questions: str, answers: str, wrong: str) -> None:
    with pytest.raises(AssayError, match=wrong):
        packed(Words(SHAPE.words), 4, [[questions]], [[answers]])


@pytest.mark.parametrize("words", [("a", "a"), ("USER",), ("two words",), ("",)])
def test_words_that_cannot_be_told_apart_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(AssayError, match="tiny_llava"):
        Words(words)


def test_a_shape_that_does_not_divide_is_refused() -> None:
    with pytest.raises(AssayError, match="multiple of patch=10"):
        TinyShape(words=("a",), patch=10)


def test_training_without_steps_is_refused() -> None:
    with pytest.raises(AssayError, match="n_steps=0"):
        fitted(0)


def test_files_that_are_missing_or_of_another_shape_are_named(tmp_path: Path) -> None:
    weights = {"source": "folder", "path": tmp_path}
    with pytest.raises(AssayError, match=r"holds no model\.safetensors"):
        tiny_llava.load(weights=weights)
    tiny_llava.save(tmp_path, SHAPE, build(TinyShape(words=SHAPE.words), "eager").state_dict())
    with pytest.raises(AssayError, match="is no trained tiny_llava"):
        tiny_llava.load(weights=weights)
    for wrong in ({"attention": "flash"}, {"dtype": "int8"}):
        with pytest.raises(AssayError, match="is not one of"):
            tiny_llava.load(weights=weights, **wrong)
