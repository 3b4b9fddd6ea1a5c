"""The published grid of the VLM track on small random models and small copies of the published questions."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import copy_project
from PIL import Image
from workflow_project import TinyProject

from pipeline.models.weights import seeded
from tests.vlms.conftest import SAVERS

FOLDERS = {
    "llava": "llava-1.5-7b-hf",
    "qwen2_5_vl": "Qwen2.5-VL-3B-Instruct",
    "internvl": "InternVL3_5-2B-HF",
}
"""Where conf/vlm looks for each model below VLM_ROOT."""
SIZES = ((60, 90), (120, 60), (84, 84), (140, 57))
"""Widths and heights: no two of them give Qwen2.5-VL the same grid."""
SMALL = (
    "questions.n_samples=2",
    "vlm.max_new_tokens=2",
    "synergy.steps=3",
    "synergy.n_tie_breaks=2",
    "sii.n_samples=1",
    "sii.patch_groups=2",
    "sii.token_groups=2",
    "numerics.threads=1",
    "stats.n_bootstrap=50",
    "device=cpu",
    "tracking=none",
)


def save_models(root: Path) -> Path:
    """Write the three models where VLM_ROOT=root has them."""
    with seeded(3):
        for name, folder in FOLDERS.items():
            SAVERS[name](root / folder)
    return root


def encoded(seed: int, size: tuple[int, int], kind: str = "PNG") -> bytes:
    """Return an image of noise, width and height as given."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def save_questions(root: Path, sizes: Sequence[tuple[int, int]] = SIZES) -> Path:
    """Write CV-Bench, MMStar and RePOPE where QUESTIONS_ROOT=root has them, a question an image size."""
    images = [encoded(seed, size) for seed, size in enumerate(sizes)]
    _save_cv_bench(root / "cv_bench", images)
    _save_mmstar(root / "mmstar", images)
    _save_repope(root / "repope", sizes)
    return root


def _save_cv_bench(folder: Path, images: Sequence[bytes]) -> None:
    n = len(images)
    columns = {
        "idx": list(range(n)),
        "type": ["2D"] * n,
        "task": ["Count", "Relation"] * (n // 2) + ["Count"] * (n % 2),
        "image": [{"bytes": each, "path": None} for each in images],
        "question": ["Is it there?"] * n,
        "choices": [["yes", "no"]] * n,
        "answer": ["(A)"] * n,
        "prompt": ["Is it there?\n(A) yes\n(B) no"] * n,
    }
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "test_2d.parquet")


def _save_mmstar(folder: Path, images: Sequence[bytes]) -> None:
    rows = [
        {
            "index": i,
            "question": "What is it?\n(A) yes (B) no",
            "image": image,
            "answer": "B",
            "category": "math",
            "l2_category": "geometry",
            "meta_info": {"source": "SEED", "split": "val", "image_path": "a.jpg"},
        }
        for i, image in enumerate(images)
    ]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "mmstar.parquet")


def _save_repope(folder: Path, sizes: Sequence[tuple[int, int]]) -> None:
    (folder / "val2014").mkdir(parents=True)
    lines = []
    for i, size in enumerate(sizes):
        name = f"COCO_val2014_{i:012d}.jpg"
        (folder / "val2014" / name).write_bytes(encoded(i, size, "JPEG"))
        text = "Is there a circle?"
        lines.append(json.dumps({"question_id": i, "image": name, "text": text, "label": "yes"}))
    (folder / "coco_repope_popular.json").write_text("\n".join(lines) + "\n")
