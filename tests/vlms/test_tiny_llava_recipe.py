"""The small model of the VLM track, trained whole: minutes on one thread."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.vlms import tiny_llava
from pipeline.vlms.tiny_llava import TinyShape
from pipeline.vlms.training.tiny_llava import train
from pipeline.vqa.shape_questions import WORDS
from pipeline.vqa.shapes_vqa import read, training_batch


@pytest.mark.long
def test_it_answers_questions_about_scenes_that_it_never_saw(tmp_path: Path) -> None:
    def draw(step: int, n_images: int, n_questions: int):
        return training_batch(step, n_images, n_questions, seed=0)

    shape = TinyShape(words=tuple(WORDS))
    fitted = train(draw, shape, n_patch_classes=17, n_steps=1200, threads=1)
    tiny_llava.save(tmp_path, shape, fitted.state)
    model = tiny_llava.load(weights={"source": "folder", "path": tmp_path})
    samples = read(n_samples=1000, seed=1)
    right = [model.answer(model.prepare(s.image(), s.question)).text == s.answer for s in samples]
    print(f"held-out accuracy {np.mean(right):.3f} of {len(right)} questions")
    assert np.mean(right) >= 0.95
