"""What Slurm still runs for a project: jobs that a killed run left."""

import os
import subprocess

from pipeline.plan.project import Project


def left_in_queue(project: Project) -> list[str]:
    """Return the ids of this user's Slurm jobs that work in the project's folder, none without Slurm."""
    command = ["squeue", "--noheader", f"--user={os.getuid()}", "--format=%A|%Z"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.partition("|") for line in done.stdout.splitlines())
    return [job for job, _, folder in rows if folder == str(project.root)]
