"""Which Snakemake profile a run takes, and what is added to it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from pipeline.devices import visible_devices
from pipeline.errors import AssayError
from pipeline.plan.project import Project


@dataclass(frozen=True)
class Way:
    """How Snakemake is to run a plan; `settings` are the profile's, as are the cores where they are None."""

    profile: str
    settings: Mapping[str, Any]
    cores: int | None
    options: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """Return the words for Snakemake's command line, without the plan.

        Snakemake would lay profiles/default over any other. On one machine, no more jobs that take a GPU are
        started than there are GPUs.
        """
        words = ["--profile", f"profiles/{self.profile}", "--workflow-profile", "none", *self.options]
        words += [] if self.cores is None else ["--cores", str(self.cores)]
        limited = "resources" in self.settings or "--resources" in self.options
        devices = [] if self.cluster or limited else visible_devices()
        return [*words, "--resources", f"gpu={len(devices)}"] if devices else words

    @property
    def cluster(self) -> str | None:
        """The executor that takes jobs to other machines, None where they run on this one."""
        given = [new for old, new in pairwise(self.options) if old in ("--executor", "-e")]
        name = given[-1] if given else self.settings.get("executor", "local")
        return None if name == "local" else str(name)

    @property
    def pod_template(self) -> Path | None:
        """The manifest that jobs begin with where they go to Kubernetes, None where they do not."""
        words = shlex.split(str(self.settings.get("cluster-generic-submit-cmd", "")))
        kubernetes = self.cluster == "cluster-generic" and "pipeline.kubernetes_jobs" in words
        return Path(words[-1]) if kubernetes else None


def read_way(project: Project, profile: str, cores: int | None, options: Sequence[str]) -> Way:
    """Read a profile; AssayError where there is none of that name."""
    path = project.root / "profiles" / profile / "config.yaml"
    if not path.is_file():
        known = sorted(path.name for path in (project.root / "profiles").iterdir())
        raise AssayError(f"--profile {profile}: no folder profiles/{profile}; there are {', '.join(known)}")
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise AssayError(f"{path}: {' '.join(str(error).split())}") from None
    return Way(profile, settings, cores, tuple(options))
