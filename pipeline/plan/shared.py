"""Results in a bucket: `<stage>/<key>/meta.json` says that one is whole, and results/ keeps copies of some.

A result's files lie in `<stage>/<key>/<contents>/`, where <contents> is a hash of their names and checksums,
and meta.json is written after them. So a killed upload leaves nothing that looks finished, and of two
machines that make other bytes of one key the last one wins as a whole.
"""

import hashlib
import os
import platform
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from pipeline.errors import AssayError
from pipeline.files import canonical, replacing, sha256
from pipeline.plan.bucket import VARIABLE, Bucket, Listed, in_parallel
from pipeline.plan.project import Project
from pipeline.plan.store import QUARANTINE, Store, hidden_name, parse_meta

JobId = tuple[str, str]
Objects = Mapping[str, Listed]
"""What a listing says of objects, by name."""
CACHE = f".bucket.{platform.node()}.sqlite"
"""One file a machine, as SQLite's locks end there."""


def open_store(project: Project) -> Store:
    """Return the store of a project: its folder results/, and the bucket that ASSAY_RESULTS names, if any."""
    url = os.environ.get(VARIABLE)
    return SharedStore(project, Bucket(url)) if url else Store(project)


class SharedStore(Store):
    """Results of a bucket. One that lies in results/ alone is there too; `share` puts it into the bucket.

    The bucket is the truth: where results/ holds other contents under the same key, its copy is replaced.
    A stage that was listed is judged by its listing; of one that was not, each result is asked for.
    """

    def __init__(self, project: Project, bucket: Bucket) -> None:
        super().__init__(project)
        self._bucket, self._local = bucket, Store(project)
        self._listed: dict[str, dict[str, Objects]] = {}
        self._asked: dict[JobId, bytes | None] = {}
        self._cache = _Metas(project.results / CACHE, bucket.url)

    def survey(self, jobs: Iterable[JobId]) -> None:
        """List the stages of some results, a few requests a stage, and read the metas that are there."""
        wanted = list(jobs)
        self._list(dict.fromkeys(stage for stage, _ in wanted))
        tags = {
            f"{stage}/{key}/meta.json": self._listed[stage][key]["meta.json"].etag
            for stage, key in wanted
            if key in self._listed[stage]
        }
        new = self._cache.unknown(tags)
        answers = zip(new, in_parallel(self._bucket.read, new), strict=True)
        self._cache.keep({name: answer for name, answer in answers if answer})

    def meta(self, stage: str, key: str) -> dict[str, Any] | None:
        """Return a result's meta.json, None where the result is not there or cannot be read."""
        if (stage, key) not in self._metas:
            self._metas[stage, key] = self._read(stage, key)
        return self._metas[stage, key]

    def exists(self, stage: str, key: str) -> bool:
        """Say whether a result is in the bucket or its folder is here."""
        return self._is_shared(stage, key) or self._local.exists(stage, key)

    def has_meta(self, stage: str, key: str) -> bool:
        """Say whether a result's meta.json is there, readable or not."""
        return self._is_shared(stage, key) or self._local.has_meta(stage, key)

    def present(self, stage: str) -> frozenset[str]:
        """Return the keys of a stage's results, in the bucket or here, by one listing of each."""
        self._list([stage])
        return frozenset({*self._listed[stage], *self._local.present(stage)})

    def examine(self, stage: str, key: str) -> tuple[dict[str, Any] | None, str | None]:
        """Return the meta of a result that is there and what is wrong with it; keeps nothing."""
        if not self._is_shared(stage, key):
            return self._local.examine(stage, key)
        meta = self._read(stage, key)
        return meta, self._judge(stage, key, meta)

    def damage(self, stage: str, key: str, *, thorough: bool = False) -> str | None:
        """Say what is wrong with a result: of one in the bucket, sizes alone; `fetch` hashes."""
        if not self._is_shared(stage, key):
            return self._local.damage(stage, key, thorough=thorough)
        return self._judge(stage, key, self.meta(stage, key))

    def fetch(self, stage: str, key: str) -> str | None:
        """Have a result's files in results/, hashed; return what is wrong, None where nothing is."""
        if not self._is_shared(stage, key):
            return self._local.fetch(stage, key)
        meta = self.meta(stage, key)
        if meta is None:
            return f"meta.json in {self._bucket.url} cannot be read"
        here = self._local.meta(stage, key)
        if here and here["outputs"] == meta["outputs"]:
            if not self._local.damage(stage, key, thorough=True):
                if here != meta:
                    self._write_meta(self._project.result(stage, key), stage, key)
                return None
            self._local.quarantine(stage, key)
        return self._download(stage, key, meta)

    def folder(self, stage: str, key: str) -> Path:
        """Return the folder of a result, fetched; AssayError where the bucket's copy is damaged."""
        if self._is_shared(stage, key) and (damage := self.fetch(stage, key)):
            raise AssayError(f"{stage}/{key} is damaged ({damage}): assay run builds it anew")
        return super().folder(stage, key)

    def where(self, stage: str, key: str) -> str:
        """Return the address of a result for people."""
        shared = self._is_shared(stage, key)
        return f"{self._bucket.url}/{stage}/{key}" if shared else super().where(stage, key)

    @property
    def home(self) -> str:
        """Where the results are, for people."""
        return self._bucket.url

    def share(self, jobs: Iterable[JobId]) -> int:
        """Put results that lie in results/ alone, undamaged, into the bucket; return how many."""
        own = [job for job in jobs if not self._is_shared(*job) and self._local.meta(*job)]
        whole = [job for job in own if not self._local.damage(*job, thorough=True)]
        in_parallel(lambda job: self._upload(*job, together=map), whole)
        for job in whole:
            self.forget(*job)
        self._list(dict.fromkeys(stage for stage, _ in whole))
        return len(whole)

    def upload(self, stage: str, key: str) -> None:
        """Put a result of results/ into the bucket: its files, then its meta.json, which makes it one."""
        self._upload(stage, key, together=in_parallel)
        self.forget(stage, key)

    def quarantine(self, stage: str, key: str) -> str:
        """Move a damaged result aside in the bucket, and a damaged copy here likewise."""
        if not self._is_shared(stage, key):
            return self._local.quarantine(stage, key)
        target = f"{QUARANTINE}/{stage}-{key}-{time.strftime('%Y%m%dT%H%M%S')}-{uuid4().hex[:4]}"
        names = [name for name in self._objects(stage, key) if name != "meta.json"]
        in_parallel(lambda name: self._bucket.copy(f"{stage}/{key}/{name}", f"{target}/{name}"), names)
        self._bucket.copy(f"{stage}/{key}/meta.json", f"{target}/meta.json")
        self._bucket.delete(f"{stage}/{key}/meta.json")  # the files stay: another machine may write them now
        if self._local.exists(stage, key) and self._local.damage(stage, key, thorough=True):
            self._local.quarantine(stage, key)
        self.forget(stage, key)
        return f"{self._bucket.url}/{target}"

    def require_writable(self) -> None:
        """Raise AssayError where results cannot be written."""
        self._bucket.require_writable()

    def forget(self, stage: str, key: str) -> None:
        """Read what is known of a result anew at its next use."""
        super().forget(stage, key)
        self._local.forget(stage, key)
        self._asked.pop((stage, key), None)
        self._listed.pop(stage, None)

    def keys(self, stage: str) -> list[str]:
        """List the keys of a stage, sorted; their metas are read together, for who lists keys reads these."""
        found = sorted(self.present(stage))
        self.survey((stage, key) for key in found)
        return found

    def all(self) -> Iterator[JobId]:
        """Yield (stage, key) of every result in the bucket or here."""
        stages = [name for name in self._bucket.folders() if name != QUARANTINE and not name.startswith(".")]
        self._list(stages)
        here = [stage for stage, _ in self._local.all()]
        for stage in sorted({*stages, *here}):
            yield from ((stage, key) for key in sorted(self.present(stage)))

    def shared(self) -> Sequence[JobId]:
        """Return the results that other machines find, their metas read."""
        found = [job for job in self.all() if self._is_shared(*job)]
        self.survey(found)
        return found

    def _list(self, stages: Iterable[str]) -> None:
        new = [stage for stage in stages if stage not in self._listed]
        for stage, objects in zip(new, in_parallel(lambda s: self._bucket.list(f"{s}/"), new), strict=True):
            self._listed[stage] = _whole(objects)

    def _is_shared(self, stage: str, key: str) -> bool:
        return key in self._listed[stage] if stage in self._listed else self._text(stage, key) is not None

    def _read(self, stage: str, key: str) -> dict[str, Any] | None:
        text = self._text(stage, key)
        return self._local.meta(stage, key) if text is None else _parse(text)

    def _text(self, stage: str, key: str) -> bytes | None:
        """Return the bucket's meta.json, None where there is none."""
        name = f"{stage}/{key}/meta.json"
        if stage in self._listed:
            objects = self._listed[stage].get(key)
            known = self._cache.text(name, objects["meta.json"].etag) if objects else None
            if known or not objects:
                return known
        if (stage, key) not in self._asked:
            found = self._bucket.read(name)
            self._asked[stage, key] = found[0] if found else None
        return self._asked[stage, key]

    def _objects(self, stage: str, key: str) -> Objects:
        if stage in self._listed:
            return self._listed[stage][key]
        return _whole(self._bucket.list(f"{stage}/{key}/")).get(key, {})

    def _judge(self, stage: str, key: str, meta: Mapping[str, Any] | None) -> str | None:
        if meta is None:
            return f"meta.json in {self._bucket.url} cannot be read"
        objects, folder = self._objects(stage, key), contents(meta)
        for name, facts in meta["outputs"].items():
            listed = objects.get(f"{folder}/{name}")
            if listed is None:
                return f"{name} is missing in {self._bucket.url}"
            if listed.size != facts["size"]:
                return (
                    f"{name} has {listed.size} bytes in {self._bucket.url} where {facts['size']} were written"
                )
        return None

    def _download(self, stage: str, key: str, meta: Mapping[str, Any]) -> str | None:
        folder = self._project.result(stage, hidden_name(key))
        folder.mkdir(parents=True)
        source = f"{stage}/{key}/{contents(meta)}"

        def wrong(name: str) -> str | None:
            if not self._bucket.download(f"{source}/{name}", folder / name):
                return f"{name} is missing in {self._bucket.url}"
            if sha256(folder / name) != meta["outputs"][name]["sha256"]:
                return f"{name} in {self._bucket.url} is not what was written (its SHA-256 differs)"
            return None

        try:
            if damage := next(filter(None, in_parallel(wrong, meta["outputs"])), None):
                return damage
            self._write_meta(folder, stage, key)
            self._take_place(folder, stage, key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _write_meta(self, folder: Path, stage: str, key: str) -> None:
        text = self._text(stage, key)
        assert text is not None
        with replacing(folder / "meta.json") as temporary:
            temporary.write_bytes(text)
        self._local.forget(stage, key)

    def _take_place(self, folder: Path, stage: str, key: str) -> None:
        """Give a fetched folder its name; where another process was first, its copy serves."""
        if self._local.exists(stage, key):
            self._local.remove(stage, key)
        try:
            folder.rename(self._project.result(stage, key))
        except OSError:
            if not self._local.exists(stage, key):
                raise

    def _upload(self, stage: str, key: str, together: Callable[..., Iterable[None]]) -> None:
        folder = self._project.result(stage, key)
        text = (folder / "meta.json").read_bytes()
        meta = _parse(text)
        assert meta is not None
        place = f"{stage}/{key}/{contents(meta)}"
        list(together(lambda name: self._bucket.upload(folder / name, f"{place}/{name}"), meta["outputs"]))
        self._bucket.write(f"{stage}/{key}/meta.json", text)


def contents(meta: Mapping[str, Any]) -> str:
    """Return the name of the folder of a result's files: a hash of their names and checksums."""
    named = {name: facts["sha256"] for name, facts in meta["outputs"].items()}
    return hashlib.sha256(canonical(named).encode()).hexdigest()[:12]


def _whole(objects: Objects) -> dict[str, Objects]:
    """Return the objects of each key of a stage that has its meta.json, by their names below the key."""
    found: dict[str, dict[str, Listed]] = {}
    for name, listed in objects.items():
        _, key, *rest = name.split("/", 2)
        if rest and key.startswith("k"):
            found.setdefault(key, {})[rest[0]] = listed
    return {key: inside for key, inside in found.items() if "meta.json" in inside}


def _parse(text: bytes) -> dict[str, Any] | None:
    """Return a meta, None where it is none or names files outside its folder."""
    meta = parse_meta(text)
    names = [PurePosixPath(name) for name in meta["outputs"]] if meta else []
    return None if any(name.is_absolute() or ".." in name.parts for name in names) else meta


class _Metas:
    """Metas of a bucket that were read before, by name and tag: a file that may be deleted at any time."""

    def __init__(self, path: Path, url: str) -> None:
        self._path, self._url = path, url

    @cached_property
    def _database(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return _with_table(str(self._path))
        except (sqlite3.Error, OSError):  # spoilt, or not to be written: memory serves
            return _with_table(":memory:")

    def unknown(self, tags: Mapping[str, str]) -> list[str]:
        """Return the names whose meta was not read with this tag."""
        rows = self._database.execute("select name, etag from metas where url = ?", [self._url])
        known = {name for name, tag in rows if tags.get(name) == tag}
        return [name for name in tags if name not in known]

    def text(self, name: str, tag: str) -> bytes | None:
        """Return a meta as it was read, None where it was not."""
        wanted = (self._url, name, tag)
        found = self._database.execute(
            "select text from metas where url = ? and name = ? and etag = ?", wanted
        )
        row = found.fetchone()
        return bytes(row[0]) if row else None

    def keep(self, read: Mapping[str, tuple[bytes, str]]) -> None:
        """Keep metas with their tags."""
        rows = [(self._url, name, tag, text) for name, (text, tag) in read.items()]
        with self._database:
            self._database.executemany("replace into metas values (?, ?, ?, ?)", rows)


def _with_table(name: str) -> sqlite3.Connection:
    database = sqlite3.connect(name, timeout=30)
    columns = "url text, name text, etag text, text blob, primary key (url, name)"
    database.execute(f"create table if not exists metas ({columns})")
    return database
