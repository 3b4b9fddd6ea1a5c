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


TYPES: dict[str, Any] = {
    "inputs_per_task": int,
    "n_raters": int,
    "reward": int | float,
    "image_base_url": str | None,
    "stop": str,
    "error_rate": int | float,
    "prior": int | float | None,
    "seed": int,
}


def read_settings(path: Path) -> StudySettings:
    """Read settings.json; AssayError names a key that is unknown."""
    try:
        values: dict[str, Any] = dict(read_json(path))
    except (ValueError, TypeError) as error:
        raise AssayError(f"{path} is no JSON object: {error}") from None
    known = {field.name for field in fields(StudySettings)}
    if unknown := sorted(values.keys() - known):
        raise AssayError(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    settings = StudySettings(**values)
    for field in fields(StudySettings):
        if not isinstance(getattr(settings, field.name), TYPES[field.name]):
            raise AssayError(
                f"{path}: {field.name} is {getattr(settings, field.name)!r}; put the old value back"
            )
    return settings


def write_settings(path: Path, settings: StudySettings) -> None:
    """Write settings.json, atomically."""
    write_json(path, asdict(settings))
