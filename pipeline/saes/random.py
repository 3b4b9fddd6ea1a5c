"""random: noise codes at the density K / D: the floor that any measure must leave behind."""

import torch

from pipeline.saes.activation import Activation
from pipeline.saes.sae import Sae
from pipeline.saes.weights import first_weights


def build(d: int, *, dictionary_size: int, k: int = 32, seed: int = 0) -> Sae:
    """Return an SAE whose codes are noise drawn from (seed, the row's content): no row depends on another.

    Its decoder is the frozen SAE's, so that every measure of an SAE is defined for it.
    """
    return Sae(
        "random",
        Activation("noise", k=k, seed=seed),
        first_weights(seed, d, dictionary_size)[1],
        torch.zeros(d),
        settings={"dictionary_size": dictionary_size, "k": k, "seed": seed},
    )
