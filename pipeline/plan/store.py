"""Results on disk: `results/<stage>/<key>/`, complete once meta.json is there."""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipeline.files import sha256
from pipeline.plan.project import Project

SMALL = 64 * 1024
"""Bytes: outputs up to this size are checked by content at every plan, larger ones by size."""

PIECE = 1 << 16
"""Bytes read at once of small files."""
QUARANTINE = "quarantine"
KEEP_PARTIALS = 30 * 24 * 3600
"""Seconds: what an unfinished job has done goes when nobody has gone on from it for so long."""
KEEP_ELSEWHERE = 30 * 24 * 3600
"""Seconds: what a job of another machine was writing goes when it has made nothing there for so long."""
META = {
    "stage",
    "key",
    "slice",
    "upstream",
    "inputs",
    "code",
    "libraries",
    "files",
    "outputs",
    "notes",
    "started",
}


class Store:
    """Reads, checks, moves and removes results; `meta` reads each once, `examine` keeps nothing."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._metas: dict[tuple[str, str], dict[str, Any] | None] = {}

    def meta(self, stage: str, key: str) -> dict[str, Any] | None:
        """Return a result's meta.json, None where the result is not there or cannot be read."""
        if (stage, key) not in self._metas:
            path = self._project.result(stage, key) / "meta.json"
            self._metas[stage, key] = _read_meta(str(path))
        return self._metas[stage, key]

    def exists(self, stage: str, key: str) -> bool:
        """Say whether the folder of a result is there, complete or not."""
        return self._project.result(stage, key).is_dir()

    def present(self, stage: str) -> frozenset[str]:
        """Return the keys of a stage's result folders, complete or not, by one listing."""
        try:
            with os.scandir(self._project.results / stage) as entries:
                return frozenset(entry.name for entry in entries if _is_result(entry))
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()

    def examine(self, stage: str, key: str) -> tuple[dict[str, Any] | None, str | None]:
        """Return the meta of a result that is there and what is wrong with it; a plan sees very many."""
        folder = f"{self._project.results}/{stage}/{key}"
        meta = _read_meta(f"{folder}/meta.json")
        return meta, _damage(folder, meta)

    def has_meta(self, stage: str, key: str) -> bool:
        """Say whether a result's meta.json is there, readable or not."""
        return (self._project.result(stage, key) / "meta.json").is_file()

    def damage(self, stage: str, key: str, *, thorough: bool = False) -> str | None:
        """Say what is wrong with a result that is there, None where nothing is.

        Sizes are always compared, contents for small files, and for all files where `thorough`.
        """
        return _damage(str(self._project.result(stage, key)), self.meta(stage, key), thorough=thorough)

    def survey(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Prepare to judge some results: where they are far away, learn of them together."""

    def fetch(self, stage: str, key: str) -> str | None:
        """Have a result's files in results/, hashed; return what is wrong, None where nothing is."""
        return self.damage(stage, key, thorough=True)

    def folder(self, stage: str, key: str) -> Path:
        """Return the folder of a result, with its files where there are any."""
        return self._project.result(stage, key)

    def where(self, stage: str, key: str) -> str:
        """Return the address of a result for people."""
        return str(self._project.result(stage, key))

    @property
    def home(self) -> str:
        """Where the results are, for people."""
        return str(self._project.results)

    def share(self, jobs: Iterable[tuple[str, str]]) -> int:
        """Put results where other machines find them; return how many."""
        return 0

    def shared(self) -> Sequence[tuple[str, str]]:
        """Return the results that other machines find."""
        return ()

    def upload(self, stage: str, key: str) -> None:
        """Put a result that was just made where other machines find it."""

    def require_writable(self) -> None:
        """Raise AssayError where results cannot be put where other machines find them."""

    def quarantine(self, stage: str, key: str) -> str:
        """Move a damaged result aside, so that it is rebuilt and nothing is lost; return where it is."""
        target = (
            self._project.results
            / QUARANTINE
            / f"{stage}-{key}-{time.strftime('%Y%m%dT%H%M%S')}-{uuid4().hex[:4]}"
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        self._project.result(stage, key).rename(target)
        self.forget(stage, key)
        return str(target.relative_to(self._project.root))

    def remove(self, stage: str, key: str) -> None:
        """Delete a result: first out of sight by a rename, then the files."""
        folder = self._project.result(stage, key)
        hidden = folder.with_name(hidden_name(key))
        folder.rename(hidden)
        shutil.rmtree(hidden)
        self.forget(stage, key)

    def forget(self, stage: str, key: str) -> None:
        """Read the meta anew at its next use."""
        self._metas.pop((stage, key), None)

    def keys(self, stage: str) -> list[str]:
        """List the keys of a stage's result folders, sorted."""
        return sorted(self.present(stage))

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield (stage, key) of every result folder."""
        if self._project.results.is_dir():
            for folder in sorted(self._project.results.iterdir()):
                if (
                    folder.is_dir()
                    and not folder.name.startswith(".")
                    and folder.name not in ("sweeps", QUARANTINE)
                ):
                    yield from ((folder.name, key) for key in self.keys(folder.name))

    def sweep_leftovers(self) -> int:
        """Remove what killed jobs left and nobody goes on from; return how many folders there were."""
        leftovers = [p for p in self._project.results.glob("*/.k*") if p.is_dir() and not _at_work(p)]
        leftovers += [p for p in self._project.partials.glob("*/k*") if self._is_spent(p)]
        for path in leftovers:
            shutil.rmtree(path, ignore_errors=True)
        return len(leftovers)

    def _is_spent(self, partial: Path) -> bool:
        """Say whether a partial result's whole is there, or nobody has gone on from it for long."""
        whole = self.exists(partial.parent.name, partial.name.split("-")[0])
        return whole or time.time() - partial.stat().st_mtime > KEEP_PARTIALS


def hidden_name(key: str) -> str:
    """Return a name for a folder at work: it says which process of which machine writes there."""
    return f".{key}.{_machine()}.{os.getpid()}.{_born(os.getpid())}.{uuid4().hex[:8]}"


def _machine() -> str:
    return platform.node().replace(".", "-")


def _at_work(folder: Path) -> bool:
    """Say whether the process that writes a hidden folder may be alive.

    On another machine nobody knows: a folder in which nothing was made for long counts as left there.
    """
    steps = folder.name.split(".")
    if len(steps) != 6 or not steps[3].isdigit():
        return False
    if steps[2] == _machine():
        return _born(int(steps[3])) == steps[4]
    return time.time() - folder.stat().st_mtime < KEEP_ELSEWHERE


def _born(pid: int) -> str:
    """Return when a process began, "" where none lives; the time of day, which may jump, is not asked."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        stat = Path(f"/proc/{pid}/stat")  # its 22nd word: ticks since the machine began
        words = stat.read_text().rpartition(")")[2].split() if stat.exists() else []
        return words[19] if words else str(int(process.create_time()))
    except (psutil.Error, OSError):
        return ""


def _is_result(entry: "os.DirEntry[str]") -> bool:
    return entry.name.startswith("k") and entry.is_dir()


def _read_meta(path: str) -> dict[str, Any] | None:
    try:
        return parse_meta(_content(path))
    except OSError:
        return None


def parse_meta(text: bytes) -> dict[str, Any] | None:
    """Return what a meta.json says, None where it has not the form of one."""
    try:
        meta = json.loads(text)
    except ValueError:
        return None
    return meta if _is_meta(meta) else None


def _is_meta(meta: Any) -> bool:
    """Say whether what was read has the form of a meta.json, so that nobody who reads it stumbles."""
    if not isinstance(meta, dict) or not meta.keys() >= META:
        return False
    tables = [meta[name] for name in ("slice", "upstream", "inputs", "code", "libraries", "files", "outputs")]
    if not all(isinstance(table, dict) for table in tables) or not isinstance(meta["notes"], list):
        return False
    versions = [*meta["code"].values(), *meta["libraries"].values(), *meta["files"].values()]
    if not all(isinstance(text, str) for text in [*versions, *meta["notes"]]):
        return False
    return all(
        isinstance(facts, dict)
        and isinstance(facts.get("size"), int)
        and isinstance(facts.get("sha256"), str)
        for facts in meta["outputs"].values()
    ) and all(isinstance(consumed, dict) for consumed in meta["inputs"].values())


def _damage(folder: str, meta: Mapping[str, Any] | None, *, thorough: bool = False) -> str | None:
    if meta is None:
        return "meta.json is missing or cannot be read"
    for name, facts in meta["outputs"].items():
        try:
            damage = _spoilt(f"{folder}/{name}", facts["size"], facts["sha256"], thorough)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            damage = "is missing"
        if damage:
            return f"{name} {damage}"
    return None


def _spoilt(path: str, size: int, checksum: str, thorough: bool) -> str | None:
    """Say how a file differs from what was written; small ones are opened once."""
    if size > SMALL:
        found = Path(path).stat().st_size
        same = found != size or not thorough or sha256(Path(path)) == checksum
    else:
        content = _content(path, size)
        found = size if len(content) == size else Path(path).stat().st_size
        same = found != size or hashlib.sha256(content).hexdigest() == checksum
    if found != size:
        return f"has {found} bytes where {size} were written"
    return None if same else "is not what was written (its SHA-256 differs)"


def _content(path: str, size: float = inf) -> bytes:
    """Return a file's bytes, by few calls of the system: a plan reads 200,000 small files.

    Of a file that has more than `size` they are only some.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        content = b""
        while len(content) <= size and (piece := os.read(file, PIECE)):
            content += piece
        return content
    finally:
        os.close(file)


def folder_size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
