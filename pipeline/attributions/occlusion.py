"""occlusion: what the answer loses without one patch or token (Zeiler and Fergus 2014, arXiv 1311.2901)."""

import numpy as np

from pipeline.attributions.attribution import Attribution, Game, attribution, require_game
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"game"})


def attribute(
    vlm: Vlm, prepared: Prepared, answer: Answer, *, game: Game | None = None, seed: int = 0
) -> Attribution:
    """Score a player by f(all) - f(all but this one), in 1 + m + n states of the game.

    Raises AssayError without a game.
    """
    m, n = prepared.n_patches, prepared.n_tokens
    without = ~np.vstack([np.zeros((1, m + n), dtype=bool), np.eye(m + n, dtype=bool)])
    values = require_game("occlusion", game)(without[:, :m], without[:, m:])
    drops = values[0] - values[1:]
    return attribution("occlusion", prepared, drops[:m], drops[m:])
