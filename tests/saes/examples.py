"""Activations with a sparse dictionary behind them, and settings that train in a moment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


def sparse_rows(n: int, d: int = 24, n_features: int = 40, seed: int = 0) -> Rows:
    """Return (n, d): sums of 3 of `n_features` fixed directions, an offset, and a little noise."""
    directions = np.random.default_rng(99).standard_normal((n_features, d))
    random = np.random.default_rng(seed)
    strengths = np.zeros((n, n_features))
    for row in strengths:
        row[random.choice(n_features, 3, replace=False)] = random.uniform(1, 3, 3)
    offset = np.linspace(-1, 1, d)
    return (strengths @ directions + offset + 0.05 * random.standard_normal((n, d))).astype(np.float32)


def settings(name: str, **changes: Any) -> dict[str, Any]:
    """Return settings of a variant that train within a second, with some changed."""
    untrained = {"name": name, "dictionary_size": 48, "k": 6, "seed": 0}
    if name in ("frozen", "random"):
        return {**untrained, **changes}
    schedule = {"learning_rate": 5e-3, "epochs": 6, "batch_size": 128, "patience": None, "dead_after": 20}
    own = {"k": 6, "l1": 0.0, "aux_k": 16, "aux_coefficient": 1 / 32}
    if name == "jumprelu":
        own = {
            "l0_coefficient": 0.003,
            "bandwidth": 0.5,
            "initial_threshold": 0.5,
            "threshold_learning_rate": 0.02,
        }
    return {"name": name, "dictionary_size": 48, "seed": 0, **schedule, **own, **changes}
