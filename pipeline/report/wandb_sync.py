"""Push offline W&B runs with W&B's own sync, from a copy: the runs themselves stay as they were written."""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pipeline.errors import AssayError
from pipeline.report.wandb_log import Logged, leave_out_lines

TIMEOUT = 10
"""Seconds that a server may take to answer; W&B's sync itself tries for many minutes."""
PAGE = 500
OF_RUNS = ("MODE", "DIR", "PROJECT", "ENTITY", "RUN_ID", "RUN_GROUP", "NAME", "JOB_TYPE", "TAGS", "NOTES")
"""Settings in the environment that would change what is pushed."""


@dataclass(frozen=True)
class Pushed:
    """What became of runs, by id: the address at W&B; why it did not arrive whole; rows of history there.

    silent: why the server did not say which runs it had, empty where it did.
    """

    arrived: Mapping[str, str]
    failed: Mapping[str, str]
    lines: Mapping[str, int]
    silent: str


def push(
    runs: Mapping[str, Path], logs: Mapping[str, Logged], lines: Mapping[str, int], base: Path, server: str
) -> Pushed:
    """Push the offline runs `runs` (id to folder below `base`) to `server`.

    A run that is there gets the new config, tags, summary, files and artifacts. Rows of history are only
    ever added there, so those that it has, `lines` or what the server says, are left out. Raises AssayError
    without a login and without a connection.
    """
    check_connection(server)
    said_there, silent = _lines_there(logs)
    # The server counts with a delay; a run that it does not have at all was never pushed there, or deleted.
    known = {run: max(said_there.get(run, 0), lines.get(run, 0)) for run in (runs if silent else said_there)}
    there = dict.fromkeys(runs, 0) | known
    with TemporaryDirectory(prefix="assay-sync-") as name:
        work = Path(name)
        for run, folder in runs.items():
            copy = Path(shutil.copytree(folder, work / folder.relative_to(base)))
            if there[run]:
                leave_out_lines(copy / f"run-{run}.wandb", there[run])
        said = _sync(work, server)
        marked = {path.name.split(".")[0].removeprefix("run-") for path in work.rglob("*.wandb.synced")}
        errors = dict(_errors(work, runs))
    addresses = dict(_addresses(said))
    refused = "; ".join(dict.fromkeys(re.findall(r"ERROR (.*)", said)))
    failed = {run: errors.get(run, "nothing of it") for run in runs if run in errors or run not in marked}
    failed |= {run: refused for run in failed if refused and run not in marked}
    arrived = {run: addresses.get(run, server) for run in runs if run not in failed}
    return Pushed(arrived, failed, {run: max(there[run], logs[run].lines) for run in marked}, silent)


def server_address() -> str:
    """Return the address of the W&B server that the environment and W&B's settings files name.

    Raises AssayError, without the address, for one with a user or a password in it: it is told and stored.
    """
    import wandb

    try:
        address = str(wandb.setup(settings=wandb.Settings(silent=True)).settings.base_url).rstrip("/")
    finally:
        wandb.teardown()
    if "@" in urlsplit(address).netloc:
        raise AssayError(
            "WANDB_BASE_URL holds a user or a password: give the bare address, and WANDB_API_KEY"
        )
    return address


def check_connection(server: str) -> None:
    """Raise AssayError where nothing answers at `server`."""
    try:
        urllib.request.urlopen(server, timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        return  # it answers
    except OSError as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, ssl.SSLError):  # W&B's sync knows other certificates than Python
            raise AssayError(
                f"no connection to {server} ({reason}): the runs are kept; run `assay sync` again where "
                "there is one, or set WANDB_BASE_URL to another server"
            ) from None


def _lines_there(logs: Mapping[str, Logged]) -> tuple[dict[str, int], str]:
    """Return how many rows of history the server has of each run that it has, and why it does not say so."""
    import wandb

    there: dict[str, int] = {}
    ids = {"name": {"$in": list(logs)}}
    try:
        for entity, project in dict.fromkeys((log.entity, log.project) for log in logs.values()):
            where = "/".join(filter(None, (entity, project)))
            found = wandb.Api(timeout=TIMEOUT).runs(where, filters=ids, per_page=PAGE)
            there |= {run.id: run.historyLineCount or 0 for run in found}
    except Exception as error:  # W&B's own, and those of its parser: what is really wrong, its sync says
        new = str(error).startswith("Could not find project")
        return there, "" if new else str(error)
    finally:
        wandb.teardown()
    return there, ""


def _sync(work: Path, server: str) -> str:
    """Run `wandb sync` on the copies, return what it printed; its files and logs go into `work`."""
    kept = {key: value for key, value in os.environ.items() if key.removeprefix("WANDB_") not in OF_RUNS}
    own = {"BASE_URL": server, "DIR": str(work), "CACHE_DIR": str(work / "cache"), "PROGRAM": "assay"}
    environment = kept | {f"WANDB_{key}": value for key, value in own.items()}
    done = subprocess.run(
        [sys.executable, "-m", "wandb", "sync", "wandb"],
        cwd=work,
        env=environment | {"WANDB_ERROR_REPORTING": "false", "COLUMNS": "1000"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if "No API key configured" in done.stdout:
        raise AssayError(
            f"no login for {server}: run `{Path(sys.executable).with_name('wandb')} login`, or set "
            "WANDB_API_KEY, and run `assay sync` again"
        )
    if done.returncode:
        raise AssayError(f"`wandb sync` failed: {' '.join(done.stdout.split()[-60:])}")
    return done.stdout


def _addresses(said: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the address of each run that W&B's sync told."""
    for address in re.findall(r"View run (?:.* )?at (\S+)", said):
        yield address.rsplit("/", 1)[-1], address


def _errors(work: Path, runs: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield the run and the text of each error in the sync's log.

    A run counts as synced for W&B also where one of its artifacts or files was refused; only the log says so.
    """
    for line in _log_lines(work):
        with suppress(ValueError):
            entry = json.loads(line)
            run = next((run for run in runs if run in str(entry.get("sync_path"))), None)
            if entry.get("level") == "ERROR" and run:
                yield run, str(entry["msg"])


def _log_lines(work: Path) -> Iterator[str]:
    for path in sorted(work.glob("wandb/logs/debug-sync*.log")):
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()
