import pickle
from collections import Counter

import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.vqa import shapes_vqa
from pipeline.vqa.shape_questions import KINDS, QUESTIONS, truth
from pipeline.vqa.shape_scenes import EMPTY, GROUND, images, object_masks, scenes

NUMBER = {question.text: i for i, question in enumerate(QUESTIONS)}


def test_every_kind_has_as_many_yes_as_no():
    samples = shapes_vqa.read(n_samples=60, seed=0, kinds=KINDS)
    assert Counter((s.category, s.answer) for s in samples) == {
        (kind, answer): 6 for kind in KINDS for answer in ("yes", "no")
    }
    assert len({s.sample_id for s in samples}) == 60


def test_every_answer_is_true_of_the_rendered_scene():
    for sample in shapes_vqa.read(n_samples=40, seed=1, kinds=KINDS):
        cells = sample.image.scene().cells
        assert truth(cells)[0, NUMBER[sample.question]] == (sample.answer == "yes")
        assert QUESTIONS[NUMBER[sample.question]].kind == sample.category


def test_a_mask_holds_the_pixels_of_the_named_objects_alone():
    n_empty = 0
    for sample in shapes_vqa.read(n_samples=60, seed=2, kinds=KINDS, noise=0):
        scene, question = sample.image.scene(), QUESTIONS[NUMBER[sample.question]]
        expected = np.zeros((64, 64), dtype=bool)
        for cell, code in enumerate(scene.cells[0].tolist()):
            if code in question.first or code in question.second:
                expected |= object_masks(scene)[0, cell]
        mask = sample.mask()
        assert (mask == expected).all()
        assert (np.asarray(sample.image())[mask] != GROUND).any(axis=1).all()
        assert mask.any() or sample.answer == "no"
        n_empty += not mask.any()
    assert n_empty > 0


def test_the_image_is_the_scenes_and_the_sample_pickles():
    sample = shapes_vqa.read(n_samples=3, seed=3, size=48, noise=5)[2]
    assert np.array_equal(np.asarray(sample.image()), images(sample.image.scene(), noise=5)[0])
    assert sample.image().size == (48, 48)
    assert sample.image().mode == "RGB"
    again = pickle.loads(pickle.dumps(sample))
    assert again == sample
    assert again.image().tobytes() == sample.image().tobytes()


def test_more_samples_never_change_earlier_ones_and_another_seed_changes_them():
    few, many = shapes_vqa.read(n_samples=5, seed=4), shapes_vqa.read(n_samples=12, seed=4)
    assert many[:5] == few
    assert [s.sample_id for s in few[:2]] == ["test-4-00000", "test-4-00001"]
    other = shapes_vqa.read(n_samples=5, seed=5)
    assert [s.image().tobytes() for s in other] != [s.image().tobytes() for s in few]


def test_the_test_samples_share_no_layout_with_training():
    held = {s.image.scene().cells.tobytes() for s in shapes_vqa.read(n_samples=300, seed=0, most=2)}
    seen = {row.tobytes() for row in scenes(3000, seed=0, split="train", most=2).cells[:, None]}
    assert not held & seen


def test_a_training_batch_packs_true_and_balanced_questions():
    batch = shapes_vqa.training_batch(3, 32, 8, seed=6, kinds=("object", "shape"))
    assert batch.images.shape == (32, 64, 64, 3)
    assert batch.images.dtype == np.uint8
    assert batch.cells.shape == (32, 16)
    assert set(np.unique(batch.cells)) <= set(range(EMPTY + 1))
    answers = truth(batch.cells)
    for i, (questions, said) in enumerate(zip(batch.questions, batch.answers, strict=True)):
        assert len(questions) == len(said) == 8
        for text, answer in zip(questions, said, strict=True):
            assert answers[i, NUMBER[text]] == (answer == "yes")
    yes = Counter(answer for said in batch.answers for answer in said)["yes"]
    assert abs(yes - 128) <= 1


def test_steps_differ_and_equal_steps_are_equal():
    first, again, next_one = (shapes_vqa.training_batch(step, 4, 2, seed=7) for step in (0, 0, 1))
    assert (first.images == again.images).all()
    assert first.questions == again.questions
    assert first.answers == again.answers
    assert (first.cells != next_one.cells).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 0}, "n_samples=0"),
        ({"kinds": ("size",)}, "are not some of"),
        ({"kinds": ("left",), "most": 1}, "has a 'left' question"),
        ({"size": 30}, "size=30"),
    ],
)
def test_settings_that_cannot_be_are_named(settings, message):
    with pytest.raises(AssayError, match=message):
        shapes_vqa.read(**{"n_samples": 2, "seed": 0, **settings})
