"""Slices and keys: what names a stage's result."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import canonical
from pipeline.plan.accepted import Accepted
from pipeline.plan.content import file_checksum, folder_checksum, packaged_file
from pipeline.plan.fingerprint import PACKAGE, Fingerprints, source
from pipeline.plan.memory import Memory
from pipeline.plan.settings.base import Settings
from pipeline.plan.stages import Stage, lookup
from pipeline.plan.validation import Validated

Inputs = dict[str, str | list[str]]
BESIDE_WEIGHTS = ("open_clip_config.json", "tokenizer.json", "tokenizer_config.json")
OPTIONAL = ("population.parquet",)
"""Files that studies frozen by older versions do not have."""
INPUTS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
"""Writes keys as `canonical` does, for very many of them."""
AWAITED = "awaited"
"""What stands for the checksum of ratings that people have not given yet."""


@dataclass(frozen=True, slots=True)
class Job:
    """One result to be: all that its key is made of, and what its stage needs to run.

    A slice has no paths: `files` holds the checksums of what lies there. `paths`, `patterns` (which
    files of a folder count) and `speed` are no part of the key.
    """

    stage: str
    key: str
    slice: dict[str, Any]
    inputs: Inputs
    code: dict[str, str]
    libraries: dict[str, str]
    files: dict[str, str]
    paths: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, list[str]] = field(default_factory=dict)
    speed: dict[str, Any] = field(default_factory=dict)

    @property
    def upstream(self) -> Iterator[tuple[str, str]]:
        """Yield (stage, key) of every input."""
        for stage, keys in self.inputs.items():
            yield from ((stage, key) for key in ([keys] if isinstance(keys, str) else keys))


def make_key(
    stage: str, slice_: Any, inputs: Inputs, code: Mapping[str, str], libraries: Mapping[str, str], files: Any
) -> str:
    """Return `k` and 12 hex digits; the `k` keeps a key from ever reading as a number.

    They are of the canonical JSON of all arguments; `_key` puts the same text together from its parts.
    """
    return _key(_before(stage, slice_), inputs, _behind(code, libraries, files))


def _before(stage: str, slice_: Any) -> str:
    return canonical([stage, slice_])[:-1]


def _behind(code: Mapping[str, str], libraries: Mapping[str, str], files: Any) -> str:
    return canonical([code, libraries, files])[1:]


def _key(before: str, inputs: Inputs, behind: str) -> str:
    sorted_inputs = {name: keys if isinstance(keys, str) else sorted(keys) for name, keys in inputs.items()}
    text = f"{before},{INPUTS.encode(sorted_inputs)},{behind}"
    return "k" + hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution; AssayError names the fix."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise AssayError(f"the package {distribution!r} is not installed: run make install") from None


@dataclass(frozen=True)
class Part:
    """What a stage takes of a point: its slice, code, files by dotted key, and where they lie."""

    slice: dict[str, Any]
    code: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, list[str]] = field(default_factory=dict)


class Slicer:
    """Makes a stage's job from a point's config: its slice, code, versions and checksums."""

    def __init__(self, root: Path, memory: Memory, accepted: Accepted) -> None:
        self._root = root
        self._memory = memory
        self._accepted = accepted
        self._fingerprints = Fingerprints(memory.text)
        self._content: dict[str, str] = {}
        self._parts: dict[tuple[Any, ...], Part] = {}
        self._rows: dict[int, tuple[Stage, tuple[str, ...], tuple[str, ...]]] = {}
        self._jobs: dict[tuple[Any, ...], Job] = {}
        self._around: dict[tuple[str, int], tuple[Part, str, dict[str, str], str]] = {}

    def job(self, name: str, stage: Stage, point: Validated, keys: Mapping[str, str]) -> Job:
        """Return the job of a point-scope stage, made once for all points that share its groups and inputs.

        Equal groups are one object (the validator sees to it), so their identity tells, as it does for rows.
        """
        _, groups, faster = self._row(stage)
        memo = (
            id(stage),
            *_identities(point, groups),
            *_identities(point, faster),
            *map(keys.get, stage.after),
        )
        if memo not in self._jobs:
            speed = {key: lookup(point.values, key) for key in stage.speed}
            inputs: Inputs = {upstream: keys[upstream] for upstream in stage.after}
            part = self._part(name, stage, point, groups)
            self._jobs[memo] = self.finish(name, stage, part, inputs, speed)
        return self._jobs[memo]

    def finish(self, name: str, stage: Stage, part: Part, inputs: Inputs, speed: dict[str, Any]) -> Job:
        """Give the job its key."""
        _, before, libraries, behind = self._texts(name, stage, part)
        key = _key(before, inputs, behind)
        return Job(
            name, key, part.slice, inputs, part.code, libraries, part.files, part.paths, part.patterns, speed
        )

    def _texts(self, name: str, stage: Stage, part: Part) -> tuple[Part, str, dict[str, str], str]:
        """Return what stands in a key before and behind its inputs, and the libraries' versions.

        Accepted code and library changes count as their oldest member.
        """
        if (name, id(part)) not in self._around:
            libraries = {library: installed_version(library) for library in stage.libraries}
            oldest = self._accepted.oldest
            old_code = {
                module: oldest(name, "code", module, version) for module, version in part.code.items()
            }
            old_libraries = {library: oldest(name, "library", library, v) for library, v in libraries.items()}
            behind = _behind(old_code, old_libraries, part.files)
            self._around[name, id(part)] = (part, _before(name, part.slice), libraries, behind)
        return self._around[name, id(part)]

    def _row(self, stage: Stage) -> tuple[Stage, tuple[str, ...], tuple[str, ...]]:
        """Return a row, the groups that its part is made of, and those that only change its speed."""
        if id(stage) not in self._rows:
            keys = (*stage.reads, *stage.opens, *(key for key, _ in stage.variants))
            groups = dict.fromkeys(
                [*(key.split(".")[0] for key in keys), *(["crowd"] if stage.study else [])]
            )
            faster = dict.fromkeys(key.split(".")[0] for key in stage.speed)
            self._rows[id(stage)] = (stage, tuple(groups), tuple(faster))
        return self._rows[id(stage)]

    def code(self, name: str, stage: Stage, config: Mapping[str, Any], slice_: Any) -> dict[str, str]:
        """Return the fingerprint of the stage's module, of its chosen variants and of every `_target_`."""
        modules = [f"{PACKAGE}.stages.{name}"]
        modules += [f"{package}.{lookup(config, key)}" for key, package in stage.variants]
        code = {module: self._fingerprints.fingerprint(module) for module in modules}
        return code | {target: self.target(target) for target in _targets(slice_)}

    def files(self, name: str, stage: Stage) -> dict[str, str]:
        """Return the checksums of the project files that a stage reads beside its code."""
        return {file: file_checksum(self._memory, self._root / file, name) for file in stage.files}

    def target(self, target: str) -> str:
        """Return the fingerprint or version behind a `_target_`; AssayError where it has neither."""
        module = target.rpartition(".")[0]
        if source(module):
            return self._fingerprints.fingerprint(module)
        owners = metadata.packages_distributions().get(target.split(".")[0])
        if not owners:
            raise AssayError(f"_target_={target}: neither project code nor part of an installed package")
        return f"{owners[0]}=={installed_version(owners[0])}"

    def _part(self, name: str, stage: Stage, point: Validated, groups: tuple[str, ...]) -> Part:
        memo = (id(stage), *_identities(point, groups))
        if memo not in self._parts:
            self._parts[memo] = self._made(name, stage, point)
        return self._parts[memo]

    def _made(self, name: str, stage: Stage, point: Validated) -> Part:
        slice_: dict[str, Any] = {}
        part = Part(slice_, {})
        for key in (*stage.reads, *stage.opens):
            kept = self._replaced(name, key, lookup(point.values, key), stage.ignores, point.models, part)
            if key in stage.reads and kept is not None:
                slice_[key] = kept
        part.files.update(self.files(name, stage))
        self._add_study(stage, point, part)
        return replace(part, code=self.code(name, stage, point.values, slice_))

    def _add_study(self, stage: Stage, point: Validated, part: Part) -> None:
        """Add the files of a frozen study: ratings not there yet are AWAITED, OPTIONAL files may lack."""
        if not stage.study:
            return
        name = lookup(point.values, "crowd.study")
        folder = self._root / "studies" / name
        if not folder.is_dir():
            raise AssayError(
                f"crowd.study={name}: no folder {folder}; assay study freeze {name} sweep=... makes it"
            )
        for file in stage.study:
            key = f"crowd.study.{file.split('.')[0]}"
            if file in OPTIONAL and not (folder / file).is_file():
                continue
            part.paths[key] = str(folder / file)
            there = (folder / file).is_file() or file != "ratings.parquet"
            part.files[key] = file_checksum(self._memory, folder / file, key) if there else AWAITED

    def _replaced(
        self,
        stage: str,
        key: str,
        value: Any,
        ignores: tuple[str, ...],
        models: Mapping[str, Any],
        part: Part,
    ) -> Any:
        """Return `value` without paths and ignored keys; note paths and checksums in `part`."""
        if key in ignores:
            return None
        if isinstance(value, Path):
            part.paths[key] = str(value)
            self._add_content(stage, key, value, models[key.split(".")[0]], part)
            return None
        if not isinstance(value, dict):
            return value
        if value.get("source") == "file" and key.startswith(("scorer", "explainer_scorer", "model")):
            part.files.update(self._beside(key, value["path"]))
        if value.get("source") == "package":
            packaged = packaged_file(value["package"], value["file"], key)
            part.paths[f"{key}.file"] = str(packaged)
            part.files[f"{key}.file"] = file_checksum(self._memory, packaged, key)
        kept = {
            step: self._replaced(stage, f"{key}.{step}", item, ignores, models, part)
            for step, item in value.items()
            if f"{key}.{step}" not in ignores
        }
        return {step: item for step, item in kept.items() if item is not None or value[step] is None}

    def _beside(self, key: str, path: Path) -> dict[str, str]:
        """Return the checksums of the files beside weights: they set tokens and preprocessing."""
        found = [path.with_name(name) for name in BESIDE_WEIGHTS if path.with_name(name).is_file()]
        return {f"{key}.{p.name}": file_checksum(self._memory, p, key) for p in found}

    def _add_content(self, stage: str, key: str, path: Path, settings: Any, part: Part) -> None:
        """Add the checksum of what a stage reads at a path: the files its settings name, or the one file.

        Where settings name files of a folder and the path is one file, those of them without `*` that lie
        beside it count too.
        """
        content = settings.CONTENT if isinstance(settings, Settings) else {}
        name = key.split(".", 1)[-1]
        patterns = content.get(stage, {}).get(name)
        if patterns is not None and path.is_file():
            beside = [path.with_name(p) for p in patterns if "*" not in p and path.with_name(p).is_file()]
            part.files.update({f"{key}.{p.name}": file_checksum(self._memory, p, key) for p in beside})
            part.files[key] = file_checksum(self._memory, path, key)
        elif patterns is not None:
            part.patterns[key] = list(patterns)
            part.files[key] = self._once(path, patterns, key)
        elif not any(name in fields for fields in content.values()):
            part.files[key] = file_checksum(self._memory, path, key)

    def _once(self, path: Path, patterns: tuple[str, ...], key: str) -> str:
        memo = f"{path}:{patterns}"
        if memo not in self._content:
            self._content[memo] = folder_checksum(self._memory, path, patterns, key)
        return self._content[memo]


def _identities(point: Validated, groups: tuple[str, ...]) -> list[Any]:
    values = map(point.values.__getitem__, groups)
    return [id(value) if isinstance(value, dict) else value for value in values]


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        for item in node.values():
            yield from _targets(item)
    elif isinstance(node, list):
        for item in node:
            yield from _targets(item)
