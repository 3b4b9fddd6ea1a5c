"""Mounts that a fault needs: a small disk, a read-only folder; they need root, and are taken away again."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def why_not() -> str:
    """Say why nothing can be mounted here; empty where it can."""
    if os.geteuid() != 0:
        return "mounts need root"
    return "" if shutil.which("mount") else "there is no mount command"


def mount(*arguments: str | Path) -> None:
    """Call mount; raises CalledProcessError with its words where it fails."""
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True, text=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a disk of its own under a folder, with what is in it."""
    aside = folder.with_name(f"{folder.name}.aside")
    folder.rename(aside)
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2G", "tmpfs", folder)
    try:
        shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(aside)
        yield
    finally:
        _unmount(folder)


def resize(folder: Path, room: int | None) -> None:
    """Leave `room` bytes on a small disk; None: plenty."""
    usage = shutil.disk_usage(folder)
    size = "2G" if room is None else str(usage.used + max(room, 4096))
    mount("-o", f"remount,size={size}", folder)
    free = shutil.disk_usage(folder).free
    if room is not None and free > room:
        filler = folder / ".filler"
        filler.write_bytes(b"\0" * (free - room))


def empty_filler(folder: Path) -> None:
    """Take away what `resize` filled the last bytes with."""
    (folder / ".filler").unlink(missing_ok=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, for root too."""
    mount("--bind", folder, folder)
    try:
        mount("-o", "remount,ro,bind", folder)
        yield
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
