"""What planning costs: composing, a cold plan, and a run that has nothing to do, up to 20,000 points."""

import shutil
from pathlib import Path

from pipeline.execution import publish, write_meta
from pipeline.plan.keys import Job
from pipeline.plan.project import Project
from pipeline.plan.store import hidden_name
from pipeline.plan.sweep import expand_sweep
from pipeline.plan.workflow import prepare

ROOT = Path(__file__).resolve().parents[1]
N_FILES = {"sampling": 4}
"""Files of a result; other stages have two."""


def make_project(folder: Path) -> Project:
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "Snakefile", folder)
    for part in ("conf", "profiles", "pipeline"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return Project(folder)


def overrides(n_points: int) -> list[str]:
    return [f"sampler.seed=range(0,{-(-n_points // 8)})", "sampler.n_inputs=30", "tracking=none"]


def pretend(project: Project, n_points: int) -> int:
    """Write a finished result for every job of the sweep."""
    prepared = prepare(project, expand_sweep(project.conf, "demo", overrides(n_points)))
    facts = {"started": 0.0, "seconds": 0.0}
    outputs = {}
    for job in prepared.build.jobs.values():
        folder = project.result(job.stage, hidden_name(job.key))
        folder.mkdir(parents=True)
        for i in range(N_FILES.get(job.stage, 2)):
            (folder / f"table{i}.parquet").write_bytes(f"{job.key} {i}".encode() * 100)
        consumed = {f"{stage}/{key}": outputs[stage, key] for stage, key in job.upstream}
        write_meta(project, job, folder, consumed, [], facts)
        publish(project, job, folder)
        meta = prepared.store.meta(job.stage, job.key)
        outputs[job.stage, job.key] = {name: fact["sha256"] for name, fact in meta["outputs"].items()}
    return len(prepared.build.jobs)


if __name__ == "__main__":
    import sys
    n = int(sys.argv[1])
    project = make_project(Path(sys.argv[2]))
    print(pretend(project, n))
