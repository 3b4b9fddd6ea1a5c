"""Sections of a report by `track`.

A module has `claim(inputs) -> list[str]`, two or three sentences that its tables support, and
`sections(inputs) -> list[Section]`, the ranking first. MEASURED: what its scores are, for who does not know.
"""

import importlib
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("crowd", "sae", "vlm")


def sections_of(track: str) -> ModuleType:
    """Return the track's module; raises AssayError for an unknown track."""
    if track not in NAMES:
        raise AssayError(f"track={track!r} has no report; there are {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.report.sections.{track}")
