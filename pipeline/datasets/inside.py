"""Paths that the text of a data set gives: they lead below its folder, or nowhere."""

from pathlib import PurePosixPath

from pipeline.errors import AssayError


def inside(name: str, place: str) -> str:
    """Return `name`; AssayError, naming the place that gives it, where it is absolute or climbs by "..".

    Links on the disk count as below: who owns the folder has set them.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise AssayError(f"{place}: {name!r} leads out of the data set's folder; name a file below it")
    return name
