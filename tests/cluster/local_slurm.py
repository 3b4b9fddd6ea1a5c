"""A real Slurm on this machine: munge, one controller, two nodes of two cores and one (pretended) GPU each.

`python tests/cluster/local_slurm.py start|stop`; tests use `why_not` and `running`. Needs root and Debian's
slurm-wlm and munge. Nothing is enforced there (no cgroups): requests are read, not held.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOME = Path("/var/tmp/assay-slurm")
"""Keys, logs, spool and state; the munge user must reach it, so no folder of pytest's."""
CONFIG = Path("/etc/slurm")
"""Where Slurm's inner steps look: SLURM_CONF is taken from their environment."""
OURS = "# written by tests/cluster/local_slurm.py"
NODES = ("n1", "n2")
DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo")


def why_not() -> str | None:
    """Say why Slurm cannot start here, None where it can."""
    if lacking := [name for name in DAEMONS if shutil.which(name) is None]:
        return f"{', '.join(lacking)} not found: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "a Slurm of one's own starts as root"
    for name in ("slurm.conf", "gres.conf"):
        path = CONFIG / name
        if path.is_file() and not path.read_text().startswith(OURS):
            return f"{path} is another Slurm's"
    return None


def start() -> None:
    """Start everything and wait until both nodes are idle; RuntimeError with the logs where they are not."""
    stop()
    shutil.rmtree(HOME, ignore_errors=True)
    for name in ("munge", "spool", "state", "log", "run"):
        (HOME / name).mkdir(parents=True)
    CONFIG.mkdir(exist_ok=True)
    (CONFIG / "slurm.conf").write_text(_slurm_conf())
    (CONFIG / "gres.conf").write_text(
        "\n".join([OURS, *(f"NodeName={node} Name=gpu File=/dev/null" for node in NODES), ""])
    )
    _start_munge()
    _daemon("slurmctld", "-c")
    for node in NODES:
        _daemon("slurmd", "-N", node)
    for _ in range(100):
        if _states() == ["idle"] * len(NODES):
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted((HOME / "log").iterdir()))
    raise RuntimeError(f"Slurm's nodes are {_states()} and not idle:\n{logs}")


def stop() -> None:
    """Stop what `start` started, by its pid files, and take its configuration away."""
    pids = [int(path.read_text()) for path in (HOME / "run").glob("*.pid") if path.read_text().strip()]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for _ in range(150):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            break
        time.sleep(0.1)
    for path in (HOME / "run").glob("*.pid"):
        path.unlink(missing_ok=True)
    for name in ("slurm.conf", "gres.conf"):
        path = CONFIG / name
        if path.is_file() and path.read_text().startswith(OURS):
            path.unlink()


@contextmanager
def running() -> Iterator[None]:
    """Have Slurm within the block."""
    start()
    try:
        yield
    finally:
        stop()


def fit_profile(root: Path) -> None:
    """Fit profiles/slurm to this cluster: no accounting, nodes of two cores, one disk, quick looks."""
    path = root / "profiles" / "slurm" / "config.yaml"
    text = path.read_text().replace("# slurm-status-command", "slurm-status-command")
    for name, value in {"cores": 2, "latency-wait": 5}.items():
        text = re.sub(rf"(?m)^{name}: \d+", f"{name}: {value}", text)
    path.write_text(text + "slurm-init-seconds-before-status-checks: 2\n")


def _start_munge() -> None:
    folder = HOME / "munge"
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "key").chmod(0o400)
    HOME.chmod(0o755)
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, "munge", "munge")
    folder.chmod(0o755)
    options = {
        "socket": folder / "socket",
        "key-file": folder / "key",
        "pid-file": folder / "pid",
        "log-file": folder / "log",
        "seed-file": folder / "seed",
    }
    words = [f"--{name}={path}" for name, path in options.items()]
    command = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force", *words]
    subprocess.run(command, check=True)
    (HOME / "run" / "munged.pid").write_text((folder / "pid").read_text())


def _daemon(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def _states() -> list[str]:
    done = subprocess.run(
        ["sinfo", "-h", "-N", "-p", "main", "-o", "%t"], capture_output=True, text=True, check=False
    )
    return done.stdout.split()


def _slurm_conf() -> str:
    host = socket.gethostname()
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={16901 + i} "
        "CPUs=2 RealMemory=16000 Gres=gpu:1"
        for i, node in enumerate(NODES)
    ]
    return "\n".join(
        [
            OURS,
            "ClusterName=assay",
            f"SlurmctldHost={host}(127.0.0.1)",
            "SlurmUser=root",
            "AuthType=auth/munge",
            f"AuthInfo=socket={HOME}/munge/socket",
            "CredType=cred/munge",
            "SlurmctldPort=16817",
            "SlurmdPort=16818",
            f"SlurmctldPidFile={HOME}/run/slurmctld.pid",
            f"SlurmdPidFile={HOME}/run/slurmd.%n.pid",
            f"SlurmctldLogFile={HOME}/log/slurmctld.log",
            f"SlurmdLogFile={HOME}/log/slurmd.%n.log",
            f"StateSaveLocation={HOME}/state",
            f"SlurmdSpoolDir={HOME}/spool/%n",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core_Memory",
            "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0",
            "DefMemPerCPU=500",
            "MinJobAge=600",
            "ReturnToService=2",
            "SlurmdParameters=config_overrides",
            "GresTypes=gpu",
            *nodes,
            f"PartitionName=main Nodes={','.join(NODES)} Default=YES MaxTime=1-00:00:00 State=UP",
            f"PartitionName=gpu Nodes={','.join(NODES)} MaxTime=1-00:00:00 State=UP",
            "",
        ]
    )


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    {"start": start, "stop": stop}[sys.argv[1]]()
