"""What of a study is at MTurk: one file, `mturk.json`, and the lock that guards it."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import read_json, write_json
from pipeline.study.frozen import FrozenStudy


@dataclass(frozen=True)
class Hit:
    """A task at MTurk: the ids of the HIT, its type and its group, and when it was created (ISO, UTC)."""

    hit_id: str
    hit_type_id: str
    created: str
    group: str


def read_hits(study: FrozenStudy, place: str) -> dict[str, Hit]:
    """Return the tasks that are known to be at `place` (sandbox or production), by task id."""
    entries = _state(study).get(place, {})
    try:
        return {task: Hit(**entry) for task, entry in entries.items()}
    except (AttributeError, TypeError):
        raise _damaged(study) from None


def write_hits(study: FrozenStudy, place: str, hits: Mapping[str, Hit]) -> None:
    """Write the tasks that are at `place`; what is known of the other place stays."""
    entries = {task: asdict(hit) for task, hit in hits.items()}
    write_json(study.folder / "mturk.json", _state(study) | {place: entries})


@contextmanager
def one_at_a_time(study: FrozenStudy) -> Iterator[None]:
    """Hold the study's MTurk lock; the system lets go of it when a process dies."""
    with (study.folder / ".mturk.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError(
                f"another publish, collect or review of {study.name} is at work: wait for it, or stop it"
            ) from None
        yield


def _state(study: FrozenStudy) -> dict[str, Any]:
    path = study.folder / "mturk.json"
    if not path.is_file():
        return {}
    try:
        state = read_json(path)
    except ValueError:
        raise _damaged(study) from None
    if not isinstance(state, dict):
        raise _damaged(study)
    return state


def _damaged(study: FrozenStudy) -> AssayError:
    return AssayError(
        f"{study.folder / 'mturk.json'} is damaged: move it away; what was published is then found at "
        "MTurk again"
    )
