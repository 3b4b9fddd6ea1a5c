"""What stands behind a path: the checksum of the files that a stage reads there."""

import hashlib
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.plan.memory import Memory


def matching(root: Path, patterns: Sequence[str]) -> list[Path]:
    """List the files under `root` that match a pattern, sorted, hidden ones left out.

    `**/*.png` is a suffix at any depth, in any case; `../name` is a file beside `root`; any other pattern is
    a name in `root` itself.
    """
    beside = [root.parent / p.removeprefix("../") for p in patterns if p.startswith("../")]
    top = {p for p in patterns if not p.startswith("**/")}
    deep = [p.removeprefix("**/") for p in patterns if p.startswith("**/")]
    suffixes = tuple(pattern.removeprefix("*") for pattern in deep)
    found = [path for path in beside if path.is_file()]
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        here = Path(folder)
        at_top = here == root
        found += [
            here / name
            for name in files
            if not name.startswith(".") and (name.lower().endswith(suffixes) or (at_top and _any(name, top)))
        ]
    return sorted(found)


def _any(name: str, patterns: set[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def folder_checksum(memory: Memory, root: Path, patterns: Sequence[str], key: str) -> str:
    """Return one checksum for the names and bytes of all matching files under `root`.

    Raises AssayError, naming `key`, where `root` is no folder.
    """
    if root.is_file():
        raise AssayError(f"{key}: {root} is a file; set {key} to a folder")
    if not root.is_dir():
        raise AssayError(f"{key}: no folder or file {root} (relative paths start at the project folder)")
    checksums = memory.checksums(matching(root, patterns))
    lines = [f"{Path(os.path.relpath(path, root)).as_posix()} {sha}" for path, sha in checksums.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def file_checksum(memory: Memory, path: Path, key: str) -> str:
    """Return the SHA-256 of one file; raises AssayError, naming `key`, where it is missing or a folder."""
    if path.is_dir():
        raise AssayError(f"{key}: {path} is a folder; set {key} to a file")
    if not path.is_file():
        raise AssayError(f"{key}: no file {path} (relative paths start at the project folder)")
    return memory.checksums([path])[path]


def packaged_file(package: str, file: str, key: str) -> Path:
    """Return the path of a file inside an installed distribution; AssayError names the fix."""
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise AssayError(f"{key}: the package {package!r} is not installed (pip install {package})") from None
    path = Path(str(distribution.locate_file(file)))
    if not path.is_file():
        raise AssayError(f"{key}: the package {package!r} has no file {file!r}")
    return path
