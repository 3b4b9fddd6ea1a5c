import inspect

import pytest

from pipeline.datasets.registry import NAMES, dataset
from pipeline.errors import AssayError
from pipeline.plan.schema import GROUPS


def test_the_registry_has_exactly_the_datasets_of_the_schema():
    variants = GROUPS["dataset"].__origin__.__args__
    assert set(NAMES) == {variant.model_fields["name"].annotation.__args__[0] for variant in variants}


@pytest.mark.parametrize("variant", GROUPS["dataset"].__origin__.__args__)
def test_the_keyword_arguments_of_a_dataset_are_fields_of_its_settings(variant):
    module = dataset(variant.model_fields["name"].annotation.__args__[0])
    fields = set(variant.model_fields)
    nested = set(variant.model_fields["labels"].annotation.model_fields)
    assert keywords(module.images) <= fields
    assert nested <= keywords(module.labels) <= fields | nested


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def test_an_unknown_dataset_is_answered_with_the_names_there_are():
    with pytest.raises(AssayError, match=r"mnist.*shapes, folder, imagenet_val, parquet, cub, coco"):
        dataset("mnist")
