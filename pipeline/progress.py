"""How far a long stage is: a bar in its log, and a small file that the run looks at."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pipeline.files import read_json, write_json

T = TypeVar("T")
INTERVAL = 1.0
"""Seconds between looks at the clock that are written down."""
_place: ContextVar[Path | None] = ContextVar("place", default=None)


@dataclass(frozen=True)
class Progress:
    """`done` of `total` things, `seconds` after the first of them began; `at_start` were done before."""

    what: str
    done: int
    total: int
    at_start: int
    seconds: float

    @property
    def left(self) -> float | None:
        """Seconds that the rest takes at the speed so far, None before anything is done."""
        done = self.done - self.at_start
        return self.seconds / done * (self.total - self.done) if done else None

    def words(self) -> str:
        """Return the state as a person reads it."""
        left = "" if self.left is None else f", about {duration(self.left)} left"
        return f"{self.done} of {self.total} {self.what}{left}"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def reported_to(path: Path) -> Iterator[None]:
    """Let `tracked` write how far it is to `path` within the block."""
    token = _place.set(path)
    try:
        yield
    finally:
        _place.reset(token)
        path.unlink(missing_ok=True)


def tracked(items: Sequence[T], what: str, at_start: int = 0) -> Iterator[T]:
    """Yield the items and tell how many are done; `at_start` more were done before."""
    from tqdm import tqdm

    place, started, last = _place.get(), time.monotonic(), -INTERVAL
    total = at_start + len(items)
    with tqdm(total=total, initial=at_start, unit="", desc=what, mininterval=INTERVAL) as bar:
        for i, item in enumerate(items):
            now = time.monotonic() - started
            if place is not None and now - last >= INTERVAL:
                write_json(place, asdict(Progress(what, at_start + i, total, at_start, now)))
                last = now
            yield item
            bar.update()


def read_progress(path: Path) -> Progress:
    """Read what `tracked` wrote."""
    return Progress(**read_json(path))
