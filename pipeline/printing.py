"""What the command line prints about plans and results."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.errors import AssayError
from pipeline.plan.accepted import Accepted
from pipeline.plan.project import Project
from pipeline.plan.shared import open_store
from pipeline.plan.stages import STAGES
from pipeline.plan.store import Store
from pipeline.plan.workflow import Prepared

STATES = ("fresh", "stale", "missing", "waiting")
MAX_REASONS = 12


def print_plan(prepared: Prepared) -> None:
    """Print a row a stage with its counts, then why stale ones are stale."""
    build, status = prepared.build, prepared.status
    table = Table(title=f"sweep {build.name}: {len(build.points)} points", title_justify="left")
    table.add_column("stage")
    for name in ("total", *STATES):
        table.add_column(name, justify="right")
    counts = status.counts()
    for stage in (name for name in STAGES if name in counts):
        row = counts[stage]
        table.add_row(stage, str(row["total"]), *(str(row[name]) if row[name] else "" for name in STATES))
    console = Console()
    console.print(table)
    _print_reasons(console, prepared)
    for line in _answer_costs(prepared):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for path in dict.fromkeys(status.waiting_for.values()):
        console.print(
            f"waiting for the ratings of people: {how_to_give(path)}", highlight=False, soft_wrap=True
        )


def _answer_costs(prepared: Prepared) -> Iterator[str]:
    """Yield what the answers of vision-language models that are still to be asked would cost."""
    to_run = {*prepared.status.to_run}
    asking = {p.keys["responses"]: p for p in prepared.build.points if "responses" in p.keys}
    for key, point in asking.items():
        if ("responses", key) in to_run:
            from pipeline.llm.planning import plan_text

            unit = point.values["unit"]
            n_units = unit["n"] if unit["indices"] is None else len(unit["indices"])
            yield plan_text(point.values["explainer"], n_units)


def how_to_give(path: str) -> str:
    """Say which command puts a study's ratings where they are expected."""
    return f"assay ingest FILE... --study {Path(path).parent.name} makes {path}"


def _print_reasons(console: Console, prepared: Prepared) -> None:
    reasons: dict[tuple[str, str], int] = {}
    for (stage, _), reason in prepared.status.reasons.items():
        reasons[stage, reason] = reasons.get((stage, reason), 0) + 1
    for (stage, reason), count in list(reasons.items())[:MAX_REASONS]:
        console.print(f"stale: {stage} x{count}: {reason}", highlight=False, soft_wrap=True, markup=False)
    if len(reasons) > MAX_REASONS:
        console.print(f"... and {len(reasons) - MAX_REASONS} more reasons (--json for counts)")


def print_result(project: Project, key: str) -> None:
    """Print what a result is, from what it came, and what it holds."""
    store = open_store(project)
    stage, name = find_result(store, key)
    meta, where = store.meta(stage, name), store.where(stage, name)
    if meta is None:
        raise AssayError(f"{where}/meta.json cannot be read: assay verify moves the result aside")
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{stage}/{name}[/bold]  {where}")
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(meta["started"]))
    peak = meta["peak_memory_bytes"] / 1e6
    machine = f"{meta['machine']}, Python {meta['python']}"
    console.print(f"made {made} in {meta['seconds']:.1f} s, peak memory {peak:.0f} MB, on {machine}")
    later = [
        f"{entry.component} {entry.new} counts as {entry.old}"
        for entry in Accepted(project.accepted).entries
        if entry.stage == meta["stage"] and entry.old in (*meta["code"].values(), *meta["libraries"].values())
    ]
    for title, content in [*_sections(meta), *([("assay accept", later)] if later else [])]:
        console.print(f"[bold]{title}[/bold]")
        for line in content or ["(none)"]:
            console.print(f"  {line}", markup=False)


def _sections(meta: dict[str, Any]) -> list[tuple[str, list[str]]]:
    flat = json.dumps(meta["slice"], indent=1, ensure_ascii=False).splitlines()[1:-1]
    outputs = [
        f"{name}  {facts['size']} bytes  {facts['sha256'][:12]}" for name, facts in meta["outputs"].items()
    ]
    versions = [f"{name} {version}" for name, version in {**meta["code"], **meta["libraries"]}.items()]
    sections = [
        ("settings", [line.strip().rstrip(",") for line in flat]),
        ("files", [f"{name} {checksum[:12]}" for name, checksum in meta["files"].items()]),
        ("made from", list(meta["inputs"])),
        ("code and libraries", versions),
        ("holds", outputs),
        ("notes", meta["notes"]),
    ]
    if meta["accepted"]:
        sections.append(("counts as an older version by assay accept", meta["accepted"]))
    return sections


def find_result(store: Store, key: str) -> tuple[str, str]:
    """Return (stage, key) of the one result whose key starts with `key`; AssayError otherwise."""
    name = key.rsplit("/", 1)[-1]
    if not re.fullmatch("k[0-9a-f]{1,12}", name):
        raise AssayError(f"{key!r} is no key: a key is k and 12 hex digits, or their beginning")
    found = [(stage, full) for stage, full in store.all() if full.startswith(name)]
    found = [each for each in found if store.has_meta(*each)]
    if not found:
        raise AssayError(f"no result {key!r} in {store.home}: points.csv of a sweep lists the keys")
    if len(found) > 1:
        raise AssayError(f"{key!r} fits {len(found)} results: {', '.join(map('/'.join, found[:5]))}")
    return found[0]
