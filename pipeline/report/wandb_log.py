"""The log of an offline W&B run: what it says, and a copy of it that leaves out curves that were sent.

A .wandb file is a header and blocks of 32 KiB in LevelDB's log format (checksum, length and kind of each
part of a record), around protobuf records.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import canonical, replacing

MAGIC = b":W&B"
HEADER = 7
BLOCK = 32 * 1024
PART = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class Logged:
    """What a run's log says.

    digest: SHA-256 of all of it but times, so that a point that was logged twice has it twice. lines: rows of
    its history. entity: None where W&B's own default counts.
    """

    digest: str
    lines: int
    project: str
    entity: str | None


def read_log(path: Path) -> Logged:
    """Read a log; raises AssayError where it is none."""
    told: dict[str, Any] = {"history": [], "summary": {}, "artifacts": [], "files": []}
    run: Any = None
    for record in map(_parsed, _records(path)):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
        if kind == "history":
            told["history"].append(dict(_items(record.history.item)))
        if kind == "summary":
            told["summary"] |= dict(_items(record.summary.update))
        if kind == "artifact":
            told["artifacts"].append([record.artifact.name, record.artifact.type, record.artifact.digest])
        if kind == "files":
            told["files"] += [file.path for file in record.files.files]
    if run is None:
        raise AssayError(f"{path} holds no W&B run: run the sweep again")
    told["run"] = [run.run_id, run.display_name, run.run_group, run.job_type, list(run.tags)]
    told["config"] = {item.key: item.value_json for item in run.config.update}
    digest = hashlib.sha256(canonical(told).encode()).hexdigest()
    return Logged(digest, len(told["history"]), run.project, run.entity or None)


def leave_out_lines(path: Path, n: int) -> None:
    """Take the first `n` rows of history out of a log; what follows keeps its step."""
    kept, left = [], n
    for data in _records(path):
        if left and _parsed(data).WhichOneof("record_type") == "history":
            left -= 1
        else:
            kept.append(data)
    header = path.read_bytes()[:HEADER]
    with replacing(path) as temporary:
        temporary.write_bytes(header + _framed(kept))


def _parsed(data: bytes) -> Any:
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2
    record = messages.Record()
    record.ParseFromString(data)
    return record


def _items(items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a row, but for what W&B adds itself: steps and times."""
    for item in items:
        name = "/".join(item.nested_key) or item.key
        if not name.startswith("_"):
            yield name, json.dumps(json.loads(item.value_json), sort_keys=True)


def _records(path: Path) -> Iterator[bytes]:
    """Yield the bytes of each record."""
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        raise AssayError(f"{path} is no log of a W&B run: run the sweep again")
    position, parts = HEADER, b""
    while position + PART.size <= len(data):
        if (left := BLOCK - position % BLOCK) < PART.size:
            position += left
            continue
        _, size, kind = PART.unpack_from(data, position)
        parts += data[position + PART.size : position + PART.size + size]
        position += PART.size + size
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""


def _framed(records: Iterable[bytes]) -> bytes:
    """Return records as they follow a log's header."""
    out = bytearray()
    for record in records:
        rest, kind = record, WHOLE
        while kind:
            room = BLOCK - (HEADER + len(out)) % BLOCK - PART.size
            if room < 0:
                out += bytes(room + PART.size)
                continue
            part, rest = rest[:room], rest[room:]
            begun = kind in (FIRST, MIDDLE)
            kind = (MIDDLE if begun else FIRST) if rest else (LAST if begun else WHOLE)
            out += PART.pack(zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            kind = kind if rest else 0
    return bytes(out)
