"""random: a permutation of the patches and one of the query tokens; the floor that others must beat."""

from hashlib import blake2b

import numpy as np

from pipeline.attributions.attribution import Attribution, Game, attribution
from pipeline.seeds import generator
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS: frozenset[str] = frozenset()


def attribute(
    vlm: Vlm, prepared: Prepared, answer: Answer, *, game: Game | None = None, seed: int = 0
) -> Attribution:
    """Score m patches and n tokens by two permutations of 1/m, ..., 1 and 1/n, ..., 1.

    They depend on the seed, the image and the prompt alone, so that samples of one size differ.
    """
    digest = blake2b(prepared.input_ids.tobytes() + prepared.canvas.tobytes(), digest_size=16).hexdigest()
    rng = generator(seed, "attribution", "random", digest)
    scores = (
        rng.permutation(np.arange(1, size + 1)) / size for size in (prepared.n_patches, prepared.n_tokens)
    )
    return attribution("random", prepared, *scores)
