"""Which images of a unit are shown: its most active ones, and random others to compare with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns, column_blocks
from pipeline.seeds import generator


@dataclass(frozen=True)
class Shown:
    """The images (rows of the activations) shown of one unit, in the order in which they are drawn."""

    unit: int
    top: tuple[int, ...]
    random: tuple[int, ...]


def shown_images(
    activations: Columns, units: Sequence[int], *, n_top: int, n_random: int, seed: int, place: str
) -> list[Shown]:
    """Choose the images of each unit of activations (N, U).

    `top` are the `n_top` most active images by falling activation, of equal ones the lower row first. An
    image at the unit's lowest activation is never among them, so a latent that fires on three images
    shows three. `random` are `n_random` of all other images (or all, where there are fewer), drawn
    without replacement; they depend on seed, `place` (model and layer), the unit and N alone.
    """
    shown = []
    for block in column_blocks(activations.shape[0], len(units)):
        chosen = list(units[block])
        columns = np.asarray(activations[:, chosen])
        for unit, values in zip(chosen, columns.T, strict=True):
            top = most_active(values, n_top)
            others = np.setdiff1d(np.arange(len(values)), top)
            rng = generator(seed, "llm", place, unit)
            random = rng.choice(others, size=min(n_random, len(others)), replace=False)
            shown.append(Shown(int(unit), tuple(top.tolist()), tuple(random.tolist())))
    return shown


def most_active(values: NDArray[np.generic], n: int) -> NDArray[np.intp]:
    """Return the rows of the n largest of values (N,) that are above the lowest, largest first."""
    above = np.flatnonzero(values > values.min())
    order = np.argsort(-values[above].astype(np.float64), kind="stable")
    return above[order[:n]]
