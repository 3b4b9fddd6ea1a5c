"""Freeze a study: what people are asked and paid to rate outlives every key."""

import shutil
from pathlib import Path
from uuid import uuid4

import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import read_json, write_json
from pipeline.plan.workflow import Prepared
from pipeline.stages.sampling import part_of


def freeze_study(prepared: Prepared, name: str) -> Path:
    """Copy a sweep's draws, q, weights, tasks and image checksums to `studies/<name>/`.

    Raises AssayError where the study exists (a study never changes), where a draw is not there yet,
    or where two points would be the same part of it.
    """
    folder = prepared.project.studies / name
    if folder.exists():
        raise AssayError(f"studies/{name} exists and a study never changes: freeze under another name")
    parts = _parts(prepared)
    hidden = folder.with_name(f".{name}.{uuid4().hex[:8]}")
    hidden.mkdir(parents=True)
    try:
        _write(parts, hidden)
        hidden.rename(folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return folder


def _parts(prepared: Prepared) -> dict[str, tuple[Path, Path]]:
    """Return for each part the folders of its draws and of its images."""
    parts: dict[str, tuple[Path, Path]] = {}
    for point in prepared.build.points:
        part, keys = part_of(point.values), point.keys
        if "sampling" not in keys or "images" not in keys:
            raise AssayError(
                f"the point {' '.join(point.overrides)} draws no images: freeze a sweep with scoring=crowd"
            )
        here = (
            prepared.project.result("sampling", keys["sampling"]),
            prepared.project.result("images", keys["images"]),
        )
        if parts.get(part, here) != here:
            raise AssayError(
                f"two points of the sweep are the part {part} of the study; freeze them as two studies"
            )
        if not (here[0] / "meta.json").is_file():
            raise AssayError(f"sampling/{keys['sampling']} is not there yet: run the sweep first")
        parts[part] = here
    return parts


def _write(parts: dict[str, tuple[Path, Path]], folder: Path) -> None:
    study = pd.concat([pd.read_parquet(f / "study.parquet").assign(part=p) for p, (f, _) in parts.items()])
    undrawn = pd.concat(
        [pd.read_parquet(f / "undrawn.parquet").assign(part=p) for p, (f, _) in parts.items()]
    )
    study.to_parquet(folder / "study.parquet", index=False)
    undrawn.to_parquet(folder / "undrawn.parquet", index=False)
    tasks = study[["image_id", "description"]].drop_duplicates(ignore_index=True)
    tasks.to_csv(folder / "tasks.csv", index=False)
    _checksums(parts, set(study["image_id"])).to_csv(folder / "images.csv", index=False)
    facts = {p: read_json(f / "facts.json") | {"sampling_key": f.name} for p, (f, _) in parts.items()}
    write_json(folder / "facts.json", {"parts": facts, "n_tasks": len(tasks)})


def _checksums(parts: dict[str, tuple[Path, Path]], drawn: set[str]) -> pd.DataFrame:
    tables = [
        pd.read_parquet(f / "images.parquet", columns=["image_id", "checksum"])
        for f in {i for _, i in parts.values()}
    ]
    table = pd.concat(tables).drop_duplicates()
    return table[table["image_id"].isin(drawn)].sort_values("image_id")
