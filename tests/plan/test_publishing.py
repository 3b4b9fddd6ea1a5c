"""What of a sweep's results people find under results/sweeps/."""

from pathlib import Path

from pipeline.files import sha256, write_json
from pipeline.plan.project import Project
from pipeline.plan.workflow import publish_sweep

RECORD = {
    "name": "demo",
    "shown": "comparison",
    "sweep_keys": {"comparison": "k1", "report": "k2"},
    "points": [{"layer": "a", "comparison_key": "k1"}],
}


def write_result(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    outputs = {
        path.name: {"sha256": sha256(path), "size": path.stat().st_size} for path in folder.glob("*.csv")
    }
    empty = {name: {} for name in ("slice", "upstream", "inputs", "code", "libraries", "files")}
    meta = {"stage": "comparison", "key": "k1", **empty, "outputs": outputs, "notes": [], "started": 1.0}
    write_json(folder / "meta.json", meta)


def test_only_what_the_stage_wrote_is_published(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "comparison" / "k1"
    write_result(folder, methods="method,score\n")
    (folder / "foreign.csv").write_text("put here by hand")
    published = publish_sweep(Project(tmp_path), RECORD)
    assert published is not None
    assert sorted(path.name for path in published.iterdir()) == ["methods.csv", "points.csv"]
    assert (published.parent / "latest" / "methods.csv").read_text() == "method,score\n"


def test_nothing_is_published_before_the_comparison_is_there(tmp_path: Path) -> None:
    assert publish_sweep(Project(tmp_path), RECORD) is None
