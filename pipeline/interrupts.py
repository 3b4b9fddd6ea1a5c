"""Ctrl-C and SIGTERM while a process works for us: the first lets it end tidily, a second kills it."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

STOPPED = 130
"""The exit code of a run that was stopped, as a shell gives it after Ctrl-C."""


class StoppedError(Exception):
    """The user stopped the run; what was made is kept."""


def wait_for(process: "subprocess.Popen[bytes]", watch: Callable[[], None]) -> None:
    """Call `watch`, which returns when the process has ended; raises StoppedError after Ctrl-C or SIGTERM.

    A terminal sends Ctrl-C to the process and its children too, so they are waited for; SIGTERM, which
    comes to us alone, is passed on. Another one while they end kills them.
    """
    with _passed_on(process):
        try:
            watch()
            return
        except KeyboardInterrupt:
            print("\nstopping the jobs at work; Ctrl-C again kills them", file=sys.stderr, flush=True)
        try:
            process.wait()
        except KeyboardInterrupt:
            _signal_all(process, signal.SIGKILL)
            process.wait()
    raise StoppedError


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does on a terminal: tell the whole family."""

    def tell(_number: int, _frame: FrameType | None) -> None:
        _signal_all(process, _heard())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _heard() -> signal.Signals:
    """Return SIGINT, or SIGTERM where a script runs us in its background: there all of us ignore SIGINT."""
    return signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT


def _signal_all(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid)
        for each in [*family.children(recursive=True), family]:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)
