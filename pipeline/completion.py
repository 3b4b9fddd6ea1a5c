"""What the shell offers after a command: sweeps, groups and their choices."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pipeline.errors import AssayError
from pipeline.plan.project import find_project


class Overrides(click.ParamType[str]):
    """Words such as sweep=NAME and GROUP=CHOICE; everything else is taken as it is."""

    name = "override"

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer groups until there is a =, then the names of its files; outside a project nothing."""
        try:
            conf = find_project(Path.cwd()).conf
        except AssayError:
            return []
        group, chosen, _ = incomplete.partition("=")
        if not chosen:
            names = (folder.name for folder in conf.iterdir() if folder.is_dir())
            return [CompletionItem(f"{name}=") for name in sorted(names) if name.startswith(group)]
        words = (f"{group}={path.stem}" for path in (conf / group).glob("*.yaml"))
        return [CompletionItem(word) for word in sorted(words) if word.startswith(incomplete)]
