"""Merge a choice of groups from files that are read once, where that is certainly what Hydra does.

Certainly: config.yaml has a plain defaults list and values of its own; a group's file has plain values, no
defaults list, no package, and no interpolation but `oc.env`. For anything else there is no fast way.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

Remember = Callable[[str, Callable[[], str]], str]
NAME = re.compile(r"[A-Za-z_]\w*\Z")
OF_HYDRA = {"sweep", "run", "output_subdir"}
"""Settings under `hydra:` in config.yaml that change no value of a point."""
PATH_KEYS = {"root", "path", "vocabulary"}
"""Keys that may refer to the environment."""


class GroupFiles:
    """The files of a conf folder; `remember(name, make)` may keep what they hold between runs."""

    def __init__(self, conf: Path, remember: Remember) -> None:
        self._conf = conf
        self._remember = remember
        self._files: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._primary = self._read_primary()

    @property
    def defaults(self) -> Mapping[str, str]:
        """The option of each group that config.yaml chooses; empty where it is not plain."""
        return self._primary[0] if self._primary else {}

    def merged(self, chosen: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]] | None:
        """Return config and choices, None where only Hydra can tell; equal files are one object."""
        if self._primary is None or not chosen.keys() <= self._primary[0].keys():
            return None
        choices = {**self._primary[0], **chosen}
        config: dict[str, Any] = {group: self.file(group, option) for group, option in choices.items()}
        if any(value is None for value in config.values()):
            return None
        return config | self._primary[1], choices

    def file(self, group: str, option: str) -> dict[str, Any] | None:
        """Return the values of conf/GROUP/OPTION.yaml, None where they are not plain."""
        if (group, option) not in self._files:
            self._files[group, option] = self._read(self._conf / group / f"{option}.yaml", option)
        return self._files[group, option]

    def options(self, group: str) -> list[str]:
        """Return the options of a group, sorted."""
        return sorted(path.stem for path in (self._conf / group).glob("*.yaml"))

    def _read(self, path: Path, option: str) -> dict[str, Any] | None:
        if not NAME.match(option) or not path.is_file():
            return None
        text = path.read_text(encoding="utf-8")
        name = hashlib.sha256(f"{text}\0{environment(text)}".encode()).hexdigest()
        values: dict[str, Any] | None = json.loads(
            self._remember(f"group:{name}", lambda: json.dumps(_plain(path, text)))
        )
        return None if values is None or "defaults" in values else values

    def _read_primary(self) -> tuple[dict[str, str], dict[str, Any]] | None:
        path = self._conf / "config.yaml"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        values = None if "${" in text else _plain(path, text)
        hydra = values.pop("hydra", {}) if values else None
        if values is None or not isinstance(hydra, dict) or not hydra.keys() <= OF_HYDRA:
            return None
        defaults = self._plain_defaults(values.pop("defaults", None))
        return None if defaults is None or defaults.keys() & values.keys() else (defaults, values)

    def _plain_defaults(self, entries: Any) -> dict[str, str] | None:
        """Return the option of each group of a defaults list that ends with _self_, else None."""
        if not isinstance(entries, list) or not entries or entries[-1] != "_self_":
            return None
        defaults: dict[str, str] = {}
        for entry in entries[:-1]:
            if not isinstance(entry, dict) or len(entry) != 1:
                return None
            ((group, option),) = entry.items()
            known = group in defaults or group == "hydra"
            if known or not NAME.match(group) or not isinstance(option, str):
                return None
            defaults[group] = option
        return defaults


def _plain(path: Path, text: str) -> dict[str, Any] | None:
    """Return what a file holds, None where it is not certain that Hydra takes it as it stands."""
    if "@package" in text:
        return None
    try:
        node = OmegaConf.load(path)
        if not isinstance(node, DictConfig) or any(not _is_path(*each) for each in interpolations(node)):
            return None
        values: Any = OmegaConf.to_container(node, resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError, OSError, ValueError):
        return None
    return values if isinstance(values, dict) and values and _has_text_keys(values) else None


def _has_text_keys(node: Any) -> bool:
    if isinstance(node, dict):
        return all(isinstance(key, str) and _has_text_keys(value) for key, value in node.items())
    return all(map(_has_text_keys, node)) if isinstance(node, list) else True


def _is_path(key: str, text: str) -> bool:
    return key.split(".")[-1] in PATH_KEYS and is_environment(text)


def environment(text: str) -> str:
    """Return the values of the environment variables that a text names, of all where a name is not plain."""
    names = re.findall(r"oc\.env:\s*(\w+)", text)
    if len(names) < text.count("oc.env"):
        names = sorted(os.environ)
    return json.dumps({name: os.environ.get(name) for name in names})


def is_environment(text: str) -> bool:
    """Say whether a value's interpolations are of the environment alone: no other value changes it."""
    return all(piece.startswith("oc.env:") for piece in text.split("${")[1:])


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
