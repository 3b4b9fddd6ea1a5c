"""Kills and damage: the same command again gives the bytes of an undisturbed run."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest
from workflow_project import TinyProject


@pytest.fixture(scope="module")
def undisturbed(built: TinyProject) -> dict[str, dict[str, bytes]]:
    return {sweep: built.tables(sweep) for sweep in ("tiny", "light")}


def hear_ctrl_c() -> None:
    """A shell's background job ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(project: TinyProject, sweep: str, stderr: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        project.command("run", f"sweep={sweep}"),
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        preexec_fn=hear_ctrl_c,
        start_new_session=True,
    )


def kill_whole_run(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_a_stage(process: "subprocess.Popen[bytes]") -> None:
    """Kill the stage processes of the run, if there are any now; the run goes on or ends by itself."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "pipeline.execution" in child.cmdline():
                child.kill()
    process.wait()


def survives(project: TinyProject, sweep: str, delay: float, kill, expected: dict[str, bytes]) -> None:
    process = start(project, sweep)
    time.sleep(delay)
    kill(process)
    project.run("run", f"sweep={sweep}")
    assert project.tables(sweep) == expected
    assert project.to_run(sweep=sweep) == {}
    assert not list(project.root.glob("results/*/.k*"))


@pytest.mark.parametrize(
    ("delay", "kill"),
    [
        (4.0, kill_whole_run),
        pytest.param(9.0, kill_a_stage, marks=pytest.mark.long),
        pytest.param(14.0, kill_whole_run, marks=pytest.mark.long),
    ],
)
def test_a_killed_run_is_taken_up_and_ends_with_the_same_bytes(fresh, undisturbed, delay, kill):
    survives(fresh, "light", delay, kill, undisturbed["light"])


@pytest.mark.long
@pytest.mark.parametrize("moment", range(20))
def test_twenty_random_kills_end_with_the_same_bytes(fresh, undisturbed, moment):
    rng = random.Random(moment)
    kill = rng.choice([kill_whole_run, kill_a_stage])
    survives(fresh, "tiny", rng.uniform(1, 60), kill, undisturbed["tiny"])


def damage(path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["truncated", "flipped"])
def test_a_damaged_small_result_is_seen_by_the_plan_and_rebuilt(copy, undisturbed, how):
    (path,) = list((copy.root / "results" / "labels").glob("k*/attributes.npy"))
    before = path.read_bytes()
    damage(path, how)
    assert copy.to_run() == {"labels": 1}
    assert "damaged: labels/" in copy.run_here("run", "sweep=tiny")
    assert path.read_bytes() == before
    assert copy.tables() == undisturbed["tiny"]
    assert len(list((copy.root / "results" / "quarantine").iterdir())) == 1


def test_a_big_result_with_one_bit_flipped_is_not_read_but_rebuilt(copy, undisturbed):
    """Its size is right, so the plan cannot see it; the stage that reads it does, and the run replans."""
    path = sorted((copy.root / "results" / "images").glob("k*/images.zip"))[0]
    assert path.stat().st_size > 64 * 1024
    before = path.read_bytes()
    damage(path, "flipped")
    for stage in ("labels", "activations", "units"):
        shutil.rmtree(copy.root / "results" / stage)
    assert copy.to_run("unit.seed=5", sweep="light")["labels"] == 1
    copy.run("run", "sweep=light", "unit.seed=5")
    assert path.read_bytes() == before


def test_verify_finds_a_flipped_bit_in_a_big_file(copy):
    path = sorted((copy.root / "results" / "images").glob("k*/images.zip"))[0]
    damage(path, "flipped")
    printed = copy.run_here("verify", code=1)
    assert "damaged: images/" in printed
    assert copy.run_here("verify").endswith("0 damaged\n")


def test_an_input_rebuilt_with_other_contents_makes_what_consumed_it_stale(copy):
    """As after a rebuild on another device: the key is the same, the bytes are not."""
    meta_path = next((copy.root / "results" / "units").glob("k*/meta.json"))
    meta = json.loads(meta_path.read_text())
    key = meta["upstream"]["activations"]
    up_path = copy.root / "results" / "activations" / key / "meta.json"
    upstream = json.loads(up_path.read_text())
    name = next(iter(upstream["outputs"]))
    array = up_path.parent / name
    damage(array, "flipped")
    upstream["outputs"][name]["sha256"] = hashlib.sha256(array.read_bytes()).hexdigest()
    up_path.write_text(json.dumps(upstream))
    status = copy.prepare().status
    assert status.states["units", meta["key"]] == "stale"
    assert "was rebuilt on another device" in status.reasons["units", meta["key"]]
    assert status.states["activations", key] == "fresh"


def test_two_runs_at_once_are_refused_and_no_lock_is_left(fresh):
    process = start(fresh, "light")
    try:
        wait_for_a_plan(fresh)
        refused = fresh.run("run", "sweep=light", "--no-wait", code=2)
        assert f"(sweep=light, process {process.pid}, since 20" in refused
        assert "another run is at work" in refused
    finally:
        kill_whole_run(process)
    assert "another run" not in fresh.run("run", "sweep=light", "--dry-run")


@pytest.mark.long
def test_the_second_of_two_runs_waits_for_the_first_and_finds_all_done(fresh, undisturbed):
    first = start(fresh, "light")
    wait_for_a_plan(fresh)
    printed = fresh.run("run", "sweep=light")
    assert first.wait() == 0
    assert "waiting for it to end" in printed
    assert "all 4 points are there" in printed
    assert " stages)" not in printed, "it ran a stage again"
    assert fresh.tables("light") == undisturbed["light"]


@pytest.mark.parametrize(
    ("signals", "to_all"),
    [((signal.SIGINT,), True), pytest.param((signal.SIGTERM,), False, marks=pytest.mark.long)],
)
def test_a_stopped_run_says_how_to_go_on_and_leaves_no_process(fresh, undisturbed, signals, to_all):
    """Ctrl-C on a terminal reaches the whole group; SIGTERM, as a scheduler sends it, only `assay`."""
    printed = stop(fresh, signals, to_all)
    assert "what was made is kept, and the same command goes on from here" in printed
    fresh.run("run", "sweep=light")
    assert fresh.tables("light") == undisturbed["light"]


@pytest.mark.long
def test_ctrl_c_twice_kills_what_is_at_work(fresh):
    began = time.monotonic()
    assert "stopped after" in stop(fresh, (signal.SIGINT, signal.SIGINT), to_all=True)
    assert time.monotonic() - began < 60


def stop(project: TinyProject, signals: tuple[signal.Signals, ...], to_all: bool) -> str:
    """Stop a run once a stage process is at work; return what it said."""
    process = start(project, "light", stderr=subprocess.PIPE)
    wait_for_a_stage(process)
    family = psutil.Process(process.pid).children(recursive=True)
    for number in signals:
        (os.killpg if to_all else os.kill)(process.pid, number)
        time.sleep(0.5)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert not [child for child in family if child.is_running()]
    return said.decode()


def wait_for_a_plan(project: TinyProject) -> None:
    deadline = time.monotonic() + 120
    while not list(project.root.glob("results/.plans/*.json")) and time.monotonic() < deadline:
        time.sleep(0.2)


def wait_for_a_stage(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a stage is at work in a process of its own."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "pipeline.execution" in child.cmdline():
                    return
        time.sleep(0.1)
    raise AssertionError("no stage began")
