"""Many points, and many sweeps at once: nothing is slow, lost or doubled."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipeline.files import read_json, write_json
from pipeline.report.tracking import PointRecord, SweepRecord, log_sweep
from pipeline.report.wandb_log import _parsed, _records, read_log
from tests.report.wandb_server import files_with, running

ROOT = Path(__file__).parents[2]
N_POINTS, LIMIT = 100, 15.0
N_SWEEPS, N_EACH = 8, 3
KEY = "5ec4e7" * 6 + "0000"


def many(folder: Path, n: int) -> list[PointRecord]:
    """Return points as a sweep has them: config, curves, a table, two images, three results."""
    rng = np.random.default_rng(0)
    image = folder / "image.png"
    Image.fromarray(rng.integers(0, 255, (96, 96, 3), dtype=np.uint8)).save(image)
    results = [folder / "results" / stage / "k000000000000" for stage in ("a", "b", "c")]
    for result in results:
        result.mkdir(parents=True)
        (result / "meta.json").write_text(
            json.dumps({"stage": result.parent.name, "outputs": {"scores.npy": {}}})
        )
        (result / "scores.npy").write_bytes(bytes(100_000))
    return [
        PointRecord(
            key=f"k{number:012d}",
            name=f"point {number}",
            config={"seed": number, "dataset": {"name": "shapes", "n_images": 100}},
            tables={"scores": pd.DataFrame({"unit": range(20), "estimate": rng.normal(size=20)})},
            summary={"mean": float(number)},
            tags=("dataset:shapes",),
            history=pd.DataFrame({"epoch": range(20), "loss": rng.normal(size=20)}),
            images={"first": image, "second": image},
            references=tuple(results),
        )
        for number in range(n)
    ]


@pytest.mark.long
def test_a_hundred_points_are_logged_in_less_than_15_s_by_one_process(tmp_path: Path) -> None:
    """Of the processor's time, that of W&B's service with it: other work on the machine does not count."""
    points = many(tmp_path, N_POINTS)
    before, started = sum(os.times()[:4]), time.perf_counter()
    runs = log_sweep(points, SweepRecord("big", "kc", {}, {}), project="p", directory=tmp_path / "out")
    seconds, wall = sum(os.times()[:4]) - before, time.perf_counter() - started
    print(f"{N_POINTS} points: {seconds:.1f} s of the processor, {wall:.1f} s by the clock")
    assert len({run.id for run in runs}) == N_POINTS + 1
    logs = [read_log(run.directory / f"run-{run.id}.wandb") for run in runs]
    assert {log.lines for log in logs[:-1]} == {21}
    assert seconds < LIMIT


SWEEP = """
import sys
import time
from pathlib import Path
from pipeline.files import write_json
from pipeline.report.tracking import SweepRecord, log_sweep
from tests.report.test_tracking_many import N_EACH, many
number, folder, together = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
points = many(folder, N_EACH)
(together / number).touch()
while len(list(together.iterdir())) < int(sys.argv[4]):
    time.sleep(0.01)
about = SweepRecord(f"sweep {number}", "kc", {}, {}, config={"number": int(number)})
runs = log_sweep(points, about, project="p", directory=folder / "out")
write_json(folder / "runs.json", [[r.id, str(r.directory)] for r in runs])
"""


def configs(log: Path) -> dict[str, object]:
    (run,) = [r.run for r in map(_parsed, _records(log)) if r.WhichOneof("record_type") == "run"]
    return {item.key: json.loads(item.value_json) for item in run.config.update}


@pytest.mark.long
def test_eight_sweeps_at_once_lose_no_config(tmp_path: Path) -> None:
    together = tmp_path / "together"
    together.mkdir()
    folders = [tmp_path / str(number) for number in range(N_SWEEPS)]
    for folder in folders:
        folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", SWEEP, str(number), str(folder), str(together), str(N_SWEEPS)],
            env=environment,
            cwd=ROOT,
        )
        for number, folder in enumerate(folders)
    ]
    assert [job.wait(timeout=300) for job in jobs] == [0] * N_SWEEPS
    ids = set()
    for number, folder in enumerate(folders):
        runs = read_json(folder / "runs.json")
        ids |= {identity for identity, _ in runs}
        found = [configs(Path(place) / f"run-{identity}.wandb") for identity, place in runs]
        assert [config.get("seed") for config in found] == [0, 1, 2, None]
        assert all(config["dataset"] == {"name": "shapes", "n_images": 100} for config in found[:-1])
        assert found[-1]["number"] == number
        assert len(list((folder / "out" / "wandb").iterdir())) == N_EACH + 1
    assert len(ids) == N_SWEEPS * (N_EACH + 1)


@pytest.mark.long
def test_what_is_logged_online_arrives_and_the_key_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = many(tmp_path, 2)
    home = tmp_path / "home"
    home.mkdir()
    report = tmp_path / "report.html"
    report.write_text("<h1>demo</h1>")
    about = SweepRecord("demo", "kc", {}, {}, files={"report.html": report})
    with running() as server:
        for name, value in (("WANDB_API_KEY", KEY), ("WANDB_BASE_URL", server.address), ("HOME", str(home))):
            monkeypatch.setenv(name, value)
        runs = log_sweep(points, about, project="p", mode="online", directory=tmp_path / "out")
        write_json(tmp_path / "out" / "runs.json", [run.id for run in runs])
    assert server.runs.keys() == {run.id for run in runs}
    assert [server.runs[run.id].config.get("seed") for run in runs] == [0, 1, None]
    assert server.version("demo-report").files == {"report.html": report.read_bytes()}
    assert files_with(KEY, tmp_path) == []
