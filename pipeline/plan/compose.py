"""Compose points: once per choice of groups by Hydra, plain values set on copies.

A plain Hydra compose takes about 60 ms. A change of a value that is already there, in a config
without interpolations, gives the same result as composing again (a test holds it to that); every
other override is composed plainly.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from pipeline.errors import AssayError
from pipeline.plan.sweep import parse
from pipeline.plan.validation import nearest

Remember = Callable[[str, Callable[[], str]], str]


@dataclass(frozen=True)
class Composed:
    """A point's config as plain values, the option chosen in each group, and where values came from."""

    config: dict[str, Any]
    choices: dict[str, str]
    where: dict[str, str]


@dataclass(frozen=True)
class _Base:
    """A composed choice of groups; `config` is JSON, which reads faster than Python copies.

    interpolated: some value depends on another one, so that no value may be set on a copy.
    """

    config: str
    choices: dict[str, str]
    interpolated: bool


class Composer:
    """Composes many points of one config folder; `remember(name, make)` may keep them between runs."""

    def __init__(self, conf: Path, remember: Remember | None = None) -> None:
        self._conf = conf
        self._remember = remember or (lambda _, make: make())
        self._state = _state_of(conf)
        self._groups = {path.name for path in conf.iterdir() if path.is_dir()}
        self._bases: dict[tuple[str, ...], _Base] = {}

    def compose(self, overrides: Sequence[str]) -> Composed:
        """Compose one point; raises AssayError that names the override, the place and the fix."""
        parsed = [self._parsed(text) for text in overrides]
        choosing = tuple(str(o.input_line) for o in parsed if not self._is_plain(o))
        base = self._base(choosing)
        values = [o for o in parsed if self._is_plain(o)]
        config = None if base.interpolated else _set_all(json.loads(base.config), values)
        if config is None:
            base = self._base(tuple(overrides))
            config = json.loads(base.config)
        where = self._where(base.choices, overrides)
        missing = [key for key, value in _leaves(config) if value == "???"]
        if missing:
            raise AssayError(
                "\n".join(
                    f"{key} ({where.get(key.split('.')[0], 'conf/config.yaml')}) is missing: set {key}=..."
                    for key in missing
                )
            )
        return Composed(config, base.choices, where)

    def _parsed(self, text: str) -> Override:
        cache: dict[str, Override] = self.__dict__.setdefault("_overrides", {})
        if text not in cache:
            (cache[text],) = parse([text])
        return cache[text]

    def _is_plain(self, override: Override) -> bool:
        return (
            override.type is OverrideType.CHANGE
            and override.package is None
            and override.key_or_group not in self._groups
            and (override.value() is None or isinstance(override.value(), str | int | float | bool))
            and "${" not in str(override.value())
        )

    def _base(self, overrides: tuple[str, ...]) -> _Base:
        if overrides not in self._bases:
            name = f"composed:{self._state}:{json.dumps(overrides)}:{_environment(' '.join(overrides))}"
            self._bases[overrides] = _Base(
                **json.loads(self._remember(name, lambda: self._plainly(overrides)))
            )
        return self._bases[overrides]

    def _plainly(self, overrides: tuple[str, ...]) -> str:
        try:
            with initialize_config_dir(str(self._conf), version_base="1.3"):
                node = compose("config", overrides=list(overrides), return_hydra_config=True)
            choices = {
                str(key): str(value)
                for key, value in OmegaConf.to_container(node.hydra.runtime.choices).items()  # type: ignore[union-attr]
                if not str(key).startswith("hydra/")
            }
            with open_dict(node):
                del node["hydra"]
            refuse_unstable(node)
            plain = OmegaConf.to_container(node, resolve=True)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
            raise AssayError(self._explain(overrides, error)) from None
        assert isinstance(plain, dict)
        return json.dumps(
            {
                "config": json.dumps(plain),
                "choices": choices,
                "interpolated": any(not _is_environment(text) for _, text in interpolations(node)),
            }
        )

    def _explain(self, overrides: tuple[str, ...], error: Exception) -> str:
        first = (
            " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else str(error).splitlines()[0]
        )
        # The longest key first: the name of a group stands in the names of its settings too.
        for override in sorted(map(self._parsed, overrides), key=lambda each: -len(each.key_or_group)):
            key = override.key_or_group
            if key in self._groups and f"'{key}/{override.value()}'" in str(error).replace('"', "'"):
                option, options = str(override.value()), [p.stem for p in (self._conf / key).glob("*.yaml")]
                return f"{key}={option}: no file conf/{key}/{option}.yaml; {nearest(option, options)}"
            if key in str(error) and ("Could not override" in first or "not in struct" in str(error)):
                return f"{override.input_line}: unknown key {key!r}; {nearest(key, self._keys())}"
        return f"{' '.join(overrides)}: {first}"

    def _keys(self) -> set[str]:
        return {key for base in self._bases.values() for key in _dotted(json.loads(base.config))}

    def _where(self, choices: Mapping[str, str], overrides: Sequence[str]) -> dict[str, str]:
        where = {group: f"conf/{group}/{choice}.yaml" for group, choice in choices.items()}
        for text in overrides:
            group = self._parsed(text).key_or_group.split(".")[0]
            if text.split("=")[0] != group or group not in self._groups:
                where[group] = f"{where.get(group, 'conf/config.yaml')} with {text}"
        return where


