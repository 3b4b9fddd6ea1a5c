"""Ways in which a file or a result is damaged."""

from collections.abc import Callable
from pathlib import Path
from random import Random


def flip(path: Path, rng: Random) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, rng: Random) -> None:
    """Cut a file at a random place."""
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(max(len(data), 1))])


def empty(path: Path, _: Random) -> None:
    """Leave a file without a byte."""
    path.write_bytes(b"")


def remove(path: Path, _: Random) -> None:
    """Remove a file."""
    path.unlink()


def overwrite(path: Path, rng: Random) -> None:
    """Fill a file with noise."""
    path.write_bytes(rng.randbytes(max(path.stat().st_size, 64)))


DAMAGES: dict[str, Callable[[Path, Random], None]] = {
    "flipped bit": flip,
    "truncated": truncate,
    "emptied": empty,
    "removed": remove,
}


def outputs(result: Path) -> list[Path]:
    """Return the files of a result, but for meta.json."""
    return sorted(path for path in result.rglob("*") if path.is_file() and path.name != "meta.json")
