"""Hydra's launcher: `python -m pipeline -m model=a,b hydra/launcher=snakemake` is one DAG."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from pipeline.errors import AssayError
from pipeline.plan.project import find_project
from pipeline.plan.sweep import Sweep

NAME = "multirun"
HYDRA_MODULE = "hydra_plugins.assay"
"""Hydra takes plugins by name from this package alone; the class registers under it without a folder."""


@dataclass
class SnakemakeLauncherConf:
    """Settings under hydra.launcher."""

    _target_: str = f"{HYDRA_MODULE}.SnakemakeLauncher"
    cores: int = 2
    dry_run: bool = False
    profile: str = "default"


class SnakemakeLauncher(Launcher):
    """Gives all jobs of a multirun to Snakemake at once, so that shared stages run once."""

    def __init__(self, cores: int, dry_run: bool, profile: str) -> None:
        self._options = (cores, dry_run, profile)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what Hydra hands over before the launch."""
        self._context = hydra_context
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run all points; every JobReturn holds the exit code of the one run."""
        from pipeline.running import run_sweep

        points = tuple(tuple(map(str, overrides)) for overrides in job_overrides)
        with _own_hydra():
            try:
                code = run_sweep(find_project(Path.cwd()), Sweep(NAME, points), *self._options)
            except AssayError as error:
                raise SystemExit(f"assay: {error}") from None
        return [self._job_return(overrides, code) for overrides in points]

    def _job_return(self, overrides: Sequence[str], code: int) -> JobReturn:
        config: Any = self._context.config_loader.load_sweep_config(self._config, list(overrides))
        status = JobStatus.COMPLETED if code == 0 else JobStatus.FAILED
        value: Any = code if code == 0 else RuntimeError(f"the sweep failed with exit code {code}")
        result = JobReturn(overrides=overrides, cfg=config, hydra_cfg=config, status=status)
        result.return_value = value
        return result


@contextmanager
def _own_hydra() -> Iterator[None]:
    """Set the multirun's Hydra aside while the planner composes points with its own."""
    state = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = state


def register() -> None:
    """Make `hydra/launcher=snakemake` known to Hydra, without a hydra_plugins folder."""
    ConfigStore.instance().store(
        group="hydra/launcher", name="snakemake", node=SnakemakeLauncherConf, provider="assay"
    )
    plugins = Plugins.instance()  # scans the real hydra_plugins, if there is one, before ours joins it
    package, module = ModuleType("hydra_plugins"), ModuleType(HYDRA_MODULE)
    module.__dict__["SnakemakeLauncher"] = SnakemakeLauncher
    sys.modules.setdefault("hydra_plugins", package).__dict__["assay"] = module
    sys.modules[HYDRA_MODULE] = module
    SnakemakeLauncher.__module__ = HYDRA_MODULE
    plugins.register(SnakemakeLauncher)
