"""The browser that runs in this process: Playwright's loop can be there once only."""

from typing import Any

RUNNING: list[Any] = []
