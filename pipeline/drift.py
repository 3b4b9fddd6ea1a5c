"""Say where a sweep's settings are not those that a frozen study was drawn with."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.files import read_json
from pipeline.plan.points import PlannedPoint
from pipeline.plan.project import Project
from pipeline.plan.stages import ENDPOINT, units_stage
from pipeline.stages.place import part_of

IGNORED = ("dataset.labels", "dataset.on_bad_image", *ENDPOINT)


def drawn_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return, by dotted key, whose activations, images and texts a part is about; paths are left out."""
    groups = ("dataset", "model", "evaluation", *(("sae",) if units_stage(values) == "latents" else ()))
    flat = dict(_flat({name: values[name] for name in (*groups, "explainer")}))
    return {key: value for key, value in flat.items() if not key.startswith(IGNORED)}


def drift_notes(project: Project, points: list[PlannedPoint]) -> Iterator[str]:
    """Yield a note for each part of a study that was drawn with other settings than its point now has."""
    for point in points:
        name = point.values["crowd"].get("study")
        if not name or point.values["scoring"]["name"] != "crowd":
            continue
        part = part_of(point.values)
        facts = read_json(project.studies / name / "facts.json")["parts"].get(part, {})
        drawn, now = facts.get("settings", {}), drawn_settings(point.values)
        changed = [f"{key}={drawn[key]}, now {now.get(key)}" for key in drawn if now.get(key) != drawn[key]]
        if changed:
            yield f"study {name}, {part}: drawn with {'; '.join(changed)}; scores are about what was drawn"


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for step, item in value.items():
            yield from _flat(item, f"{key}.{step}" if key else step)
    elif not isinstance(value, Path):
        yield key, list(value) if isinstance(value, tuple) else value
