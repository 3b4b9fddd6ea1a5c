import inspect

import pytest

from pipeline.errors import AssayError
from pipeline.pairs.registry import NAMES, pair_source


@pytest.mark.parametrize("name", NAMES)
def test_every_source_takes_a_folder_and_the_datasets_attributes(name):
    parameters = inspect.signature(pair_source(name).pairs).parameters
    assert list(parameters)[:2] == ["folder", "attributes"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in list(parameters.values())[1:])


def test_an_unknown_source_is_answered_with_the_names_there_are():
    with pytest.raises(AssayError, match=r"'photos'.*shapes, syncub, syncoco, edited"):
        pair_source("photos")
