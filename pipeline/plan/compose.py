"""Compose points: each group file once, plain values set on copies, everything else by Hydra.

A plain Hydra compose takes about 270 ms. A choice of plain group files, and a change of a value that is
already there in a config without interpolations, give the same result as composing (tests hold it to that).
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from pipeline.errors import AssayError
from pipeline.plan.groups import PATH_KEYS, GroupFiles, Remember, environment, interpolations, is_environment
from pipeline.plan.sweep import Setting, read_setting
from pipeline.plan.validation import nearest


@dataclass(frozen=True, slots=True)
class Composed:
    """A point's config as plain values, the option chosen in each group, and where values came from.

    Points share the groups that are equal: nobody may change them.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    where: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Base:
    """A composed choice of groups.

    interpolated: some value depends on another one, so that no value may be set on a copy.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    interpolated: bool
    where: dict[str, str]


class Composer:
    """Composes many points of one config folder; `remember(name, make)` may keep them between runs."""

    def __init__(self, conf: Path, remember: Remember | None = None) -> None:
        self._conf = conf
        self._remember = remember or (lambda _, make: make())
        self._state = _state_of(conf)
        self._groups = {path.name for path in conf.iterdir() if path.is_dir()}
        self._files = GroupFiles(conf, self._remember)
        self._is_trusted: bool | None = None
        self._bases: dict[tuple[str, ...], _Base] = {}
        self._settings: dict[str, Setting] = {}
        self._changed: dict[tuple[int, tuple[str, ...]], Any] = {}
        self._missing: dict[int, list[str]] = {}

    def compose(self, overrides: Sequence[str]) -> Composed:
        """Compose one point; raises AssayError that names the override, the place and the fix."""
        choosing: list[str] = []
        values: dict[str, list[Setting]] = {}
        for text in overrides:
            setting = self._setting(text)
            if setting.is_plain and setting.key not in self._groups:
                values.setdefault(setting.key.split(".")[0], []).append(setting)
            else:
                choosing.append(text)
        base = self._base(tuple(choosing))
        config = None if base.interpolated else self._set_all(base.config, values)
        where = _where(base.where, [each for settings in values.values() for each in settings])
        if config is None:
            base = self._base(tuple(overrides))
            config, where = dict(base.config), base.where
        self._require_all(config, where)
        return Composed(config, base.choices, where)

    def _setting(self, text: str) -> Setting:
        if text not in self._settings:
            self._settings[text] = read_setting(text)
        return self._settings[text]

    def _base(self, overrides: tuple[str, ...]) -> _Base:
        if overrides not in self._bases:
            merged = self._merged(overrides)
            record = merged or json.loads(self._remembered(overrides))
            choices = record["choices"]
            where = {group: f"conf/{group}/{choice}.yaml" for group, choice in choices.items()}
            changed = [each for each in map(self._setting, overrides) if each.key not in self._groups]
            self._bases[overrides] = _Base(
                record["config"], choices, record["interpolated"], _where(where, changed)
            )
        return self._bases[overrides]

    def _merged(self, overrides: tuple[str, ...]) -> dict[str, Any] | None:
        """Return what Hydra would compose, None where only Hydra can tell: no plain choices of groups."""
        chosen = {each.key: each.value for each in map(self._setting, overrides) if each.is_plain}
        plain = len(chosen) == len(overrides) and all(isinstance(value, str) for value in chosen.values())
        found = self._files.merged(chosen) if plain else None
        if found is None or not self._trusts_files():
            return None
        return {"config": found[0], "choices": found[1], "interpolated": False}

    def _trusts_files(self) -> bool:
        """Say whether files and Hydra agree on the default point: a plugin may add what no file says."""
        if self._is_trusted is None:
            found = self._files.merged({})
            by_hydra = json.loads(self._remembered(())) if found else {}
            self._is_trusted = found == (by_hydra.get("config"), by_hydra.get("choices"))
        return self._is_trusted

    def _remembered(self, overrides: tuple[str, ...]) -> str:
        name = f"composed:{self._state}:{json.dumps(overrides)}:{environment(' '.join(overrides))}"
        return self._remember(name, lambda: self._plainly(overrides))

    def _set_all(
        self, config: Mapping[str, Any], values: Mapping[str, Sequence[Setting]]
    ) -> dict[str, Any] | None:
        """Return a copy with plain values set; None where one is not a plain change of a plain value."""
        changed = dict(config)
        for group, settings in values.items():
            old = config.get(group)
            memo = (id(old), tuple(setting.text for setting in settings))
            if not isinstance(old, dict):
                new = _set_values(config, settings)
                changed[group] = None if new is None else new[group]
            else:
                if memo not in self._changed:
                    self._changed[memo] = _set_values({group: old}, settings)
                new = self._changed[memo]
                changed[group] = None if new is None else new[group]
            if new is None:
                return None
        return changed

    def _require_all(self, config: Mapping[str, Any], where: Mapping[str, str]) -> None:
        missing: list[str] = []
        for group, value in config.items():
            if isinstance(value, dict):
                if id(value) not in self._missing:
                    self._missing[id(value)] = [key for key, leaf in _leaves(value) if leaf == "???"]
                missing += [f"{group}.{key}" for key in self._missing[id(value)]]
            elif value == "???":
                missing.append(group)
        if missing:
            places = [where.get(key.split(".")[0], "conf/config.yaml") for key in missing]
            lines = [
                f"{key} ({at}) is missing: set {key}=..." for key, at in zip(missing, places, strict=True)
            ]
            raise AssayError("\n".join(lines))

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
                "config": plain,
                "choices": choices,
                "interpolated": any(not is_environment(text) for _, text in interpolations(node)),
            }
        )

    def _explain(self, overrides: tuple[str, ...], error: Exception) -> str:
        first = (
            " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else str(error).splitlines()[0]
        )
        # The longest key first: the name of a group stands in the names of its settings too.
        for each in sorted(map(self._setting, overrides), key=lambda each: -len(each.key)):
            if each.key in self._groups and f"'{each.key}/{each.value}'" in str(error).replace('"', "'"):
                options = [path.stem for path in (self._conf / each.key).glob("*.yaml")]
                known = nearest(str(each.value), options)
                return f"{each.key}={each.value}: no file conf/{each.key}/{each.value}.yaml; {known}"
            if each.key in str(error) and ("Could not override" in first or "not in struct" in str(error)):
                return f"{each.text}: {self._unknown(each.key, overrides)}"
        return f"{' '.join(overrides)}: {first}"

    def _unknown(self, key: str, overrides: Sequence[str]) -> str:
        """Say which choices of a group have a setting that the chosen one lacks, else what is nearest."""
        group, _, name = key.partition(".")
        chosen = {each.key: each.value for each in map(self._setting, overrides)}
        option = chosen.get(group, self._files.defaults.get(group))
        options = self._files.options(group) if option and name else []
        having = [each for each in options if name in _dotted(self._files.file(group, each) or {})]
        if having:
            return (
                f"{group}={option} has no {name}; {', '.join(f'{group}={each}' for each in having)} have it"
            )
        known = {key for base in self._bases.values() for key in _dotted(base.config)}
        return f"unknown key {key!r}; {nearest(key, known)}"


def _state_of(conf: Path) -> str:
    """Return a hash of everything that composing depends on: config files, environment, Hydra's version."""
    digest = hashlib.sha256(f"{metadata.version('hydra-core')} {metadata.version('omegaconf')}".encode())
    for path in sorted(conf.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        digest.update(f"{path.relative_to(conf)}\0{text}\0{environment(text)}\0".encode())
    return digest.hexdigest()[:16]


def _where(where: Mapping[str, str], settings: Sequence[Setting]) -> dict[str, str]:
    """Add to the place of each group the settings that change it."""
    found = dict(where)
    for setting in settings:
        group = setting.key.split(".")[0]
        found[group] = f"{found.get(group, 'conf/config.yaml')} with {setting.text}"
    return found


def _set_values(config: Mapping[str, Any], settings: Sequence[Setting]) -> dict[str, Any] | None:
    """Return a copy of the groups that are set, with their values set; None where that is no plain change."""
    changed: dict[str, Any] = {}
    for setting in settings:
        *parents, leaf = setting.key.split(".")
        if parents and parents[0] not in changed:
            changed[parents[0]] = copy.deepcopy(config.get(parents[0]))
        node: Any = changed if parents else config
        for step in parents:
            node = node.get(step) if isinstance(node, dict) else None
        if not isinstance(node, Mapping) or leaf not in node or isinstance(node[leaf], dict | list):
            return None
        (node if isinstance(node, dict) and parents else changed)[leaf] = setting.value
    return changed


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
