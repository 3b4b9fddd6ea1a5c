"""`assay ...` for MTurk: publish a study, collect the work, review it. The sandbox unless --live."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.errors import AssayError
from pipeline.rater_commands import FILE, STUDY, open_named, report_ingested

if TYPE_CHECKING:
    from pipeline.mturk.publishing import Plan

LIVE = click.option("--live", is_flag=True, help="The real MTurk, with real money; without it, the sandbox.")


@click.command()
@STUDY
@LIVE
@click.option("--yes", is_flag=True, help="Do not ask before spending.")
@click.option("--expire", "end", is_flag=True, help="Close the study's open tasks instead of publishing.")
@click.option("--title")
@click.option("--description")
@click.option("--keywords")
@click.option("--lifetime-days", type=int, help="How long tasks stay open.  [default: 7]")
@click.option("--duration-minutes", type=int, help="Time for one task.  [default: 30]")
@click.option("--auto-approval-days", type=int, help="Work is paid after this time.  [default: 3]")
@click.option("--min-approval-percent", type=int, help="Only workers with this share of approved work.")
@click.option("--country", "countries", multiple=True, help="Only workers from here (US); may be repeated.")
@click.option("--max-cost", type=float, help="Refuse a bill above this, in US dollars, fees included.")
@click.option("--layout", type=click.Choice(["crowd", "plain"]), help="task.html or task_plain.html.")
def publish(name: str, live: bool, yes: bool, end: bool, countries: tuple[str, ...], **chosen: Any) -> None:
    """Offer a study's tasks on MTurk, each once: a second call creates nothing twice.

    Shows the bill, and asks before it spends. Sandbox tasks cost nothing and pay nothing.
    """
    from pipeline.mturk.client import connect
    from pipeline.mturk.expiring import expire
    from pipeline.mturk.publishing import Options
    from pipeline.mturk.publishing import publish as publish_study

    study, client = open_named(name), connect(live)
    if end:
        done = expire(study, client)
        click.echo(f"{done.place}: {done.n_expired} tasks closed, {done.n_closed} had been closed already")
        return
    options = Options(countries=countries, **{key: v for key, v in chosen.items() if v is not None})
    published = publish_study(study, client, options, confirm=lambda plan: _agreed(plan, live, yes))
    adopted = f", {published.n_adopted} of them found at MTurk" if published.n_adopted else ""
    click.echo(
        f"{published.place}: {published.n_created} tasks created, {published.n_there} were there{adopted}"
    )
    if published.n_declined:
        click.echo(f"{published.n_declined} tasks were not created")
    if published.preview:
        click.echo(f"workers see them at {published.preview}")
        click.echo(f"next: assay collect --study {name}{' --live' if live else ''}")


def _agreed(plan: "Plan", live: bool, yes: bool) -> bool:
    from pipeline.report.cost_text import bill_text

    click.echo(
        f"{plan.place}: {plan.bill.n_tasks} tasks to create ({plan.n_there} are there), "
        f"{plan.bill.n_assignments} assignments"
    )
    click.echo(f"{bill_text(plan.bill)}; balance ${plan.balance}")
    return yes or not live or click.confirm("Spend this?")


@click.command()
@STUDY
@LIVE
def collect(name: str, live: bool) -> None:
    """Fetch all work handed in at MTurk, and ingest it. Call it as often as you like."""
    from pipeline.mturk.client import connect
    from pipeline.mturk.collecting import collect as collect_study

    study = open_named(name)
    found = collect_study(study, connect(live))
    click.echo(
        f"{found.n_hits} tasks, {found.n_open} still open; {found.n_assignments} assignments, "
        f"{found.n_new} new, {found.n_to_review} to review: {found.file}"
    )
    if found.n_gone:
        click.echo(f"{found.n_gone} tasks are deleted at MTurk; what was collected of them is kept")
    report_ingested(study, ())


@click.command()
@click.argument("file", type=FILE)
@STUDY
@LIVE
@click.option("--write", is_flag=True, help="Write FILE with all undecided assignments, for you to edit.")
@click.option("--approve-all", is_flag=True, help="With --write: mark every row approved.")
def review(file: Path, name: str, live: bool, write: bool, approve_all: bool) -> None:
    """Approve and reject work by FILE: AssignmentId, Approve (x) or Reject (the reason for the worker).

    MTurk's own results file, with its columns Approve and Reject filled in, does as well.
    """
    from pipeline.mturk.client import connect
    from pipeline.mturk.decisions import write_decisions
    from pipeline.mturk.reviewing import review as review_study

    if approve_all and not write:
        raise AssayError("--approve-all goes with --write: it fills in the file that you then review")
    study = open_named(name)
    if write:
        count = write_decisions(study, file, live=live, approve_all=approve_all)
        click.echo(f"{count} undecided assignments: {file}")
        return
    done = review_study(study, connect(live), file)
    overridden = f" ({done.n_overridden} had been rejected)" if done.n_overridden else ""
    click.echo(
        f"{done.place}: {done.n_approved} approved{overridden}, {done.n_rejected} rejected, "
        f"{done.n_already} decided before"
    )
    for assignment in done.too_late:
        click.echo(f"{assignment} is approved and paid, so it was not rejected")


COMMANDS = (publish, collect, review)
