"""Code and library changes that a person has said change no result (`assay accept`)."""

from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.files import read_json, write_json


@dataclass(frozen=True)
class Acceptance:
    """`new` counts as `old` for a component (module or library) of a stage."""

    stage: str
    kind: str
    component: str
    old: str
    new: str


class Accepted:
    """The list in accepted.json; a key uses the oldest member of a class of equal versions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Acceptance] = _read(path) if path.is_file() else []

    def oldest(self, stage: str, kind: str, component: str, version: str) -> str:
        """Follow new -> old to the oldest; a version that was never accepted is its own."""
        steps = {
            e.new: e.old for e in self.entries if (e.stage, e.kind, e.component) == (stage, kind, component)
        }
        while version in steps:
            version = steps.pop(version)
        return version

    def used(self, stage: str, kind: str, component: str, version: str) -> bool:
        """Say whether `version` is taken for an older one."""
        return self.oldest(stage, kind, component, version) != version

    def add(self, entries: list[Acceptance]) -> None:
        """Append entries and write the file."""
        self.entries += [entry for entry in entries if entry not in self.entries]
        self._write()

    def undo(self, stage: str, kind: str) -> list[Acceptance]:
        """Take back all entries of a stage and kind; return them."""
        taken = [entry for entry in self.entries if (entry.stage, entry.kind) == (stage, kind)]
        self.entries = [entry for entry in self.entries if entry not in taken]
        if taken:
            self._write()
        return taken

    def _write(self) -> None:
        write_json(self.path, [asdict(entry) for entry in self.entries])


def _read(path: Path) -> list[Acceptance]:
    try:
        rows = read_json(path)
        if not isinstance(rows, list):
            raise TypeError("not a list")
        return [Acceptance(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise AssayError(
            f"{path} cannot be read ({error}): take it from git, or delete it and accept again"
        ) from None
