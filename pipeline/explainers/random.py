"""A random concept for each unit: the control that every method must beat."""

from collections.abc import Sequence

import pandas as pd

from pipeline.errors import AssayError
from pipeline.explainers.explanations import Explanations, assemble, require_selection
from pipeline.seeds import generator


def explain(names: Sequence[str], units: Sequence[int], *, seed: int, place: str = "") -> Explanations:
    """Give each unit one of `names`, all equally likely.

    A unit's text depends on the seed, `place` (its model and layer), the unit and the ordered names
    alone: selecting more units moves
    none. Raises AssayError where there is no name.
    """
    units = require_selection(units)
    if not names:
        raise AssayError("explainer=random has no concept to choose from; lower dataset.labels.min_count")
    chosen = [int(generator(seed, "random", place, unit).integers(len(names))) for unit in units]
    described = pd.DataFrame({"unit": units, "description": [names[place] for place in chosen]})
    return assemble("random", units, described, {})
