"""W&B artifacts of a run: files that a run hands over, and references to results that stay where they are."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import read_json

MAX_NAME = 128
FOLDER = "artifacts"
"""Beside an offline run's log: the files that it hands over when it is pushed."""


def log_files(run: Any, name: str, files: Mapping[str, Path]) -> None:
    """Log `files`, by their names in it, as one artifact of the type "report"; nothing where there are none.

    An offline run gets a copy of each file into its folder and notes where it is from the folder that holds
    wandb/: W&B's sync finds them when it is started there, wherever that folder was moved to.
    """
    import wandb

    if not files:
        return
    artifact = wandb.Artifact(artifact_name(name), type="report")
    for inside, path in files.items():
        _check_there(path)
        source = _copied(run, inside, path) if run.offline else path
        entry = artifact.add_file(str(source), name=inside, policy="immutable", skip_cache=True)
        if run.offline:
            entry.local_path = os.path.relpath(source, run.settings.root_dir)
    run.log_artifact(artifact)


def log_references(run: Any, name: str, results: Sequence[Path]) -> None:
    """Log the files of result folders by address and MD5 as one artifact of the type "results".

    Each is named <stage>/<key>/<file>; nothing is copied. Reads every file once for its checksum. What
    somebody put beside the files of a stage is left out.
    """
    import wandb

    if not results:
        return
    artifact = wandb.Artifact(artifact_name(name), type="results")
    for folder in dict.fromkeys(results):
        _check_there(folder)
        for file in sorted(["meta.json", *read_json(folder / "meta.json")["outputs"]]):
            path = folder / file
            inside = Path(folder.parent.name, folder.name, file)
            artifact.add_reference(path.resolve().as_uri(), name=inside.as_posix())
    run.log_artifact(artifact)


def artifact_name(name: str) -> str:
    """Return a name that W&B takes: letters, digits, "_", "-" and ".", at most 128 of them."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:MAX_NAME]


def _copied(run: Any, inside: str, path: Path) -> Path:
    copy = Path(run.settings.sync_dir) / FOLDER / inside
    copy.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(path, copy))


def _check_there(path: Path) -> None:
    if not path.exists():
        raise AssayError(f"{path} is not there, so no W&B run can have it: run the sweep again")
