"""Which files of a user's stand behind results: settings have no paths, so checksums tell them apart."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from pipeline.lineages import Settings
from pipeline.plan.points_table import read_points
from pipeline.plan.project import Project
from pipeline.plan.store import Store
from pipeline.run_roots import NEXT_OVERRIDE

N_DIGITS = 6
NAMELESS = "file"
GROWING = "crowd.study."
"""Files of a frozen study, whose ratings go on arriving: a result of fewer of them is an older one."""


class ResultFiles:
    """Tells files by their names and the first digits of their checksums."""

    def __init__(self, project: Project, store: Store) -> None:
        self._project, self._store = project, store

    def settings(self, lineage: Mapping[str, str]) -> Settings:
        """Return for the keys of a lineage's files "names.csv 1328ae"; "file 1328ae" where no run has a name.

        Equal files are told equally whichever result they belong to.
        """
        return {
            key: f"{self._names.get((key, checksum), NAMELESS)} {checksum[:N_DIGITS]}"
            for stage, result in lineage.items()
            for key, checksum in self._checksums(stage, result).items()
        }

    def _checksums(self, stage: str, result: str) -> dict[str, str]:
        files = (self._store.meta(stage, result) or {}).get("files", {})
        return {key: str(checksum) for key, checksum in files.items() if not key.startswith(GROWING)}

    @cached_property
    def _names(self) -> dict[tuple[str, str], str]:
        """The names of files by key and checksum, as the overrides of the newest run say."""
        found: dict[tuple[str, str], str] = {}
        for row in self._rows():
            named = dict(_named(row.get("overrides") or ""))
            results = {
                name.removesuffix("_key"): key for name, key in row.items() if name.endswith("_key") and key
            }
            for stage, result in results.items() if named else ():
                for key, checksum in self._checksums(stage, result).items():
                    if key in named:
                        found.setdefault((key, checksum), named[key])
        return found

    def _rows(self) -> Iterator[dict[str, str]]:
        tables = (self._project.results / "sweeps").glob("*/k*/points.csv")
        for path in sorted(tables, key=lambda path: -path.stat().st_mtime):
            yield from read_points(path)


def _named(overrides: str) -> Iterator[tuple[str, str]]:
    """Yield key and file name of each override of one setting."""
    for text in NEXT_OVERRIDE.split(overrides):
        key, _, value = text.lstrip("+").partition("=")
        if "." in key and (name := Path(value.strip("'\" ")).name):
            yield key, name
