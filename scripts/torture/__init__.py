"""The fault campaign: kills, full disks, damage and the like, over the demos; `make torture`."""
