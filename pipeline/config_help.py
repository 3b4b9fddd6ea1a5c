"""What a config may say: groups, their choices in a line each, and which stage reads which key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from pipeline.errors import AssayError
from pipeline.plan.schema import GROUPS
from pipeline.plan.stages import STAGES, SWEEP_ENDS, stage_for, stages_of
from pipeline.plan.validation import nearest


@dataclass(frozen=True)
class Choice:
    """One file of a group; `words` say in a line what it is."""

    name: str
    words: str
    is_default: bool
    path: Path


@dataclass(frozen=True)
class Group:
    """A folder of conf/; stages: those that read it, in the order in which they run."""

    name: str
    choices: tuple[Choice, ...]
    stages: tuple[str, ...]

    def choice(self, name: str) -> Choice:
        """Return a choice; AssayError names the nearest."""
        for choice in self.choices:
            if choice.name == name:
                return choice
        raise AssayError(f"{self.name}={name}: {nearest(name, [choice.name for choice in self.choices])}")


def config_groups(conf: Path) -> list[Group]:
    """Return the groups of a conf folder that a point chooses from, in the order of config.yaml."""
    defaults = dict(_defaults(conf))
    return [
        Group(name, tuple(_choices(conf / name, default)), tuple(_readers(name)))
        for name, default in defaults.items()
    ]


def config_group(conf: Path, name: str) -> Group:
    """Return one group; AssayError names the nearest."""
    groups = {group.name: group for group in config_groups(conf)}
    if name not in groups:
        raise AssayError(f"conf has no group {name!r}: {nearest(name, groups)}")
    return groups[name]


def own_values(conf: Path) -> dict[str, Any]:
    """Return the values that config.yaml itself sets: settings that come in one variety."""
    config = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))
    return {name: value for name, value in config.items() if name in GROUPS}


def _defaults(conf: Path) -> Iterator[tuple[str, str]]:
    config = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))
    for entry in config["defaults"]:
        if isinstance(entry, dict):
            yield from entry.items()


def _choices(folder: Path, default: str) -> Iterator[Choice]:
    for path in sorted(folder.glob("*.yaml")):
        yield Choice(path.stem, _words(folder.name, path), path.stem == default, path)


def _words(group: str, path: Path) -> str:
    """Return the comment that a file begins with or has beside its name, else what its settings say."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = lines[0] if lines else ""
    if first.startswith("#"):
        return first.lstrip("# ").rstrip()
    if "#" in first:
        return first.partition("#")[2].strip()
    name = (yaml.safe_load("\n".join(lines)) or {}).get("name")
    return next((_sentence(model) for model in _models(GROUPS[group]) if name in _names(model)), "")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the settings models of a group, one or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _names(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("name")
    return get_args(field.annotation) if field else ()


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split("\n\n")[0].split())


def _readers(group: str) -> Iterator[str]:
    for stage, rows in STAGES.items():
        if any(key.split(".")[0] == group for row in rows for key in (*row.reads, *row.when)):
            yield stage


def readers_of(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return for each dotted key of a point's config the stages whose result depends on it."""
    ends = {name: stage_for(name, values) for name in SWEEP_ENDS[values["track"]]}
    rows = {**stages_of(values), **ends}
    return {
        key: tuple(
            name
            for name, row in rows.items()
            if any(_covers(read, key) for read in row.reads)
            and not any(_covers(ignored, key) for ignored in row.ignores)
        )
        for key in dotted_keys(values)
    }


def speed_keys(values: Mapping[str, Any]) -> set[str]:
    """Return the dotted keys that a stage of the point uses and no result depends on."""
    keys = {key for row in stages_of(values).values() for key in row.speed}
    return {key for key in dotted_keys(values) if any(_covers(speed, key) for speed in keys)}


def dotted_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted key of every value that is no mapping."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from dotted_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _covers(read: str, key: str) -> bool:
    return key == read or key.startswith(f"{read}.")
