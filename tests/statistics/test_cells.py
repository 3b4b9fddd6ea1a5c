"""Which factors say what is judged, which say how, and which only repeat."""

import pytest

from pipeline.statistics.cells import identity_factors, is_seed, kept_apart


@pytest.mark.parametrize("name", ["unit.seed", "dataset.split_seed", "sampler.seed", "crowd.seed"])
def test_a_seed_makes_replicates(name: str) -> None:
    assert is_seed(name)
    assert identity_factors(["model", name]) == ["model"]
    assert kept_apart(["scoring", name]) == ["scoring"]


@pytest.mark.parametrize("name", ["model.weights.seed", "sampler.n_inputs", "explainer.seeds", "seed.name"])
def test_a_seed_of_the_model_or_another_word_does_not(name: str) -> None:
    assert not is_seed(name)


def test_neurons_and_latents_are_never_pooled() -> None:
    factors = ["dataset", "unit_kind", "sae", "sae.seed", "layer"]
    assert kept_apart(factors) == ["unit_kind", "sae"]
    assert identity_factors(factors) == ["dataset", "unit_kind", "sae", "layer"]
