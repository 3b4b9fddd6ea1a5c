"""Results in a bucket: what is there is whole, two writers never mix, what goes wrong is said."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from pipeline.errors import AssayError
from pipeline.files import write_json
from pipeline.plan.bucket import Bucket
from pipeline.plan.project import Project
from pipeline.plan.shared import CACHE, SharedStore, open_store
from pipeline.plan.store import META, Store

KEY = "k0123456789ab"
FILES = {"units.parquet": b"units of a layer", "masks/a.png": b"a picture"}


class Machine:
    """A project folder with the store that ASSAY_RESULTS gives it."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root)
        (root / "results").mkdir(parents=True)

    @property
    def store(self) -> SharedStore:
        store = open_store(self.project)
        assert isinstance(store, SharedStore)
        return store

    def make(self, files: dict[str, bytes], key: str = KEY) -> None:
        """Make a result in results/, as a job leaves it."""
        folder = self.project.result("units", key)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        write_json(folder / "meta.json", meta(files, key))

    def files(self, key: str = KEY) -> dict[str, bytes]:
        folder = self.project.result("units", key)
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "meta.json")
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def meta(files: dict[str, bytes], key: str = KEY) -> dict[str, object]:
    outputs = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()
    }
    empty = {name: {} for name in META}
    return empty | {"stage": "units", "key": key, "outputs": outputs, "notes": [], "started": 1.0}


@pytest.fixture
def one(bucket: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "one")


@pytest.fixture
def other(bucket: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "other")


