"""`assay sync`, with the real `wandb sync` and a local stand-in for the server."""

import csv
import json
import shutil
import socket
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from pipeline import sync_command
from pipeline.cli import cli
from pipeline.files import read_json, sha256, write_json
from pipeline.plan.project import Project
from pipeline.plan.store import META
from pipeline.report.tracking import PointRecord, SweepRecord, log_sweep, run_id
from pipeline.stages.tracking import write_runs
from tests.report.wandb_server import WandbServer, files_with, running

KEY = "5ec4e7" * 6 + "0000"
TRACKING, COMPARISON, SCORING = "kaaaaaaaaaaaa", "kcccccccccccc", ("k000000000000", "k000000000001")
POINTS = tuple(run_id("assay-tests", "demo", "point", key) for key in SCORING)
SWEEP = run_id("assay-tests", "demo", "sweep", COMPARISON)
ALL = {*POINTS, SWEEP}
BIG = 3_000_000


def result(project: Project, stage: str, key: str) -> Path:
    folder = project.result(stage, key)
    folder.mkdir(parents=True)
    (folder / "scores.csv").write_text(f"unit,estimate\n0,{key}\n")
    (folder / "activations.npy").write_bytes(b"\x01" * BIG)
    write_json(folder / "meta.json", {"outputs": {"scores.csv": {}, "activations.npy": {}}})
    return folder


def point(project: Project, key: str, number: int) -> PointRecord:
    image = project.root / f"unit_{number}.png"
    Image.new("RGB", (20, 10), "blue").save(image)
    history = pd.DataFrame({"share": [0.0, 0.5, 1.0], "ins": [0.1, None, 0.3 + number]})
    return PointRecord(
        key,
        f"point {number}",
        {"layer": "l1", "crowd": {"n_raters": 3 + number}},
        {"scores": pd.DataFrame({"unit": [0, 1], "estimate": [0.5, None]})},
        {"mean_estimate": 0.5 + number},
        ("dataset:shapes", f"explainer:{number}"),
        {"scoring": key},
        history,
        {"unit_0": image},
        (result(project, "scoring", key),),
    )


def sweep(project: Project) -> SweepRecord:
    folder = result(project, "comparison", COMPARISON)
    (folder / "report.html").write_text("<h1>demo</h1>")
    tables = {"methods": pd.DataFrame({"method": ["a", "b"], "mean": [0.5, 0.1]})}
    files = {"report.html": folder / "report.html", "tables/methods.csv": folder / "scores.csv"}
    figures = {"figure": project.root / "unit_0.png"}
    return SweepRecord(
        "demo", COMPARISON, tables, figures, {"best": "a"}, {"points": 2}, (), files, (folder,)
    )


def log(project: Project, points: list[PointRecord], about: SweepRecord) -> None:
    """Log as the stage does: into a hidden folder, which then gets its name."""
    hidden, target = project.result("tracking", ".k"), project.result("tracking", TRACKING)
    write_runs(hidden, log_sweep(points, about, project="assay-tests", directory=hidden))
    files = [path for path in hidden.rglob("*") if path.is_file()]
    outputs = {
        path.relative_to(hidden).as_posix(): {"sha256": sha256(path), "size": path.stat().st_size}
        for path in files
    }
    write_json(hidden / "meta.json", {name: {} for name in META} | {"notes": [], "outputs": outputs})
    shutil.rmtree(target, ignore_errors=True)
    hidden.rename(target)


