"""Image files under a folder, in an order that no file system decides."""

import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
LOOKED_FOR = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


@dataclass(frozen=True)
class Listing:
    """Paths relative to a folder, with "/", sorted without regard to case first.

    linked: linked folders, which are not followed.
    """

    files: tuple[str, ...]
    linked: tuple[str, ...]


def existing_root(root: Path) -> Path:
    """Return `root` as an absolute path; AssayError if it is no folder."""
    absolute = Path(root).absolute()
    if not absolute.exists():
        raise AssayError(f"dataset.root={root}: there is no folder {absolute}")
    if not absolute.is_dir():
        raise AssayError(f"dataset.root={root}: {absolute} is a file, not a folder")
    return absolute


def listed(folder: Path, suffixes: tuple[str, ...] = SUFFIXES) -> Listing:
    """List the files below `folder` that end in one of `suffixes` in any case; hidden ones are not seen."""
    files: list[str] = []
    linked: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        here = Path(place).relative_to(folder)
        linked += [(here / name).as_posix() for name in folders if (Path(place) / name).is_symlink()]
        seen = [name for name in names if not name.startswith(".") and name.lower().endswith(suffixes)]
        files += [(here / name).as_posix() for name in seen]
    return Listing(tuple(sorted(files, key=_order)), tuple(sorted(linked, key=_order)))


def link_note(listing: Listing) -> tuple[str, ...]:
    """Return a note on linked folders that were not followed, if there are any."""
    if not listing.linked:
        return ()
    return (f"linked folders not followed: {len(listing.linked)}; the first: {listing.linked[0]}",)


def _order(path: str) -> tuple[str, str]:
    return path.casefold(), path
