"""The words a computed explanation may use."""

import re
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.explainers.text_file import read_text

LINE_END = re.compile(r"\r\n|\r|\n")


def read_vocabulary(path: Path, *, key: str = "explainer.vocabulary") -> list[str]:
    """Return one concept a line, stripped, in file order; blank lines are dropped.

    Line ends may be LF, CRLF or CR. `nan`, `null`, `none` and `true` are words. A word on two lines is
    returned twice, as in CLIP-Dissect's own lists: `clip_dissect.explain` counts it once and says so.
    Raises AssayError for a missing file, one that is not UTF-8, and one without a word.
    """
    words = [word for line in LINE_END.split(read_text(path, key)) if (word := line.strip())]
    if not words:
        raise AssayError(f"{path} has no word; write one concept a line, or set {key} to another file")
    return words