@pytest.fixture
def requests(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The requests that reach the server, one line each."""
    asked: list[str] = []
    client = Bucket(bucket)._client
    client.meta.events.register("before-send.s3", lambda request, **_: asked.append(request.method), "count")
    yield asked
    client.meta.events.unregister("before-send.s3", unique_id="count")


def objects(url: str) -> dict[str, bytes]:
    bucket = Bucket(url)
    return {name: found[0] for name in bucket.list("") if (found := bucket.read(name))}


def put(url: str, name: str, data: bytes) -> None:
    Bucket(url).write(name, data)


def only(url: str, end: str) -> str:
    (found,) = (name for name in objects(url) if name.endswith(end) and not name.startswith("quarantine"))
    return found


def test_another_machine_finds_a_result_and_fetches_its_bytes(one: Machine, other: Machine) -> None:
    one.make(FILES)
    assert not other.store.exists("units", KEY)
    one.store.upload("units", KEY)
    store = other.store
    assert store.exists("units", KEY)
    assert other.files() == {}
    assert store.fetch("units", KEY) is None
    assert other.files() == dict(sorted(FILES.items()))
    metas = [machine.project.result("units", KEY) / "meta.json" for machine in (one, other)]
    assert metas[0].read_bytes() == metas[1].read_bytes()
    assert not list(other.project.results.glob("units/.k*"))


def test_a_result_has_no_files_but_below_its_contents_and_its_meta(one: Machine, bucket: str) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    folder = only(bucket, "units.parquet").split("/")[2]
    files = {f"units/{KEY}/{folder}/{name}" for name in FILES}
    assert set(objects(bucket)) == {f"units/{KEY}/meta.json", *files}


def test_an_upload_that_dies_before_its_meta_leaves_no_result_and_the_next_one_is_whole(
    one: Machine, other: Machine, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    one.make(FILES)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Bucket, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        one.store.upload("units", KEY)
    assert len(objects(bucket)) == len(FILES)
    assert not other.store.exists("units", KEY)
    assert "units" in {stage for stage, _ in one.store.all()}
    assert list(other.store.all()) == []
    assert one.store.share([("units", KEY)]) == 1
    assert other.store.fetch("units", KEY) is None


@pytest.mark.parametrize("last", ["one", "other"])
def test_of_two_writers_of_other_bytes_the_last_wins_as_a_whole(
    one: Machine, other: Machine, tmp_path: Path, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has written its files and not its meta when the second writes all of its own."""
    theirs = {name: data[::-1] for name, data in FILES.items()}
    one.make(FILES)
    other.make(theirs)
    write = Bucket.write

    def between(self: Bucket, name: str, data: bytes) -> None:
        monkeypatch.setattr(Bucket, "write", write)
        if last == "other":
            write(self, name, data)
        other.store.upload("units", KEY)
        if last == "one":
            write(self, name, data)

    monkeypatch.setattr(Bucket, "write", between)
    one.store.upload("units", KEY)
    third = Machine(tmp_path / "third")
    assert third.store.fetch("units", KEY) is None
    assert third.files() == dict(sorted((FILES if last == "one" else theirs).items()))


def test_many_writers_and_readers_at_once_never_see_a_mixture(one: Machine, tmp_path: Path) -> None:
    versions = [{name: bytes([65 + i]) * (1 + i) for name in FILES} for i in range(4)]
    machines = [Machine(tmp_path / str(i)) for i in range(4)]
    readers = [Machine(tmp_path / f"reader{i}") for i in range(4)]
    one.make(FILES)
    one.store.upload("units", KEY)
    for machine, files in zip(machines, versions, strict=True):
        machine.make(files)

    def work(i: int) -> None:
        if i % 2:
            assert readers[i // 2].store.fetch("units", KEY) is None
            assert readers[i // 2].files() in [dict(sorted(files.items())) for files in (FILES, *versions)]
        else:
            machines[i // 2].store.upload("units", KEY)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_a_copy_with_other_contents_gives_way_to_the_buckets(one: Machine, other: Machine) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    other.make({"units.parquet": b"made here before"})
    assert other.store.fetch("units", KEY) is None
    assert other.files() == dict(sorted(FILES.items()))


def test_a_damaged_copy_is_moved_aside_and_fetched_anew(one: Machine, other: Machine) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    other.make(FILES)
    (other.project.result("units", KEY) / "units.parquet").write_bytes(b"UNITS of a layer")
    assert other.store.damage("units", KEY) is None
    assert other.store.fetch("units", KEY) is None
    assert other.files() == dict(sorted(FILES.items()))
    assert len(list((other.project.results / "quarantine").iterdir())) == 1


def test_a_truncated_object_is_seen_without_fetching_it(one: Machine, other: Machine, bucket: str) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    put(bucket, only(bucket, "units.parquet"), b"units of")
    store = other.store
    store.survey([("units", KEY)])
    told = f"units.parquet has 8 bytes in {bucket} where 16 were written"
    assert store.damage("units", KEY) == store.examine("units", KEY)[1] == told
    moved = store.quarantine("units", KEY)
    assert moved.startswith(f"{bucket}/quarantine/units-{KEY}-")
    assert not other.store.exists("units", KEY)
    inside = {name.split("/", 2)[2] for name in objects(bucket) if name.startswith("quarantine/")}
    assert {name.rsplit("/", 1)[-1] for name in inside} == {"meta.json", "units.parquet", "a.png"}
    assert other.store.exists("units", KEY) is False
    assert one.store.share([("units", KEY)]) == 1
    assert other.store.fetch("units", KEY) is None


@pytest.mark.parametrize("spoilt", [b"UNITS of a layer", None])
def test_an_object_of_other_bytes_or_none_is_seen_when_it_is_fetched(
    one: Machine, other: Machine, bucket: str, spoilt: bytes | None
) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    name = only(bucket, "units.parquet")
    if spoilt:
        put(bucket, name, spoilt)
    else:
        Bucket(bucket).delete(name)
    told = other.store.fetch("units", KEY)
    assert told is not None
    assert told.startswith("units.parquet")
    assert bucket in told
    assert other.files() == {}
    with pytest.raises(AssayError, match="assay run builds it anew"):
        other.store.folder("units", KEY)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"stage": "units"}',
        json.dumps(meta({"../../outside": b"x"})).encode(),
        json.dumps(meta({"/outside": b"x"})).encode(),
    ],
)
def test_a_meta_that_is_none_or_leads_outside_is_damage(one: Machine, bucket: str, text: bytes) -> None:
    put(bucket, f"units/{KEY}/meta.json", text)
    store = one.store
    store.survey([("units", KEY)])
    assert store.exists("units", KEY)
    assert store.meta("units", KEY) is None
    assert "cannot be read" in str(store.damage("units", KEY))
    assert "cannot be read" in str(store.fetch("units", KEY))
    store.quarantine("units", KEY)
    assert not one.store.exists("units", KEY)


def test_a_plan_lists_a_stage_once_and_reads_a_meta_only_when_it_is_new(
    one: Machine, other: Machine, requests: list[str]
) -> None:
    keys = [f"k{i:012x}" for i in range(12)]
    jobs = [("units", key) for key in keys]
    for key in keys:
        one.make({"units.parquet": key.encode()}, key)
    assert one.store.share(jobs) == 12

    def judged() -> int:
        requests.clear()
        store = other.store
        store.survey(jobs)
        assert store.present("units") == {*keys}
        assert {store.examine(*job)[1] for job in jobs} == {None}
        assert {store.meta(*job)["key"] for job in jobs} == {*keys}  # type: ignore[index]
        return len(requests)

    assert judged() == 1 + 12
    assert judged() == 1
    one.make({"units.parquet": b"rebuilt"}, keys[0])
    one.store.upload("units", keys[0])
    assert judged() == 1 + 1


def test_a_job_asks_for_its_inputs_alone(one: Machine, other: Machine, requests: list[str]) -> None:
    for key in (KEY, "k0000000000ff"):
        one.make(FILES, key)
        one.store.upload("units", key)
    requests.clear()
    assert other.store.fetch("units", KEY) is None
    heads_and_files = requests.count("GET") + requests.count("HEAD")
    assert heads_and_files <= 1 + 2 * len(FILES)
    requests.clear()
    assert other.store.fetch("units", KEY) is None
    assert requests == ["GET"]


def test_a_spoilt_cache_of_metas_costs_requests_alone(one: Machine) -> None:
    one.make(FILES)
    one.store.upload("units", KEY)
    (one.project.results / CACHE).write_bytes(b"garbage" * 100)
    store = one.store
    store.survey([("units", KEY)])
    assert store.examine("units", KEY)[1] is None


def test_without_the_variable_no_library_of_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_RESULTS", raising=False)
    monkeypatch.delitem(sys.modules, "snakemake_storage_plugin_s3", raising=False)
    assert type(open_store(Project(tmp_path))) is Store
    assert "snakemake_storage_plugin_s3" not in sys.modules


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("results", "give s3://BUCKET/PREFIX"),
        ("s3://", "give s3://BUCKET/PREFIX"),
        ("s3://ab/c", "3 to 63 letters"),
        ("s3://nosuchbucket/here", "has no bucket 'nosuchbucket'"),
    ],
)
def test_a_wrong_address_is_told(
    environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("ASSAY_RESULTS", url)
    with pytest.raises(AssayError, match=words):
        open_store(Project(tmp_path)).survey([("units", KEY)])


def refusal(tmp_path: Path) -> str:
    with pytest.raises(AssayError) as found:
        open_store(Project(tmp_path)).survey([("units", KEY)])
    message = str(found.value)
    assert os.environ["ASSAY_RESULTS"] in message
    assert os.environ["AWS_ENDPOINT_URL"] in message
    assert "guarded-secret" not in message
    return message


def test_wrong_credentials_are_told(bucket: str, strict_server: None, tmp_path: Path) -> None:
    message = refusal(tmp_path)
    assert "refuses (InvalidAccessKeyId)" in message
    assert "AWS_ACCESS_KEY_ID" in message


def test_absent_credentials_are_told(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no credentials" in refusal(tmp_path)


def test_an_absent_server_is_told(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in refusal(tmp_path)


def test_the_plugins_own_variables_count_too(
    bucket: str, one: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, plugin in (
        ("AWS_ENDPOINT_URL", "ENDPOINT_URL"),
        ("AWS_ACCESS_KEY_ID", "ACCESS_KEY"),
        ("AWS_SECRET_ACCESS_KEY", "SECRET_KEY"),
    ):
        monkeypatch.setenv(f"SNAKEMAKE_STORAGE_S3_{plugin}", os.environ[name])
        monkeypatch.delenv(name)
    one.make(FILES)
    one.store.upload("units", KEY)
    assert one.store.exists("units", KEY)
