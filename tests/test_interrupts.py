"""SIGTERM stops what works for us, also where a script runs us in its background and all ignore SIGINT."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

WAITS = """
import subprocess, sys
from pipeline.interrupts import StoppedError, wait_for
jobs = "import time; print('at work', flush=True); time.sleep(60)"
with subprocess.Popen([sys.executable, "-c", jobs]) as process:
    try:
        wait_for(process, process.wait)
    except StoppedError:
        sys.exit(130)
"""


def ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def hear() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("before", [hear, ignore])
def test_sigterm_stops_the_jobs_at_work(before: Callable[[], None]) -> None:
    command = [sys.executable, "-c", WAITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=before) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