def _state_of(conf: Path) -> str:
    """Return a hash of everything that composing depends on: config files, environment, Hydra's version."""
    digest = hashlib.sha256(f"{metadata.version('hydra-core')} {metadata.version('omegaconf')}".encode())
    for path in sorted(conf.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        digest.update(f"{path.relative_to(conf)}\0{text}\0{_environment(text)}\0".encode())
    return digest.hexdigest()[:16]


def _environment(text: str) -> str:
    """Return the values of the environment variables that a text refers to."""
    return json.dumps({name: os.environ.get(name) for name in re.findall(r"oc\.env:\s*(\w+)", text)})


def _set_all(config: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any] | None:
    """Set plain values; None where one of them is not a plain change of a plain value."""
    for override in overrides:
        *parents, leaf = str(override.key_or_group).split(".")
        node: Any = config
        for step in parents:
            node = node.get(step) if isinstance(node, dict) else None
        if not isinstance(node, dict) or leaf not in node or isinstance(node[leaf], dict | list):
            return None
        node[leaf] = override.value()
    return config


def _dotted(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def interpolations(node: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield (dotted key, text) of every value that holds an interpolation."""
    raw = OmegaConf.to_container(node, resolve=False)
    assert isinstance(raw, dict)
    yield from _interpolations(raw, "")


def _interpolations(node: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _interpolations(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _interpolations(value, f"{prefix}.{index}")
    elif isinstance(node, str) and "${" in node:
        yield prefix, node


def _is_environment(text: str) -> bool:
    """Say whether a value's interpolations are of the environment alone: no other value changes it."""
    return all(piece.startswith("oc.env:") for piece in text.split("${")[1:])


PATH_KEYS = {"root", "path", "vocabulary"}


def refuse_unstable(node: DictConfig) -> None:
    """Refuse what would give one point two keys, or let one group's slice hide in another's.

    Resolvers other than `oc.env` are refused, `oc.env` is for paths only, and a group's values may
    refer to their own group and to nothing else.
    """
    for key, text in interpolations(node):
        for piece in text.split("${")[1:]:
            name = piece.split("}")[0]
            if ":" in name:
                _refuse_resolver(key, text, name.split(":")[0].strip())
            elif "." in key and not _stays_inside(name, key):
                raise AssayError(
                    f"{key}={text}: a group's value may not refer to another group; write the value itself"
                )


def _stays_inside(name: str, key: str) -> bool:
    """Say whether an interpolation refers to its own group; `..` may leave it."""
    return name.startswith(key.split(".")[0] + ".") or (name.startswith(".") and not name.startswith(".."))


def _refuse_resolver(key: str, text: str, resolver: str) -> None:
    if resolver != "oc.env":
        raise AssayError(
            f"{key}={text}: the resolver {resolver!r} may change from run to run; write the value itself"
        )
    if key.split(".")[-1] not in PATH_KEYS:
        raise AssayError(
            f"{key}={text}: oc.env is for paths only ({', '.join(sorted(PATH_KEYS))}); write the value itself"
        )
