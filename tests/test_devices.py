"""No two processes on one GPU: a lock a device, with pretended devices."""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline import devices
from pipeline.devices import VISIBLE, own_device, visible_devices
from pipeline.profiles import Way

ONE = "GPU 0: NVIDIA H200 (UUID: GPU-aa-1)\n"
TWO = ONE + "GPU 1: NVIDIA H200 (UUID: GPU-bb-2)\n"
PARTED = TWO.replace(
    "GPU 1", "  MIG 3g.71gb     Device  0: (UUID: MIG-c)\n  MIG 3g.71gb     Device  1: (UUID: MIG-d)\nGPU 1"
)
HOLD = """
import os, sys, time
from pipeline.devices import own_device
with own_device("auto"):
    print(os.environ["CUDA_VISIBLE_DEVICES"], time.monotonic(), flush=True)
    time.sleep(float(sys.argv[1]))
    print(time.monotonic(), flush=True)
"""


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that puts an nvidia-smi on the path which lists what it is given."""

    def list_(text: str) -> None:
        (tmp_path / "list").write_text(text)
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\ncat {tmp_path}/list\n")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(devices.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(VISIBLE, raising=False)
    return list_


def hold(seconds: float) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", HOLD, str(seconds)], stdout=subprocess.PIPE, text=True)


def test_six_processes_at_once_never_share_one_of_two_devices(gpus) -> None:
    gpus(TWO)
    spans: dict[str, list[tuple[float, float]]] = {}
    for process in [hold(0.4) for _ in range(6)]:
        first, last = process.communicate()[0].splitlines()
        device, start = first.split()
        spans.setdefault(device, []).append((float(start), float(last)))
    assert spans.keys() == {"GPU-aa-1", "GPU-bb-2"}
    assert sum(map(len, spans.values())) == 6
    for held in spans.values():
        held.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(held))


def test_a_killed_process_lets_go_of_its_device(gpus) -> None:
    gpus(ONE)
    process = hold(60)
    assert process.stdout and process.stdout.readline().startswith("GPU-aa-1")
    process.kill()
    process.wait()
    started = time.monotonic()
    with own_device("auto"):
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("listed", "given", "names"),
    [
        (TWO, None, ["GPU-aa-1", "GPU-bb-2"]),
        (TWO, "1", ["GPU-bb-2"]),
        (TWO, "1,0", ["GPU-bb-2", "GPU-aa-1"]),
        (TWO, "0,-1,1", ["GPU-aa-1"]),
        (TWO, "GPU-bb-2", ["GPU-bb-2"]),
        (TWO, "", []),
        (PARTED, None, ["MIG-c", "MIG-d", "GPU-bb-2"]),
        ("", "0,1", []),
        ("No devices were found\n", None, []),
    ],
)
def test_what_a_process_may_use(gpus, monkeypatch, listed: str, given: str | None, names: list[str]) -> None:
    gpus(listed)
    if given is not None:
        monkeypatch.setenv(VISIBLE, given)
    assert visible_devices() == names


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_a_job_that_takes_no_gpu_waits_for_none(gpus, monkeypatch, device: str) -> None:
    gpus(ONE)
    with own_device("auto"), own_device(device):
        pass


def test_a_device_chosen_by_number_is_held_and_still_has_its_number(gpus, monkeypatch) -> None:
    gpus(TWO)
    with own_device("cuda:1"):
        assert VISIBLE not in devices.os.environ
        with own_device("auto"):
            assert devices.os.environ[VISIBLE] == "GPU-aa-1"
    assert VISIBLE not in devices.os.environ


def test_a_machine_without_gpus_is_left_as_it_is(gpus) -> None:
    gpus("")
    with own_device("auto"):
        assert VISIBLE not in devices.os.environ


@pytest.mark.parametrize(
    ("settings", "options", "limited"),
    [
        ({"cores": 8}, (), True),
        ({"cores": 8}, ("--resources", "gpu=1"), False),
        ({"cores": 8, "resources": ["gpu=1"]}, (), False),
        ({"executor": "slurm"}, (), False),
        ({}, ("--executor", "kubernetes"), False),
    ],
)
def test_one_machine_starts_as_many_gpu_jobs_as_it_has_gpus(gpus, settings, options, limited) -> None:
    gpus(TWO)
    arguments = Way("mine", settings, 3, options).arguments
    assert arguments[:4] == ["--profile", "profiles/mine", "--workflow-profile", "none"]
    assert ("gpu=2" in arguments) == limited
    assert arguments[4 : 4 + len(options)] == list(options)
