"""The faults, one a module; each has `run(campaign)`."""

from collections.abc import Callable

from scripts.torture.campaign import Campaign
from scripts.torture.faults import (
    clock,
    ctrl_c,
    damage,
    download,
    full_disk,
    kills,
    read_only,
    state_files,
    together,
)

FAULTS: dict[str, Callable[[Campaign], None]] = {
    "ctrl_c": ctrl_c.run,
    "together": together.run,
    "full_disk": full_disk.run,
    "read_only": read_only.run,
    "clock": clock.run,
    "state_files": state_files.run,
    "download": download.run,
    "damage": damage.run,
    "kills": kills.run,
}
"""In the order of a campaign: what takes longest, and as long as there is time, comes last."""
