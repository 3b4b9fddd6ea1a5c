"""What planning remembers between runs: checksums by path, size and mtime, and parsed code."""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.files import sha256

YOUNG = 2.0
"""Seconds: a file changed more recently than this may change again within one mtime tick."""

SCHEMA = """
drop table if exists checksums;
drop table if exists texts;
create table if not exists sealed_checksums
    (path text primary key, size integer, mtime integer, sha256 text, seal text);
create table if not exists sealed_texts (name text primary key, value text, seal text);
"""
OUTER = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}
"""Errors that say nothing against the file itself."""


class Memory:
    """A small SQLite file that may be deleted at any time; it only saves work.

    Every row is sealed by a checksum of its own, since SQLite has none: a damaged row is not believed, and a
    damaged file is made anew. Where nothing can be written, this run remembers for itself.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = _opened(path)
        self._texts: dict[str, str] = {}
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
        if fresh:
            self._try(lambda database: _keep(database, fresh))
        return result

    def _known(self, paths: list[Path]) -> dict[Path, tuple[int, int, str | None]]:
        rows: dict[Path, tuple[int, int, str | None]] = {}
        for path in paths:
            stat = path.stat()
            named = (str(path), stat.st_size, stat.st_mtime_ns)
            found = self._ask(
                "select sha256, seal from sealed_checksums where path = ? and size = ? and mtime = ?", named
            )
            sound = [checksum for checksum, seal in found if seal == _seal(*named, checksum)]
            rows[path] = (stat.st_size, stat.st_mtime_ns, sound[0] if sound else None)
        return rows

    def text(self, name: str, make: Callable[[], str]) -> str:
        """Return the text kept under `name`, made and kept if it is new."""
        if name not in self._texts:
            found = self._ask("select value, seal from sealed_texts where name = ?", (name,))
            sound = [value for value, seal in found if seal == _seal(name, value)]
            self._texts[name] = text = sound[0] if sound else make()
            if not sound:
                self._ask("replace into sealed_texts values (?, ?, ?)", (name, text, _seal(name, text)))
        return self._texts[name]

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows that a statement yields; none where the file does not serve."""
        return self._try(lambda database: database.execute(statement, values).fetchall())

    def _try(self, use: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
        try:
            return use(self._database)
        except sqlite3.Error as error:
            self._database.close()
            if _is_damage(error):
                _delete(self._path)
            self._database = _connect(":memory:")
            return []

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _seal(*row: Any) -> str:
    return hashlib.blake2b(repr(row).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _keep(database: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Write checksums in one transaction."""
    database.execute("begin")
    sealed = [(*row, _seal(*row)) for row in rows]
    database.executemany("replace into sealed_checksums values (?, ?, ?, ?, ?)", sealed)
    return database.execute("commit").fetchall()


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF not in OUTER


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file; a broken one is made anew, and where none can be written memory serves for this run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(str(path))
    except OSError:
        return _connect(":memory:")
    except sqlite3.Error as error:
        if not _is_damage(error):
            return _connect(":memory:")
    try:
        _delete(path)
        return _connect(str(path))
    except (sqlite3.Error, OSError):
        return _connect(":memory:")


def _delete(path: Path) -> None:
    """Delete the file with its log, which SQLite would else apply to the next one."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _connect(name: str) -> sqlite3.Connection:
    database = sqlite3.connect(name, timeout=30, isolation_level=None)
    try:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=off")
        database.executescript(SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database
