"""From a sweep file and the command line to points, by Hydra's own override grammar."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException

from pipeline.errors import AssayError
from pipeline.plan.validation import nearest

Point = tuple[str, ...]
NAME = r"\w[\w.-]*"


@dataclass(frozen=True)
class Sweep:
    """A named list of points; each point is a tuple of Hydra overrides."""

    name: str
    points: tuple[Point, ...]


def sweep_names(conf: Path) -> list[str]:
    """List the named sweeps, sorted."""
    return sorted(path.stem for path in (conf / "sweep").glob("*.yaml"))


def read_blocks(conf: Path, name: str) -> list[list[str]]:
    """Read conf/sweep/NAME.yaml: a list of blocks, each a list of override strings."""
    _require_name(name)
    path = conf / "sweep" / f"{name}.yaml"
    if not path.is_file():
        raise AssayError(f"sweep={name}: no file {path}; {nearest(name, sweep_names(conf))}")
    try:
        blocks = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise AssayError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    good = isinstance(blocks, list) and blocks and all(isinstance(block, list) for block in blocks)
    if not good or not all(isinstance(item, str) for block in blocks for item in block):
        raise AssayError(
            f"{path}: a sweep is a list of blocks, and a block is a list of overrides such as 'layer=a,b'"
        )
    for block in blocks:
        _refuse_doubles(block, str(path))
    return [list(block) for block in blocks]


def _require_name(name: str) -> None:
    """Refuse what is no plain file name: results/sweeps/ has a folder of this name."""
    if not re.fullmatch(NAME, name):
        raise AssayError(
            f"sweep={name!r}: a sweep's name is letters, digits, '.', '_' and '-', "
            "with a letter, a digit or '_' first"
        )


def _refuse_doubles(overrides: Sequence[str], where: str) -> None:
    counts = Counter(override.key_or_group for override in parse(overrides))
    if doubles := [key for key, count in counts.items() if count > 1]:
        raise AssayError(f"{where}: {doubles[0]} is given twice; write {doubles[0]}=a,b for several values")


def parse(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides; AssayError names the one that is no override."""
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        try:
            parsed.append(parser.parse_override(text))
            if not parsed[-1].key_or_group:
                raise ValueError("it has no key")
        except (HydraException, ValueError) as error:
            raise AssayError(
                f"{text!r} is no override (write key=value, or key=a,b for several): {error}"
            ) from None
    return parsed


@dataclass(frozen=True, slots=True)
class Setting:
    """An override as the planner needs it; `is_plain`: it sets or chooses one plain value, `value`."""

    text: str
    key: str
    value: Any
    is_plain: bool


WORD = "[A-Za-z_][A-Za-z0-9_]*"
NUMBER = r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?(e-?[0-9]+)?"
PLAIN = re.compile(rf"({WORD}(?:\.{WORD})*)=(?:({NUMBER})|({WORD}))")
"""Overrides that need no grammar: 20,000 points may have 20,000 of them."""
WORDS = {"true", "false", "null", "nan", "inf"}
"""Words that are values of another type than text, in any case."""


def read_setting(text: str) -> Setting:
    """Read one override, by Hydra's grammar unless it is very plain; AssayError where it is none."""
    found = PLAIN.fullmatch(text)
    if found is None or (found[5] and found[5].lower() in WORDS):
        return _by_grammar(text)
    number = (float if found[3] or found[4] else int)(found[2]) if found[2] else found[5]
    return Setting(text, found[1], number, True)


def _by_grammar(text: str) -> Setting:
    (override,) = parse([text])
    value = override.value() if override.type is OverrideType.CHANGE else None
    is_plain = (
        override.type is OverrideType.CHANGE
        and override.package is None
        and (value is None or isinstance(value, str | int | float | bool))
        and "${" not in str(value)
    )
    return Setting(text, override.key_or_group, value, is_plain)


def replace(block: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Put the command line's overrides onto a block: the same key is replaced, others are added."""
    keys = {override.key_or_group for override in parse(overrides)}
    kept = [
        text for text, override in zip(block, parse(block), strict=True) if override.key_or_group not in keys
    ]
    return [*kept, *overrides]


def expand(overrides: Sequence[str]) -> list[Point]:
    """Expand one block to its points: the cartesian product, in Hydra's order."""
    try:
        (batch,) = BasicSweeper.split_arguments(parse(overrides), max_batch_size=None)
    except HydraException as error:
        raise AssayError(f"{' '.join(overrides)}: {error}") from None
    return [tuple(point) for point in batch]


def expand_sweep(conf: Path, name: str, overrides: Sequence[str]) -> Sweep:
    """Return the union of a named sweep's points, doubles removed, first appearance first."""
    _refuse_doubles(overrides, "the command line")
    blocks = [replace(block, overrides) for block in read_blocks(conf, name)]
    points = dict.fromkeys(point for block in blocks for point in expand(block))
    return Sweep(name, tuple(points))
