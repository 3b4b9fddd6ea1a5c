"""Samples with the scores of several explainers, for the stages that play games with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.stages.asking import Answered, read_answered
from pipeline.stages.tables import read_table

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Explained:
    """A sample with an answer, and by job the scores of its patches (m,) and tokens (n,); None: it failed."""

    answered: Answered
    scores: tuple[tuple[Floats, Floats] | None, ...]


def read_explained(
    config: Mapping[str, Any], answers: Path, attributions: Sequence[Path]
) -> dict[str, Explained]:
    """Return the samples that have an answer by id, with the scores in each result of `attributions`."""
    tables = [read_table(folder / "attributions.parquet").set_index("sample_id") for folder in attributions]
    scores = [dict(zip(t.index, map(_scores, t["patches"], t["tokens"]), strict=True)) for t in tables]
    return {
        name: Explained(answered, tuple(each[name] for each in scores))
        for name, answered in read_answered(config, answers).items()
    }


def _scores(patches: Any, tokens: Any) -> tuple[Floats, Floats] | None:
    if patches is None:
        return None
    return np.asarray(patches, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
