"""The way in for the command line, Snakemake and Hydra's launcher: plan, hand over, finish."""

import gc
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import read_json, replacing
from pipeline.plan.accepted import Accepted
from pipeline.plan.batches import Plan, read_plan, write_compact, write_plan
from pipeline.plan.memory import Memory
from pipeline.plan.points import EXPLAINER, Build, PlannedPoint, build_points
from pipeline.plan.points_table import POINTS, write_points
from pipeline.plan.project import Project, find_project
from pipeline.plan.resources import write_requests
from pipeline.plan.shared import open_store
from pipeline.plan.stages import SWEEP_ENDS
from pipeline.plan.state import Status, assess
from pipeline.plan.store import Store
from pipeline.plan.sweep import Sweep, expand_sweep

KEEP_PLANS = 7 * 24 * 3600
"""Seconds: plan files and logs of older runs go."""


@dataclass(frozen=True)
class Prepared:
    """A sweep, planned and judged against what is there."""

    project: Project
    build: Build
    store: Store
    status: Status


def prepare(project: Project, sweep: Sweep) -> Prepared:
    """Plan a sweep and judge its results; nothing is written but the planner's memory."""
    if not sweep.points:
        raise AssayError(f"sweep={sweep.name} has no points")
    accepted = Accepted(project.accepted)
    store = open_store(project)
    with no_collection(), closing(Memory(project.memory)) as memory:
        build = build_points(project, sweep, memory, accepted)
        store.survey(build.jobs)
        return Prepared(project, build, store, assess(build, store, accepted))


@contextmanager
def no_collection() -> Iterator[None]:
    """Let Python look for no cycles meanwhile: a plan makes millions of objects and no cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def share(prepared: Prepared) -> None:
    """Put what is here alone, and fresh, where other machines find it: into the bucket, if there is one."""
    fresh = [job for job, state in prepared.status.states.items() if state == "fresh"]
    if shared := prepared.store.share(fresh):
        print(f"{shared} results that were here alone are now in {prepared.store.home}")


def hand_over(prepared: Prepared, dry_run: bool = False) -> Plan:
    """Write the plan file of what must run; but for a dry run, move damaged results aside before."""
    if not dry_run:
        prepared.store.require_writable()
        share(prepared)
    damaged = {} if dry_run else prepared.status.damaged
    for (stage, key), damage in damaged.items():
        moved = prepared.store.quarantine(stage, key)
        print(f"damaged: {stage}/{key}: {damage}; moved to {moved}")
    _forget_old_plans(prepared.project)
    plan = write_plan(prepared.project, prepared.build, prepared.status.to_run)
    write_compact(plan.folder / "sweep.json", sweep_record(prepared.build))
    write_requests(plan, prepared.build, prepared.store)
    shutil.rmtree(plan.folder / "failures", ignore_errors=True)
    for marker in plan.markers:
        Path(marker).unlink(missing_ok=True)
    return plan


def _forget_old_plans(project: Project) -> None:
    for path in project.plans.glob("*.json"):
        if time.time() - path.stat().st_mtime > KEEP_PLANS:
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink(missing_ok=True)


def _explainer(point: PlannedPoint) -> dict[str, str]:
    """Return who explains and with which settings, where the point has an explainer."""
    if not {"explanations", "attributions"} & point.keys.keys():
        return {}
    return {"explainer": point.choices[EXPLAINER[point.values["track"]]], "variant": point.variant}


def sweep_record(build: Build) -> dict[str, Any]:
    """Return what the end of a run needs to know of a sweep."""
    rows = [
        {
            **p.factors,
            **_explainer(p),
            "overrides": " ".join(p.overrides),
        }
        | {f"{stage}_key": key for stage, key in (p.keys | build.sweep_keys).items()}
        for p in build.points
    ]
    shown = SWEEP_ENDS[build.points[0].values["track"]][0]
    return {"name": build.name, "shown": shown, "sweep_keys": build.sweep_keys, "points": rows}


def plan_for(config: Mapping[str, Any], dry_run: bool) -> Plan:
    """Return the plan that a Snakefile's config names, or make one for its `sweep`.

    `--config plan=FILE` reads a plan; `--config sweep=NAME set="key=value ..."` plans here.
    """
    if "plan" in config:
        return read_plan(Path(config["plan"]))
    if "sweep" not in config:
        raise AssayError("give the sweep: snakemake --config sweep=NAME, or use assay run sweep=NAME")
    project = find_project(Path.cwd())
    overrides = str(config.get("set", "")).split()
    prepared = prepare(project, expand_sweep(project.conf, str(config["sweep"]), overrides))
    return hand_over(prepared, dry_run)


def failures(plan: Plan) -> list[dict[str, str]]:
    """Return what failed in a run: stage, key and message."""
    return [read_json(path) for path in sorted((plan.folder / "failures").glob("*.json"))]


def finish(plan: Plan) -> None:
    """Publish a sweep's folder; raises AssayError that holds the message of everything that failed."""
    project = find_project(plan.path.parent)
    record = read_json(plan.folder / "sweep.json")
    publish_sweep(project, record)
    if failed := failures(plan):
        raise AssayError("\n".join(f"{row['stage']}/{row['key']}: {row['message']}" for row in failed))


def publish_sweep(project: Project, record: Mapping[str, Any]) -> Path | None:
    """Write `results/sweeps/<name>/<key>/` for people and point `latest` at it.

    Returns the folder, None where the comparison is not there yet (raters are awaited, or a stage failed).
    """
    key = record["sweep_keys"][record["shown"]]
    store = open_store(project)
    if not store.exists(record["shown"], key):
        return None
    home = project.results / "sweeps" / str(record["name"])
    target = home / str(key)
    target.mkdir(parents=True, exist_ok=True)
    pages = [path for path in _written(store, "report", record["sweep_keys"]["report"]) if _is_page(path)]
    for path in [*_written(store, record["shown"], key), *pages]:
        if path.suffix in (".csv", ".txt", ".png", ".svg", ".html"):
            with replacing(target / path.name) as temporary:
                shutil.copyfile(path, temporary)
    write_points(target / POINTS, record["points"])
    _point_latest(home, key)
    return target


def _written(store: Store, stage: str, key: str) -> list[Path]:
    """Return the files that a stage wrote; what else lies in its folder is not published."""
    folder, meta = store.folder(stage, key), store.meta(stage, key)
    return (
        [path for name in sorted(meta["outputs"]) if (path := folder / name).parent == folder] if meta else []
    )


def _is_page(path: Path) -> bool:
    return path.suffix == ".html"


def _point_latest(home: Path, key: str) -> None:
    with replacing(home / "latest") as temporary:
        temporary.symlink_to(key, target_is_directory=True)
