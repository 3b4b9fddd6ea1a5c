"""Hydra's own way in: `python -m pipeline -m layer=a,b hydra/launcher=snakemake`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from pipeline.errors import AssayError
from pipeline.plan.launcher import register
from pipeline.plan.project import find_project


def point(config: DictConfig) -> None:
    """Refuse a single run: a point is run as a sweep of one."""
    raise SystemExit("assay: add -m (multirun) and hydra/launcher=snakemake, or use assay run sweep=NAME")


def main() -> None:
    """Start Hydra on the nearest project's conf/."""
    register()
    try:
        conf = str(find_project(Path.cwd()).conf)
        hydra.main(config_path=conf, config_name="config", version_base="1.3")(point)()
    except AssayError as error:
        raise SystemExit(f"assay: {error}") from None


if __name__ == "__main__":
    main()
