"""Which GPU a process computes on: one process a device, whoever started them.

A process holds a lock on its device, which the system drops when it ends, and sees no other one.
Knows no torch: CUDA reads what it may see when it starts.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL = 0.5
"""Seconds between looks for a device that has become free."""


def visible_devices() -> list[str]:
    """Return the UUIDs of the GPUs that this process may use, none where nvidia-smi tells none.

    Numbers alone would not do: a scheduler may call each job's GPU the first.
    """
    here = _listed()
    if VISIBLE not in os.environ or not here:
        return here
    names = [name.strip() for name in os.environ[VISIBLE].split(",") if name.strip()]
    names = list(takewhile(lambda name: name != "-1", names))  # CUDA sees none of those behind it
    return [here[int(name)] if name.isdigit() and int(name) < len(here) else name for name in names]


def _listed() -> list[str]:
    """Return the UUIDs that nvidia-smi lists; a GPU that is cut into parts (MIG) is its parts."""
    if shutil.which("nvidia-smi") is None:
        return []
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    devices: list[list[str]] = []
    for part, uuid in re.findall(r"^(\s*MIG)?.*\(UUID: ([\w/-]+)\)", done.stdout, re.MULTILINE):
        if part:
            devices[-1].append(uuid)
        else:
            devices.append([uuid])
    return [name for gpu, *parts in devices for name in (parts or [gpu])]


@contextmanager
def own_device(device: str) -> Iterator[None]:
    """Have a GPU of one's own within the block, where `device` (auto, cuda, cuda:1, cpu, mps) may take one.

    Waits while all are taken. Call it before CUDA starts: of several GPUs it sees the one it holds.
    """
    kind, _, index = device.partition(":")
    devices = [] if kind in ("cpu", "mps") else visible_devices()
    if index:
        devices = devices[int(index) :][:1]
    if not devices:
        yield
        return
    name, lock = _take(devices)
    before = os.environ.get(VISIBLE)
    if not index:
        os.environ[VISIBLE] = name
    with lock:
        try:
            yield
        finally:
            os.environ.pop(VISIBLE, None)
            if before is not None:
                os.environ[VISIBLE] = before


def _take(devices: Sequence[str]) -> tuple[str, IO[str]]:
    """Return the first device that nobody holds, and its lock."""
    while True:
        for name in devices:
            lock = _lock_of(name).open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
            else:
                return name, lock
        time.sleep(POLL)


def _lock_of(name: str) -> Path:
    """Return a device's lock: on this machine's own disk, for all projects of this user."""
    folder = Path(tempfile.gettempdir()) / f"assay-devices-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / name.replace("/", "-")
