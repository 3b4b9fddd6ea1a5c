"""Three ways in, one plan: assay run, snakemake --config, Hydra's multirun."""

import subprocess
import sys

from workflow_project import TinyProject


def run(project: TinyProject, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_snakemake_alone_runs_a_sweep_and_its_second_run_does_nothing(
    fresh: TinyProject, built: TinyProject
) -> None:
    command = ["snakemake", "--profile", "profiles/default", "--config", "sweep=light"]
    run(fresh, *command)
    assert fresh.to_run(sweep="light") == {}
    assert fresh.tables("light") == built.tables("light")
    assert "1 of 1 steps" in run(fresh, *command)


def test_hydras_multirun_is_one_dag(copy: TinyProject) -> None:
    common = [
        "dataset=shapes", "dataset.n_images=100", "dataset.size=32", "model=tiny", "scorer=tiny", "unit.n=4",
        "sampler.n_inputs=12", "numerics.threads=1", "stats.n_bootstrap=50", "layer=blocks.1,blocks.3",
    ]  # fmt: skip
    command = ["pipeline", "-m", *common, "explainer=top_concept,random", "hydra/launcher=snakemake"]
    printed = run(copy, *command, "hydra.launcher.dry_run=true")
    assert "4 points" in printed
    printed = run(copy, *command)
    assert "all 4 points are there" in printed
    assert not (copy.root / "multirun").exists()
