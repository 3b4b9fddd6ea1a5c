"""What the attributes say about a text."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.crowd.arrays import FloatArray
from pipeline.errors import AssayError

AND = re.compile(r",\s+and\s+|,\s+|\s+and\s+")
OR = re.compile(r"\s+or\s+")


def concept_truth(
    description: str, names: Sequence[str], attributes: NDArray[np.generic]
) -> FloatArray | None:
    """Return 1.0 where the text holds and 0.0 where not, (N,); None where attributes cannot say.

    names are the A attributes' names, attributes (N, A) is 0/1. Tried in this order, all without
    regard to case and to spaces at the ends: the text is an attribute's name; a conjunction of
    names ("a, b and c"); a disjunction of names ("a or b"). Of equal names the first counts.
    Mixtures ("a and b or c") give None. Raises AssayError where names and attributes do not match.
    """
    if attributes.ndim != 2 or attributes.shape[1] != len(names):
        raise AssayError(f"attributes has shape {attributes.shape}; expected (N, {len(names)}) for the names")
    columns = {_folded(name): i for i, name in reversed(list(enumerate(names)))}
    text = _folded(description)
    if text in columns:
        return attributes[:, columns[text]].astype(np.float64)
    for separator, combine in ((AND, np.min), (OR, np.max)):
        parts = [_folded(part) for part in separator.split(text)]
        if all(part in columns for part in parts):
            chosen = attributes[:, [columns[part] for part in parts]]
            return np.asarray(combine(chosen, axis=1), dtype=np.float64)
    return None


def _folded(text: str) -> str:
    return text.casefold().strip()
