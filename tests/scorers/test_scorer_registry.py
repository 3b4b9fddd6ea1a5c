import pytest

from pipeline.errors import AssayError
from pipeline.scorers.registry import NAMES, scorer_module


@pytest.mark.parametrize("name", NAMES)
def test_every_scorer_can_be_opened(name: str) -> None:
    assert callable(scorer_module(name).load)


def test_an_unknown_scorer_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match=r"scorer.name='blip'.*open_clip, dino_text, siglip_tiny"):
        scorer_module("blip")
