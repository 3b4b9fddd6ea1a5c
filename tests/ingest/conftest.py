"""The builders of `formats.py`, importable as `ingest_formats`, and a place to ingest from."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("ingest_formats", Path(__file__).with_name("formats.py"))
FORMATS = importlib.util.module_from_spec(SPEC)
sys.modules["ingest_formats"] = FORMATS
SPEC.loader.exec_module(FORMATS)


@pytest.fixture
def ingested(tmp_path: Path) -> Callable:
    """Ingest bytes, each written as a file of its own."""

    def ingest_bytes(*files: bytes, study=FORMATS.STUDY, n_raters: int = 3, hits=None):
        return FORMATS.ingest_files(
            tmp_path, {f"file{i}": data for i, data in enumerate(files)}, study, n_raters, hits
        )

    return ingest_bytes
