"""The small model of the VLM track, trained whole: minutes on one thread."""

import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.plan.settings.vlm import TinyLlavaSettings
from pipeline.stages.keywords import keywords
from pipeline.vlms import tiny_llava
from pipeline.vlms.training.tiny_llava import fit
from pipeline.vqa.shapes_vqa import read


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_it_answers_questions_about_scenes_that_it_never_saw(tmp_path: Path, seed: int) -> None:
    recipe = TinyLlavaSettings(name="tiny_llava", seed=seed).model_dump()
    start = time.process_time()
    fit(tmp_path, **keywords(fit, recipe), threads=1)
    seconds = time.process_time() - start
    model = tiny_llava.load(weights={"source": "folder", "path": tmp_path})
    samples = read(n_samples=1000, seed=seed + 1)
    right = [model.answer(model.prepare(s.image(), s.question)).text == s.answer for s in samples]
    print(f"seed {seed}: accuracy {np.mean(right):.3f} of {len(right)} questions, {seconds:.0f} CPU s")
    assert np.mean(right) >= 0.95
    assert seconds <= 300
