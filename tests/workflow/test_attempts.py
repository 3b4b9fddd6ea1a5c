"""A batch that is tried again, and a Snakemake that outlives its run: nothing is made twice or at once."""

import os
import shutil
import signal
import subprocess
import time
from unittest import mock

import pytest
from workflow_project import TinyProject

from pipeline.execution import run_batch
from pipeline.plan.batches import Plan
from pipeline.plan.workflow import failures, hand_over

OTHER = ("unit.seed=5", "explainer=random", "layer=blocks.1", "tracking=none")
UNITS = "pipeline.stages.units.run"


def units(plan: Plan) -> str:
    (batch,) = [batch.id for batch in plan.batches.values() if batch.stage == "units"]
    return batch


def test_what_an_earlier_attempt_has_made_is_not_made_again(copy: TinyProject) -> None:
    plan = hand_over(copy.prepare(*OTHER, sweep="light"))
    run_batch(plan, units(plan))
    before = copy.meta("units")
    with mock.patch(UNITS, side_effect=AssertionError("made twice")):
        run_batch(plan, units(plan))
    assert failures(plan) == []
    assert copy.meta("units") == before


def test_what_an_earlier_attempt_made_of_other_inputs_is_made_again(copy: TinyProject) -> None:
    plan = hand_over(copy.prepare(*OTHER, sweep="light"))
    run_batch(plan, units(plan))
    (key,) = [job.key for job in plan.batches[units(plan)].jobs]
    meta = copy.root / "results" / "units" / key / "meta.json"
    text = meta.read_text()
    meta.write_text(text.replace('"activations/', '"another/'))
    run_batch(plan, units(plan))
    assert '"activations/' in meta.read_text()


def test_a_failure_of_an_earlier_attempt_is_forgotten_once_a_later_one_succeeds(copy: TinyProject) -> None:
    plan = hand_over(copy.prepare(*OTHER, sweep="light"))
    with mock.patch(UNITS, side_effect=OSError("the drive was away")):
        run_batch(plan, units(plan))
    assert [row["stage"] for row in failures(plan)] == ["units"]
    run_batch(plan, units(plan))
    assert failures(plan) == []


@pytest.mark.long
def test_a_run_waits_for_the_snakemake_of_one_that_was_killed(copy: TinyProject) -> None:
    shutil.rmtree(copy.root / "results" / "activations")
    shutil.rmtree(copy.root / "results" / ".plans")
    first = subprocess.Popen(
        copy.command("run", "sweep=light", *OTHER),
        cwd=copy.root,
        env=copy.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while "Select jobs" not in copy.logs():
        time.sleep(0.1)
        assert first.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert "another run is at work" in copy.run("run", "sweep=light", *OTHER, "--no-wait", code=2)
    assert "waiting for it to end" in copy.run("run", "sweep=light", *OTHER)
    assert len(list(copy.root.glob("results/.plans/*/activations/*.done"))) == 1
