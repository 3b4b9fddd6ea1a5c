"""What a sweep's report is made of: tables, figures and settings, as they were published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.report.vlm_sheets import Sheet

CONFIDENCE = 0.95
"""Of intervals, where the facts do not tell."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep: its factors, who explains, its overrides, its settings and its keys by stage.

    methods: the names that a table may have for it: by the config, and by the settings of the explainer.
    """

    factors: Mapping[str, str]
    explainer: str
    variant: str
    overrides: str
    keys: Mapping[str, str]
    settings: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The explainer with its variant, "" without one."""
        return _with_variant(self.explainer, self.variant)

    @property
    def methods(self) -> set[str]:
        """Every name under which a table may know the point's method."""
        told = self.settings.get("explainer") or {}
        names = {self.explainer, str(told.get("method") or ""), str(told.get("name") or "")} - {""}
        return {_with_variant(name, self.variant) for name in names}


@dataclass(frozen=True)
class ReportInputs:
    """Everything that a report shows.

    track: "crowd", "sae" or "vlm". key: of the comparison that made the tables. tables and figures (SVG): by
    name, as the comparison writes them; an absent one is said to be absent. facts: its facts.json. points:
    dicts with `factors`, and where they exist `explainer`, `variant`, `overrides` (text or words) and `keys`
    (by stage); without `explainer` the settings name it. settings: each point's resolved config in the same
    order, or none at all. gallery: images of units (the factors, unit, kind "top" or "random", rank,
    image_id, activation, jpeg). sheets: of samples. notes: sentences for the reader.
    """

    track: str
    sweep: str
    key: str
    tables: Mapping[str, pd.DataFrame]
    figures: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ()
    settings: Sequence[Mapping[str, Any]] = ()
    gallery: pd.DataFrame | None = None
    sheets: Sequence[Sheet] = ()
    notes: Sequence[str] = ()

    @cached_property
    def planned(self) -> list[Point]:
        """The points with their settings."""
        told = [*self.settings, *[{} for _ in self.points[len(self.settings) :]]]
        return [_point(row, settings) for row, settings in zip(self.points, told, strict=False)]

    @property
    def factors(self) -> list[str]:
        """The names of the factors that tables may have as columns."""
        listed = self.facts.get("factors")
        found = listed if listed is not None else [name for p in self.planned for name in p.factors]
        return list(dict.fromkeys(map(str, found)))

    @property
    def confidence(self) -> float:
        """The level of all intervals."""
        return float(self.facts.get("confidence", CONFIDENCE))

    def table(self, name: str) -> pd.DataFrame:
        """Return a table, an empty one where there is none."""
        return self.tables.get(name, pd.DataFrame())


def _point(row: Mapping[str, Any], settings: Mapping[str, Any]) -> Point:
    overrides = row.get("overrides") or ""
    told = settings or row.get("settings") or {}
    of_explainer = told.get("explainer") or {}
    return Point(
        factors={str(name): str(value) for name, value in (row.get("factors") or {}).items()},
        explainer=str(row.get("explainer") or of_explainer.get("method") or of_explainer.get("name") or ""),
        variant=str(row.get("variant") or ""),
        overrides=overrides if isinstance(overrides, str) else " ".join(map(str, overrides)),
        keys={str(stage): str(key) for stage, key in (row.get("keys") or {}).items() if key},
        settings=told,
    )


def _with_variant(name: str, variant: str) -> str:
    return f"{name} ({variant})" if name and variant else name or variant
