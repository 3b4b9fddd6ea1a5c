"""What a study's owner chose at the freeze: task size, raters, reward, when to stop."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import read_json, write_json


@dataclass(frozen=True)
class StudySettings:
    """`reward` in US dollars a task and rater; `prior` None: the scorer's probability of each input."""

    inputs_per_task: int = 15
    n_raters: int = 3
    reward: float = 0.06
    image_base_url: str | None = None
    stop: str = "none"
    error_rate: float = 0.23
    prior: float | None = None
    seed: int = 0


def read_settings(path: Path) -> StudySettings:
    """Read settings.json; AssayError names a key that is unknown."""
    values: dict[str, Any] = read_json(path)
    known = {field.name for field in fields(StudySettings)}
    if unknown := sorted(values.keys() - known):
        raise AssayError(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return StudySettings(**values)


def write_settings(path: Path, settings: StudySettings) -> None:
    """Write settings.json, atomically."""
    write_json(path, asdict(settings))
