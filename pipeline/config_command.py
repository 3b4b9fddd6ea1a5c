"""`assay config`: what can be chosen; and what a run's config comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.plan.project import find_project
from pipeline.plan.stages import lookup

if TYPE_CHECKING:
    from pipeline.config_help import Group
    from pipeline.plan.points import Build


@click.command()
@click.argument("group", required=False)
@click.argument("choice", required=False)
@click.option("--markdown", is_flag=True, help="Print everything as a page.")
def config(group: str | None, choice: str | None, markdown: bool) -> None:
    """List what can be chosen: all groups, the choices of GROUP, or the settings of CHOICE."""
    from pipeline.config_help import config_group, config_groups, own_values

    conf = find_project(Path.cwd()).conf
    if markdown:
        click.echo(reference_page(conf), nl=False)
    elif group is None:
        _print_groups(config_groups(conf), own_values(conf))
    elif choice is None:
        _print_choices(config_group(conf, group))
    else:
        click.echo(config_group(conf, group).choice(choice).path.read_text(encoding="utf-8"), nl=False)


def _print_groups(groups: "list[Group]", values: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="groups: GROUP=CHOICE; `assay config GROUP` says what each is", title_justify="left")
    for name in ("group", "default", "choices"):
        table.add_column(name, overflow="fold")
    for group in groups:
        (default,) = [choice.name for choice in group.choices if choice.is_default]
        table.add_row(group.name, default, " ".join(choice.name for choice in group.choices))
    console = Console()
    console.print(table)
    console.print("settings of one variety, in conf/config.yaml:")
    for name, value in values.items():
        console.print(f"  {name}: {_plain(value)}", highlight=False, markup=False, soft_wrap=True)


def _print_choices(group: "Group") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{group.name}, read by: {', '.join(group.stages)}", title_justify="left")
    table.add_column(f"{group.name}=")
    table.add_column("what it is", overflow="fold")
    for choice in group.choices:
        name = f"{choice.name} (default)" if choice.is_default else choice.name
        table.add_row(name, choice.words)
    Console().print(table)


def reference_page(conf: Path) -> str:
    """Return the page of all groups, their choices and their settings, as Markdown."""
    from pipeline.config_help import config_groups, own_values

    lines = [
        "# Config reference",
        "",
        "Made from `conf/` by `assay config --markdown`. A point chooses one file of each group "
        "(`GROUP=CHOICE`) and may set any value of it (`group.key=value`).",
        "",
        "## One variety",
        "",
        "```yaml",
        *(f"{name}: {_plain(value)}" for name, value in own_values(conf).items()),
        "```",
    ]
    for group in config_groups(conf):
        lines += ["", f"## {group.name}", "", f"Read by: {', '.join(group.stages)}."]
        for choice in group.choices:
            title = f"{group.name}={choice.name}" + (" (default)" if choice.is_default else "")
            text = choice.path.read_text(encoding="utf-8").rstrip()
            lines += ["", f"### {title}", "", choice.words, "", "```yaml", text, "```"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Resolved:
    """A key of a sweep's points: the first value it has there, whether it varies, and who reads it."""

    key: str
    value: Any
    varies: bool
    readers: tuple[str, ...]


def resolved(points: Sequence[Mapping[str, Any]]) -> list[Resolved]:
    """Return every key of the points' configs, in the order of the first point that has it."""
    from pipeline.config_help import readers_of, speed_keys

    readers: dict[str, dict[str, None]] = {}
    for values in points:
        speed = speed_keys(values)
        for key, stages in readers_of(values).items():
            who = stages or (("speed only",) if key in speed else ())
            readers.setdefault(key, {}).update(dict.fromkeys(who))
    return [
        Resolved(key, found[0], len({str(value) for value in found}) > 1, tuple(who))
        for key, who in readers.items()
        if (found := [lookup(point, key) for point in points if _has(point, key)])
    ]


def _has(values: Mapping[str, Any], key: str) -> bool:
    *parents, leaf = key.split(".")
    node = lookup(values, ".".join(parents)) if parents else values
    return isinstance(node, Mapping) and leaf in node


def print_resolved(build: "Build") -> None:
    """Print what the config of a sweep's points comes to, and which stage reads which key."""
    rows = resolved([point.values for point in build.points])
    used = {row.key.split(".")[0] for row in rows if row.readers}
    told = {row.key: f"{row.key}: {_plain(row.value)}" for row in rows}
    width = min(60, max(len(text) for text in told.values()))
    for row in rows:
        if row.key.split(".")[0] in used:
            who = ", ".join(row.readers) or "nothing here"
            click.echo(f"{told[row.key]:{width}}  # {'varies; ' if row.varies else ''}{who}")
    unused = sorted({row.key.split(".")[0] for row in rows} - used)
    click.echo(f"\n# {len(build.points)} points; where a key varies, the first value is shown")
    click.echo(f"# not read by them: {', '.join(unused)}")


def _plain(value: Any) -> str:
    """Return a value as YAML writes it in one line."""
    import yaml

    shown = str(value) if isinstance(value, Path) else value
    text = yaml.safe_dump(shown, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
