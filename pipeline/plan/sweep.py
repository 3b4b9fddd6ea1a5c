"""From a sweep file and the command line to points, by Hydra's own override grammar."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
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
