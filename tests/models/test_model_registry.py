import pytest

from pipeline.errors import AssayError
from pipeline.models.registry import NAMES, loader


@pytest.mark.parametrize("name", NAMES)
def test_every_library_has_a_loader(name: str) -> None:
    assert callable(loader(name))


def test_an_unknown_library_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match=r"model.name='keras'.*timm, torchvision"):
        loader("keras")
