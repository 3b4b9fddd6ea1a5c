"""What planning remembers between runs: checksums by path, size and mtime, and parsed code."""

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pipeline.files import sha256

YOUNG = 2.0
"""Seconds: a file changed more recently than this may change again within one mtime tick."""

SCHEMA = """
create table if not exists checksums (path text primary key, size integer, mtime integer, sha256 text);
create table if not exists texts (name text primary key, value text);
"""


class Memory:
    """A small SQLite file that may be deleted at any time; it only saves work."""

    def __init__(self, path: Path) -> None:
        self._database = _opened(path)
        self._texts: dict[str, str] = dict(self._database.execute("select name, value from texts"))
        self.hashed_bytes = 0

    def checksums(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return the SHA-256 of each file; hashes only those whose size or mtime is new."""
        known = self._known([*paths])
        now = time.time()
        fresh: list[tuple[str, int, int, str]] = []
        result: dict[Path, str] = {}
        for path, (size, mtime, remembered) in known.items():
            if remembered is None:
                remembered = sha256(path)
                self.hashed_bytes += size
                if now - mtime / 1e9 > YOUNG:
                    fresh.append((str(path), size, mtime, remembered))
            result[path] = remembered
        self._database.execute("begin")
        self._database.executemany("replace into checksums values (?, ?, ?, ?)", fresh)
        self._database.execute("commit")
        return result

    def _known(self, paths: list[Path]) -> dict[Path, tuple[int, int, str | None]]:
        rows: dict[Path, tuple[int, int, str | None]] = {}
        for path in paths:
            stat = path.stat()
            row = self._database.execute(
                "select sha256 from checksums where path = ? and size = ? and mtime = ?",
                (str(path), stat.st_size, stat.st_mtime_ns),
            ).fetchone()
            rows[path] = (stat.st_size, stat.st_mtime_ns, row[0] if row else None)
        return rows

    def text(self, name: str, make: Callable[[], str]) -> str:
        """Return the text kept under `name`, made and kept if it is new."""
        if name not in self._texts:
            self._texts[name] = make()
            self._database.execute("replace into texts values (?, ?)", (name, self._texts[name]))
        return self._texts[name]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file; a broken one is made anew, and where none can be written memory serves for this run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(str(path))
    except (sqlite3.OperationalError, OSError):
        return _connect(":memory:")
    except sqlite3.DatabaseError:
        path.unlink()
        return _connect(str(path))


def _connect(name: str) -> sqlite3.Connection:
    database = sqlite3.connect(name, timeout=30, isolation_level=None)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=off")
    database.executescript(SCHEMA)
    return database
