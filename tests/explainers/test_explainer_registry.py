import pytest

from pipeline.errors import AssayError
from pipeline.explainers.registry import NAMES, explainer


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_module_that_explains(name):
    module = explainer(name)
    assert module.__name__ == f"pipeline.explainers.{name}"
    assert callable(module.explain)


def test_an_unknown_name_lists_the_names_and_the_nearest():
    with pytest.raises(AssayError, match=r"no explainer 'clipdissect'.*Did you mean 'clip_dissect'"):
        explainer("clipdissect")
    with pytest.raises(AssayError, match="no explainer"):
        explainer("explanations")
