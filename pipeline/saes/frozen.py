"""frozen: an untrained encoder with TopK: the baseline that MATCHScore is measured against."""

import torch

from pipeline.saes.activation import Activation
from pipeline.saes.sae import Sae
from pipeline.saes.weights import first_weights


def build(d: int, *, dictionary_size: int, k: int = 32, seed: int = 0) -> Sae:
    """Return the SAE of `dictionary_size` latents that a trained one of this seed starts from.

    Its biases are 0; equal arguments give equal weights wherever it is built.
    """
    encoder, decoder = first_weights(seed, d, dictionary_size)
    return Sae(
        "frozen",
        Activation("topk", k=k),
        decoder,
        torch.zeros(d),
        encoder,
        torch.zeros(dictionary_size),
        settings={"dictionary_size": dictionary_size, "k": k, "seed": seed},
    )
