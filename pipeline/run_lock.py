"""One run at a time in a project: the second waits for the first, and for jobs that outlive it."""

import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

import psutil

from pipeline.errors import AssayError
from pipeline.plan.project import Project

PAUSE = 0.5
"""Seconds between looks at the lock."""
LABEL = 200
"""Characters of a label, which a damaged file may not have."""


@contextmanager
def one_run_at_a_time(project: Project, what: str, *, wait: bool = True) -> Iterator[int]:
    """Hold the project's lock within the block, and yield its descriptor for a child that shall hold it too.

    The system lets go of it when all that hold it have died, so none is left behind.

    what: says in the lock's file what runs. Where another run holds it, wait for its end; without `wait`,
    and where results/ cannot be written, AssayError.
    """
    try:
        project.results.mkdir(exist_ok=True)
        stream = (project.results / ".lock").open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise AssayError(
            f"{project.results} cannot be written ({error.strerror}): give yourself the right to write there"
        ) from None
    with stream:
        _take(stream, project, wait)
        with suppress(OSError):  # on a full disk a run that has nothing to do needs no label
            os.ftruncate(stream.fileno(), 0)
            label = f"{what}, process {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
            os.write(stream.fileno(), label.encode())
        yield stream.fileno()


def _take(stream: TextIOWrapper, project: Project, wait: bool) -> None:
    """Take the lock at once, or when its owner has ended."""
    told = False
    while not _is_taken(stream):
        if not told:
            other = f"another run is at work in {project.root} ({_owner(stream)})"
            if not wait:
                raise AssayError(f"{other}: wait for it, or stop it")
            print(f"{other}; waiting for it to end, Ctrl-C to give up", file=sys.stderr, flush=True)
            told = True
        time.sleep(PAUSE)


def _is_taken(stream: TextIOWrapper) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(stream: TextIOWrapper) -> str:
    stream.seek(0)
    label = stream.read()[:LABEL]
    named = re.search(r"process (\d+), since", label)
    if named and not psutil.pid_exists(int(named[1])):
        return f"{label}, which was killed, but its jobs go on"
    return label or "it has just begun"