def publish(project: Project, name: str, **columns: str) -> None:
    folder = project.results / "sweeps" / name / COMPARISON
    folder.mkdir(parents=True)
    with (folder / "points.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, columns.values()])
    (folder.parent / "latest").symlink_to(COMPARISON, target_is_directory=True)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose sweep `demo` has logged two points; nobody may change it."""
    project = Project(tmp_path_factory.mktemp("logged") / "assay")
    project.conf.mkdir(parents=True)
    (project.root / "Snakefile").touch()
    points = [point(project, key, number) for number, key in enumerate(SCORING)]
    log(project, points, sweep(project))
    publish(project, "demo", layer="l1", tracking_key=TRACKING)
    publish(project, "quiet", layer="l1", comparison_key=COMPARISON)
    return project


@dataclass
class Shop:
    """A copy of the project elsewhere, and a server that holds nothing."""

    project: Project
    home: Path
    server: WandbServer

    def sync(self, *words: str) -> Result:
        return CliRunner().invoke(cli, ["sync", *words])

    def state(self) -> dict[str, bytes]:
        folder = self.project.result("tracking", TRACKING)
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shop(logged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    project = Project(tmp_path / "moved" / "assay")
    shutil.copytree(logged.root, project.root, symlinks=True)
    home = tmp_path / "home"
    home.mkdir()
    with running() as server:
        foreign = {"RUN_ID": "foreign", "PROJECT": "foreign", "MODE": "offline", "RUN_GROUP": "foreign"}
        own = {"API_KEY": KEY, "BASE_URL": server.address}
        for name, value in (foreign | own).items():
            monkeypatch.setenv(f"WANDB_{name}", value)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(project.root)
        yield Shop(project, home, server)


def test_a_sweep_arrives_whole_and_pushing_again_doubles_nothing(shop: Shop) -> None:
    before = shop.state()
    done = shop.sync("sweep=demo")
    assert done.exit_code == 0, done.output
    check_runs(shop.server)
    check_artifacts(shop.server, shop.project)
    for run, name in zip((*POINTS, SWEEP), ("point 0", "point 1", "demo"), strict=True):
        assert f"pushed: {name}  {shop.server.address}/me/assay-tests/runs/{run}" in done.output
    assert shop.server.logins == {f"Basic {b64encode(f'api:{KEY}'.encode()).decode()}"}
    assert not files_with(KEY, shop.project.root, shop.home) and KEY not in done.output

    shop.server.asked.clear()
    second = shop.sync("sweep=demo")
    assert (second.exit_code, shop.server.asked) == (0, [])
    assert f"demo: nothing to push; 3 runs pushed to {shop.server.address} before" in second.output

    assert shop.state() == before
    verified = CliRunner().invoke(cli, ["verify"])
    assert f"tracking/{TRACKING}" not in verified.output


@pytest.mark.long
@pytest.mark.parametrize("lost", ["nothing", "the state", "what the server says"])
def test_pushing_what_is_there_once_more_doubles_nothing(shop: Shop, lost: str) -> None:
    """W&B's sync adds rows of history after those that a run has."""
    assert shop.sync("sweep=demo").exit_code == 0
    if lost == "the state":
        (shop.project.results / ".synced.json").unlink()
    if lost == "what the server says":
        shop.server.refused = {"Runs": 400}
    done = shop.sync("--again", "sweep=demo")
    assert done.exit_code == 0 and done.output.count("pushed: ") == 3
    assert ("the server does not say it" in done.output) == (lost == "what the server says")
    check_runs(shop.server)
    check_artifacts(shop.server, shop.project)


@pytest.mark.long
def test_what_was_deleted_at_the_server_is_pushed_whole(shop: Shop) -> None:
    assert shop.sync("sweep=demo").exit_code == 0
    shop.server.runs.clear()
    shop.server.artifacts.clear()
    assert shop.sync("--again", "sweep=demo").exit_code == 0
    check_runs(shop.server)


@pytest.mark.long
def test_a_push_that_was_cut_off_is_completed(shop: Shop) -> None:
    assert shop.sync("sweep=demo").exit_code == 0
    (shop.project.results / ".synced.json").unlink()
    for run in POINTS:
        shop.server.runs[run].history = {0: shop.server.runs[run].history[0]}
    assert shop.sync("sweep=demo").exit_code == 0
    check_runs(shop.server)


def check_runs(server: WandbServer) -> None:
    """Hold what the server has against what was logged."""
    assert server.runs.keys() == ALL
    for number, identity in enumerate(POINTS):
        run = server.runs[identity]
        told = {"project": "assay-tests", "groupName": "demo", "jobType": "point"}
        told |= {"displayName": f"point {number}", "tags": ["dataset:shapes", f"explainer:{number}"]}
        assert run.fields.items() >= told.items() and run.complete
        assert run.fields.get("host", "") == "" and run.fields.get("program") == "assay"
        assert run.config["crowd"] == {"n_raters": 3 + number}
        assert run.summary["mean_estimate"] == 0.5 + number
        assert run.summary["results/scoring"] == run.summary["key"] == SCORING[number]
        curve = [(line.get("share"), line.get("ins")) for _, line in sorted(run.history.items())]
        assert curve == [(0.0, 0.1), (0.5, None), (1.0, 0.3 + number), (None, None)]
        table = json.loads(run.files[run.summary["scores"]["path"]])
        assert table["data"] == [[0, 0.5], [1, None]]
        assert run.files[run.summary["unit_0"]["path"]].startswith(b"\x89PNG")
    about = server.runs[SWEEP]
    assert (about.fields["jobType"], about.fields["groupName"], about.config["points"]) == (
        "sweep",
        "demo",
        2,
    )
    assert about.summary["best"] == "a" and len(about.history) == 1
    assert {"methods", "figure"} <= about.summary.keys()


def check_artifacts(server: WandbServer, project: Project) -> None:
    assert {(v.collection, v.type, v.run, v.state) for v in server.artifacts} == {
        *((f"results-{k}", "results", run, "COMMITTED") for k, run in zip(SCORING, POINTS, strict=True)),
        ("demo-report", "report", SWEEP, "COMMITTED"),
        ("demo-results", "results", SWEEP, "COMMITTED"),
    }
    assert len(server.artifacts) == 4
    report = server.version("demo-report")
    assert report.aliases == ["latest"]
    source = project.result("comparison", COMPARISON)
    assert report.files == {
        "report.html": (source / "report.html").read_bytes(),
        "tables/methods.csv": (source / "scores.csv").read_bytes(),
    }
    for key in SCORING:
        version = server.version(f"results-{key}")
        assert version.files == {}
        entries = version.manifest["contents"]
        name = f"scoring/{key}/activations.npy"
        assert entries.keys() == {name, f"scoring/{key}/meta.json", f"scoring/{key}/scores.csv"}
        assert entries[name]["ref"].startswith("file:///") and entries[name]["ref"].endswith(name)
        assert entries[name]["size"] == BIG
        content = (project.results / name).read_bytes()
        assert entries[name]["digest"] == b64encode(md5(content).digest()).decode()


def test_references_copy_nothing(logged: Project) -> None:
    folder = logged.result("tracking", TRACKING)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < BIG / 50


@pytest.mark.long
def test_a_sweep_that_was_logged_anew_pushes_what_changed_and_replaces_it(shop: Shop) -> None:
    assert shop.sync().exit_code == 0
    project = shop.project
    for stage, key in [*(("scoring", key) for key in SCORING), ("comparison", COMPARISON)]:
        shutil.rmtree(project.result(stage, key))
    points = [point(project, key, number) for number, key in enumerate(SCORING)]
    log(project, [replace(points[0], summary={"mean_estimate": 7.0}), points[1]], sweep(project))
    done = shop.sync("sweep=demo")
    assert "demo: pushing 1 run to" in done.output and "pushed: point 0  " in done.output
    assert shop.server.runs.keys() == ALL
    assert shop.server.runs[POINTS[0]].summary["mean_estimate"] == 7.0
    assert [len(shop.server.runs[run].history) for run in POINTS] == [4, 4]
    assert len(shop.server.artifacts) == 4


@pytest.mark.long
def test_a_refused_login_is_told_and_the_runs_are_pushed_next_time(shop: Shop) -> None:
    shop.server.refused = {"UpsertBucket": 401}
    done = shop.sync("sweep=demo")
    assert done.exit_code == 1
    assert f"not pushed: point 0 ({POINTS[0]}): W&B says 'UpsertBucket refused'" in done.output
    assert "demo: 3 runs did not arrive whole. Check `wandb login`" in done.output
    shop.server.refused = {}
    assert shop.sync("sweep=demo").output.count("pushed: ") == 3


@pytest.mark.long
def test_a_run_whose_artifact_was_refused_did_not_arrive(shop: Shop) -> None:
    """W&B's own sync calls it synced."""
    shop.server.refused = {"CreateArtifact": 400}
    done = shop.sync("sweep=demo")
    assert done.exit_code == 1
    assert "failed to log artifact" in done.output and "3 runs did not arrive whole" in done.output
    shop.server.refused = {}
    assert shop.sync("sweep=demo").output.count("pushed: ") == 3
    check_runs(shop.server)
    check_artifacts(shop.server, shop.project)


@pytest.mark.long
def test_without_a_login_the_message_says_how_to_get_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    done = shop.sync("sweep=demo")
    assert done.exit_code == 2
    assert f"assay: no login for {shop.server.address}: run `" in done.output
    assert "login`, or set WANDB_API_KEY" in done.output


def test_without_a_connection_it_ends_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("WANDB_BASE_URL", nobody)
        done = shop.sync("sweep=demo")
    assert done.exit_code == 2
    assert (
        f"assay: no connection to {nobody} ([Errno 111] Connection refused): the runs are kept" in done.output
    )


def test_an_unknown_sweep_is_told_the_nearest(shop: Shop) -> None:
    done = shop.sync("sweep=dem")
    assert done.exit_code == 2
    assert "sweep=dem was not run here; nearest: 'demo'; `assay run sweep=dem` logs its runs" in done.output
    assert "give a sweep as sweep=NAME" in shop.sync("demo").output


def test_a_sweep_without_tracking_has_nothing_to_push(shop: Shop) -> None:
    done = shop.sync("sweep=quiet")
    assert (done.exit_code, done.output) == (0, "quiet: no runs; it was last run with tracking=none\n")


def test_runs_that_were_logged_online_are_not_pushed(shop: Shop) -> None:
    path = shop.project.result("tracking", TRACKING) / "runs.json"
    rows = [row | {"folder": row["folder"].replace("offline-run-", "run-")} for row in read_json(path)]
    found = sync_command.TrackedSweep("demo", path.parent, rows)
    assert sync_command.push_sweep(shop.project, found) and shop.server.asked == []


def test_a_damaged_result_is_not_pushed(shop: Shop) -> None:
    (log_file,) = shop.project.result("tracking", TRACKING).glob(f"wandb/*/run-{SWEEP}.wandb")
    log_file.write_bytes(log_file.read_bytes()[:-1] + b"\x00\x00")
    done = shop.sync("sweep=demo")
    assert done.exit_code == 2 and shop.server.asked == []
    assert f"results/tracking/{TRACKING}: wandb/" in done.output
    assert "`assay run sweep=demo` makes it again" in done.output


@pytest.mark.long
def test_one_sweep_whose_result_is_gone_stops_no_other(shop: Shop) -> None:
    publish(shop.project, "gone", layer="l1", tracking_key="kffffffffffff")
    assert shop.sync("sweep=gone").exit_code == 2
    done = shop.sync()
    assert done.exit_code == 1 and shop.server.runs.keys() == ALL
    assert "gone: results/tracking/kffffffffffff: not there; `assay run sweep=gone`" in done.output


def test_where_nothing_was_run_it_says_so(shop: Shop) -> None:
    shutil.rmtree(shop.project.results)
    assert "no sweep was run in" in shop.sync().output
