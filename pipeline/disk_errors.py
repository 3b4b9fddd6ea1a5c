"""Errors of a disk that a person can mend: it is full, or may not be written."""

import errno
import re
import shutil
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT}
CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
SAYS_FULL = re.compile(r"No space left on device|Disk quota exceeded|\d+ requested and \d+ written")
"""safetensors and numpy give no number of the error."""
SAYS_CLOSED = re.compile(r"Read-only file system")
LITTLE = 64 * 1024**2
"""Bytes: a disk with less room has perhaps killed a process that wrote to a mapped file."""
GO_ON = "then the same command goes on from here"


def disk_trouble(error: BaseException, place: Path) -> str | None:
    """Say what to do about an error of the disk, None where it is another error.

    place: what was written to, where the error itself names no file, or one in there.
    """
    seen: BaseException | None = error
    while seen is not None:
        number, where = getattr(seen, "errno", None), getattr(seen, "filename", None) or place
        where = place if place in Path(str(where)).parents else where
        why = getattr(seen, "strerror", None) or seen
        if number in FULL or SAYS_FULL.search(str(seen)):
            return f"the disk of {where} is full ({why}): free some space there, {GO_ON}"
        if (number in CLOSED and isinstance(seen, OSError)) or SAYS_CLOSED.search(str(seen)):
            return f"{where} cannot be written ({why}): give yourself the right to write there, {GO_ON}"
        seen = seen.__cause__ or seen.__context__
    return None


def little_room(place: Path) -> str | None:
    """Say how little room a disk has, None where it has enough."""
    free = shutil.disk_usage(place).free
    if free > LITTLE:
        return None
    return f"the disk of {place} has {free / 1e6:.1f} MB left: free some space there, {GO_ON}"
