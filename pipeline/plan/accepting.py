"""`assay accept`: find what changed since a stage's newest results, and take it for the same."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pipeline.errors import AssayError
from pipeline.plan.accepted import Acceptance, Accepted
from pipeline.plan.fingerprint import Fingerprints, source
from pipeline.plan.project import Project
from pipeline.plan.shared import open_store
from pipeline.plan.stages import STAGES

FIELDS = {"code": "code", "library": "libraries"}


def accept_changes(project: Project, stage: str, kind: str) -> list[Acceptance]:
    """Accept for `stage` every component whose version differs from that of its newest result.

    Raises AssayError for an unknown stage and where nothing changed.
    """
    _require_stage(stage)
    accepted = Accepted(project.accepted)
    newest = _newest(project, stage, FIELDS[kind])
    current = {component: _current(kind, component) for component in newest}
    entries = [
        Acceptance(stage, kind, component, old, now)
        for component, old in sorted(newest.items())
        if (now := current[component]) is not None
        and accepted.oldest(stage, kind, component, now) != accepted.oldest(stage, kind, component, old)
    ]
    if not entries:
        raise AssayError(
            f"no {kind} change to accept for {stage}: its newest results were made with what is here now"
        )
    accepted.add(entries)
    return entries


def undo_changes(project: Project, stage: str, kind: str) -> list[Acceptance]:
    """Take back what was accepted for a stage; raises AssayError where nothing was."""
    _require_stage(stage)
    taken = Accepted(project.accepted).undo(stage, kind)
    if not taken:
        raise AssayError(f"nothing was accepted for {stage} ({kind})")
    return taken


def _require_stage(stage: str) -> None:
    if stage not in STAGES:
        raise AssayError(f"no stage {stage!r}; stages are {', '.join(STAGES)}")


def _newest(project: Project, stage: str, field: str) -> dict[str, str]:
    """Return each component's version in the newest result that names it."""
    store = open_store(project)
    metas: list[Mapping[str, Any]] = [m for key in store.keys(stage) if (m := store.meta(stage, key))]
    newest: dict[str, str] = {}
    for meta in sorted(metas, key=lambda m: m["started"]):
        newest |= meta[field]
    return newest


def _current(kind: str, component: str) -> str | None:
    if kind == "code":
        return Fingerprints().fingerprint(component) if source(component) else None
    try:
        return metadata.version(component)
    except metadata.PackageNotFoundError:
        return None
