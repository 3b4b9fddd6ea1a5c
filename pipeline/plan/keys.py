"""Slices and keys: what names a stage's result."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
from pipeline.plan.schema import Settings
from pipeline.plan.stages import Stage, lookup
from pipeline.plan.validation import Validated

Inputs = dict[str, str | list[str]]
SCORER_FILES = ("open_clip_config.json", "tokenizer.json", "tokenizer_config.json")
AWAITED = "awaited"
"""What stands for the checksum of ratings that people have not given yet."""


@dataclass(frozen=True)
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
    """Return `k` and 12 hex digits; the `k` keeps a key from ever reading as a number."""
    sorted_inputs = {name: keys if isinstance(keys, str) else sorted(keys) for name, keys in inputs.items()}
    text = canonical([stage, slice_, sorted_inputs, code, libraries, files])
    return "k" + hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution; AssayError names the fix."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise AssayError(f"the package {distribution!r} is not installed: run make install") from None


class Slicer:
    """Makes a stage's job from a point's config: its slice, code, versions and checksums."""

    def __init__(self, root: Path, memory: Memory, accepted: Accepted) -> None:
        self._root = root
        self._memory = memory
        self._accepted = accepted
        self._fingerprints = Fingerprints(memory.text)
        self._content: dict[str, str] = {}
        self._patterns: dict[tuple[str, str], tuple[str, ...]] = {}
        self._slices: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]] = {}

    def job(self, name: str, stage: Stage, point: Validated, inputs: Inputs) -> Job:
        """Return the job of a point-scope stage."""
        slice_, paths, files = self._sliced(name, stage, point)
        code = self.code(name, stage, point.values, slice_)
        return self.finish(name, stage, slice_, inputs, code, files, paths, self._speed(stage, point))

    def finish(
        self,
        name: str,
        stage: Stage,
        slice_: dict[str, Any],
        inputs: Inputs,
        code: dict[str, str],
        files: dict[str, str],
        paths: dict[str, str],
        speed: dict[str, Any],
    ) -> Job:
        """Give the job its key; accepted code and library changes count as their oldest member."""
        libraries = {library: installed_version(library) for library in stage.libraries}
        oldest_code = {module: self._accepted.oldest(name, "code", module, fp) for module, fp in code.items()}
        oldest_libraries = {
            library: self._accepted.oldest(name, "library", library, version)
            for library, version in libraries.items()
        }
        key = make_key(name, slice_, inputs, oldest_code, oldest_libraries, files)
        patterns = {key: list(self._patterns[name, key]) for key in files if (name, key) in self._patterns}
        return Job(name, key, slice_, inputs, code, libraries, files, paths, patterns, speed)

    def code(self, name: str, stage: Stage, config: Mapping[str, Any], slice_: Any) -> dict[str, str]:
        """Return the fingerprint of the stage's module, of its chosen variants and of every `_target_`."""
        modules = [f"{PACKAGE}.stages.{name}"]
        modules += [f"{package}.{lookup(config, key)}" for key, package in stage.variants]
        code = {module: self._fingerprints.fingerprint(module) for module in modules}
        return code | {target: self.target(target) for target in _targets(slice_)}

    def current(self, module: str) -> str | None:
        """Return a module's fingerprint as the code stands, None where the module is gone."""
        return self._fingerprints.fingerprint(module) if source(module) else None

    def target(self, target: str) -> str:
        """Return the fingerprint or version behind a `_target_`; AssayError where it has neither."""
        module = target.rpartition(".")[0]
        if source(module):
            return self._fingerprints.fingerprint(module)
        owners = metadata.packages_distributions().get(target.split(".")[0])
        if not owners:
            raise AssayError(f"_target_={target}: neither project code nor part of an installed package")
        return f"{owners[0]}=={installed_version(owners[0])}"

    def _speed(self, stage: Stage, point: Validated) -> dict[str, Any]:
        return {key: lookup(point.values, key) for key in stage.speed}

    def _sliced(
        self, name: str, stage: Stage, point: Validated
    ) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
        read = {key: lookup(point.values, key) for key in stage.reads}
        opened = {key: lookup(point.values, key) for key in stage.opens}
        study = lookup(point.values, "crowd.study") if stage.study else None
        memo = f"{name}:{canonical([_text(read), _text(opened), stage.ignores, study])}"
        if memo not in self._slices:
            slice_: dict[str, Any] = {}
            paths: dict[str, str] = {}
            files: dict[str, str] = {}
            for key, value in (*read.items(), *opened.items()):
                kept = self._replaced(name, key, value, stage.ignores, point.models, paths, files)
                if key in read and kept is not None:
                    slice_[key] = kept
            files |= {file: file_checksum(self._memory, self._root / file, name) for file in stage.files}
            self._add_study(stage, point, paths, files)
            self._slices[memo] = (slice_, paths, files)
        return self._slices[memo]

    def _add_study(
        self, stage: Stage, point: Validated, paths: dict[str, str], files: dict[str, str]
    ) -> None:
        """Add the files of a frozen study; ratings that are not there yet are AWAITED."""
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
            paths[key] = str(folder / file)
            there = (folder / file).is_file() or file != "ratings.parquet"
            files[key] = file_checksum(self._memory, folder / file, key) if there else AWAITED

    def _replaced(
        self,
        stage: str,
        key: str,
        value: Any,
        ignores: tuple[str, ...],
        models: Mapping[str, Any],
        paths: dict[str, str],
        files: dict[str, str],
    ) -> Any:
        """Return `value` without paths and ignored keys; fill `paths` and `files` by dotted key."""
        if key in ignores:
            return None
        if isinstance(value, Path):
            paths[key] = str(value)
            checksum = self._checksum(stage, key, value, models[key.split(".")[0]])
            if checksum:
                files[key] = checksum
            return None
        if not isinstance(value, dict):
            return value
        if value.get("source") == "file" and key.startswith("scorer"):
            files |= self._beside(key, value["path"])
        if value.get("source") == "package":
            packaged = packaged_file(value["package"], value["file"], key)
            paths[f"{key}.file"] = str(packaged)
            files[f"{key}.file"] = file_checksum(self._memory, packaged, key)
        kept = {
            step: self._replaced(stage, f"{key}.{step}", item, ignores, models, paths, files)
            for step, item in value.items()
        }
        return {step: item for step, item in kept.items() if item is not None or value[step] is None}

    def _beside(self, key: str, path: Path) -> dict[str, str]:
        """Return the checksums of a scorer's files beside its weights: they set tokens and preprocessing."""
        found = [path.with_name(name) for name in SCORER_FILES if path.with_name(name).is_file()]
        return {f"{key}.{p.name}": file_checksum(self._memory, p, key) for p in found}

    def _checksum(self, stage: str, key: str, path: Path, settings: Any) -> str | None:
        content = settings.CONTENT if isinstance(settings, Settings) else {}
        field_name = key.split(".", 1)[1] if "." in key else key
        memo = f"{stage}:{key}:{path}"
        if any(field_name in fields for fields in content.values()):
            patterns = content.get(stage, {}).get(field_name)
            if patterns is None:
                return None
            self._patterns[stage, key] = patterns
            if memo not in self._content:
                self._content[memo] = folder_checksum(self._memory, path, patterns, key)
        elif memo not in self._content:
            self._content[memo] = file_checksum(self._memory, path, key)
        return self._content[memo]


def _text(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _text(item) for key, item in value.items()}
    return value


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        for item in node.values():
            yield from _targets(item)
    elif isinstance(node, list):
        for item in node:
            yield from _targets(item)
