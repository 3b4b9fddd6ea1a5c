"""questions: which questions about which images are asked."""

from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.stages.asking import list_samples
from pipeline.stages.tables import write_table
from pipeline.vqa.sample import VqaSample


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write samples.parquet: a row a sample that is asked, in the dataset's order."""
    samples = list_samples(config["questions"])
    write_table(pd.DataFrame([_row(sample) for sample in samples]), output / "samples.parquet")
    return []


def _row(sample: VqaSample) -> dict[str, Any]:
    return {
        "sample_id": sample.sample_id,
        "category": sample.category,
        "question": sample.question,
        "expected": sample.answer,
        "has_mask": sample.mask is not None,
    }
