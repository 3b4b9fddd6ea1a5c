"""Publish a study's tasks as HITs: each once, whatever happens in between."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipeline.errors import AssayError
from pipeline.mturk.client import MTurk, explained, place_of, turk_code, turk_message
from pipeline.mturk.listing import annotation, hit_of, listed_hits, reconcile
from pipeline.mturk.question import task_question
from pipeline.mturk.state import Hit, one_at_a_time, write_hits
from pipeline.study.cost import Bill, bill
from pipeline.study.frozen import FrozenStudy

PAGES = {"crowd": "task.html", "plain": "task_plain.html"}
PREVIEWS = {"sandbox": "https://workersandbox.mturk.com", "production": "https://worker.mturk.com"}
LONGEST_TOKEN = 64
CENT = Decimal("0.01")
APPROVAL_PERCENT = "000000000000000000L0"
LOCALE = "00000000000000000071"
BOUNDS = {
    "lifetime_days": (1, 365),
    "duration_minutes": (1, 365 * 24 * 60),
    "auto_approval_days": (0, 30),
    "min_approval_percent": (0, 100),
}
LENGTHS = {"title": 128, "description": 2000, "keywords": 1000}


@dataclass(frozen=True)
class Options:
    """How a study is offered. Bounds are MTurk's; `max_cost` in US dollars, fees included.

    Raises AssayError for a value out of bounds.
    """

    title: str = "Which images show what the text says?"
    description: str = "Look at a page of images, and mark every one that shows what a short text says."
    keywords: str = "images, classification, labeling, categorization, quick"
    lifetime_days: int = 7
    duration_minutes: int = 30
    auto_approval_days: int = 3
    min_approval_percent: int | None = None
    countries: tuple[str, ...] = ()
    max_cost: float | None = None
    layout: str = "crowd"

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise AssayError(f"{name}={value}: MTurk takes {least} to {most}")
        for name, longest in LENGTHS.items():
            if not 0 < len(getattr(self, name)) <= longest:
                raise AssayError(
                    f"{name} has {len(getattr(self, name))} characters; MTurk takes 1 to {longest}"
                )
        if bad := [code for code in self.countries if not re.fullmatch("[A-Z]{2}", code)]:
            raise AssayError(f"countries: {bad[0]!r} is no code of two capital letters, such as US or DE")
        if self.layout not in PAGES:
            raise AssayError(f"layout={self.layout!r}: there are {', '.join(PAGES)}")


@dataclass(frozen=True)
class Plan:
    """The tasks that are not at `place` yet, how many are, what the new ones cost, and the balance ($)."""

    place: str
    to_create: tuple[str, ...]
    n_there: int
    bill: Bill
    balance: Decimal


@dataclass(frozen=True)
class Published:
    """What came of it: `n_there` tasks were there before, `n_adopted` of them unknown to mturk.json.

    `n_declined` tasks were not wanted when the bill was shown; `preview` is where workers find the
    study, "" where nothing is published.
    """

    place: str
    n_created: int
    n_there: int
    n_adopted: int
    n_declined: int
    preview: str


def plan_publishing(
    study: FrozenStudy, hits: Mapping[str, Hit], options: Options, balance: Decimal, place: str
) -> Plan:
    """Return what publishing would create and cost, given the HITs that are there.

    Raises AssayError where a reward is not in whole cents, or the bill is above max_cost or the balance.
    """
    settings = study.settings
    _reward(settings.reward)
    to_create = tuple(task for task in study.tasks["task_id"] if task not in hits)
    cost = bill(len(to_create), settings.n_raters, settings.reward)
    if options.max_cost is not None and cost.total > Decimal(str(options.max_cost)):
        raise AssayError(
            f"publishing {len(to_create)} tasks costs ${cost.total}, above max_cost=${options.max_cost}"
        )
    if cost.total > balance:
        raise AssayError(
            f"publishing {len(to_create)} tasks costs ${cost.total}, and the {place} account has ${balance}: "
            f"add money at https://requester.mturk.com/account; nothing was created"
        )
    return Plan(place, to_create, len(study.tasks) - len(to_create), cost, balance)


def publish(
    study: FrozenStudy, client: MTurk, options: Options, *, confirm: Callable[[Plan], bool]
) -> Published:
    """Create a HIT for each task that has none, after `confirm` has said yes to the bill.

    A second call creates nothing twice: HITs are known by mturk.json, by MTurk's own list, and by the
    request token of each task. Raises AssayError before the first HIT for whatever MTurk would refuse
    or browsers not show; a failure later on keeps what was created, and says how to go on.
    """
    place = place_of(client)
    with one_at_a_time(study):
        known = reconcile(study, client, place)
        hits = dict(known.hits)
        plan = plan_publishing(study, hits, options, _balance(client, place), place)
        missing = set(plan.to_create)
        rows = [row for row in _rows(study) if row["task_id"] in missing]
        page = _page(study, options)
        for row in rows:
            task_question(page, row, place)
        wanted = rows if rows and confirm(plan) else []
        for number, row in enumerate(wanted):
            request = hit_request(study, row, task_question(page, row, place), options)
            with _going_on(number, len(wanted)):
                hits[row["task_id"]] = _create(study, client, place, request, row["task_id"])
            write_hits(study, place, hits)
    return Published(
        place,
        n_created=len(wanted),
        n_there=plan.n_there,
        n_adopted=known.n_adopted,
        n_declined=len(rows) - len(wanted),
        preview=_preview(place, hits),
    )


def hit_request(
    study: FrozenStudy, row: Mapping[str, str], question: str, options: Options
) -> dict[str, Any]:
    """Return what create_hit is asked for one row of tasks.csv.

    The token of a study and a task is always the same: within 24 hours MTurk itself refuses a double.
    """
    return {
        "MaxAssignments": study.settings.n_raters,
        "AutoApprovalDelayInSeconds": options.auto_approval_days * 86_400,
        "LifetimeInSeconds": options.lifetime_days * 86_400,
        "AssignmentDurationInSeconds": options.duration_minutes * 60,
        "Reward": _reward(study.settings.reward),
        "Title": options.title,
        "Description": options.description,
        "Keywords": options.keywords,
        "Question": question,
        "RequesterAnnotation": annotation(row["study"], row["task_id"]),
        "UniqueRequestToken": _token(row["study"], row["task_id"]),
        "QualificationRequirements": _qualifications(options),
    }


def _create(study: FrozenStudy, client: MTurk, place: str, request: Mapping[str, Any], task: str) -> Hit:
    """Create a HIT, or return the one that an earlier call with the same token created."""
    from botocore.exceptions import ClientError

    with explained(f"creating the HIT of task {task}"):
        try:
            return hit_of(client.create_hit(**request)["HIT"])
        except ClientError as error:
            message = turk_message(error)
            if turk_code(error).lower() != "hitalreadyexists" and "already been processed" not in message:
                raise
        for hit_id in re.findall(r"\b[A-Z0-9]{20,64}\b", message):
            hit = client.get_hit(HITId=hit_id)["HIT"]
            if hit.get("RequesterAnnotation") == request["RequesterAnnotation"]:
                return hit_of(hit)
    for one in listed_hits(study, client, place):
        if one.task_id == task:
            return one.hit
    raise AssayError(
        f"MTurk created task {task} within the last 24 hours, and does not list it yet ({message}): "
        "wait a minute"
    )


@contextmanager
def _going_on(n_created: int, n_wanted: int) -> Iterator[None]:
    try:
        yield
    except AssayError as error:
        raise AssayError(
            f"{error}\n{n_created} of {n_wanted} tasks were created and are recorded in mturk.json; "
            "publish again: it creates the others only"
        ) from error


def _balance(client: MTurk, place: str) -> Decimal:
    with explained(f"asking for the balance in the {place}"):
        return Decimal(client.get_account_balance()["AvailableBalance"])


def _rows(study: FrozenStudy) -> list[dict[str, str]]:
    columns = [str(column) for column in study.tasks.columns]
    return [dict(zip(columns, row, strict=True)) for row in study.tasks.itertuples(index=False, name=None)]


def _page(study: FrozenStudy, options: Options) -> str:
    path = study.folder / PAGES[options.layout]
    if not path.is_file():
        raise AssayError(f"{path} is not there: it is the page that raters see; freeze the study again")
    return path.read_text(encoding="utf-8")


def _reward(dollars: float) -> str:
    amount = Decimal(str(dollars))
    if amount != amount.quantize(CENT):
        raise AssayError(
            f"reward={dollars}: MTurk pays whole cents; freeze the study with another crowd.reward"
        )
    return str(amount.quantize(CENT))


def _token(study: str, task: str) -> str:
    token = f"{study}-{task}"
    if len(token) <= LONGEST_TOKEN and token.isascii():
        return token
    return hashlib.sha256(token.encode()).hexdigest()


def _qualifications(options: Options) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if options.min_approval_percent is not None:
        found.append(
            {
                "QualificationTypeId": APPROVAL_PERCENT,
                "Comparator": "GreaterThanOrEqualTo",
                "IntegerValues": [options.min_approval_percent],
                "ActionsGuarded": "Accept",
            }
        )
    if options.countries:
        found.append(
            {
                "QualificationTypeId": LOCALE,
                "Comparator": "In",
                "LocaleValues": [{"Country": code} for code in options.countries],
                "ActionsGuarded": "Accept",
            }
        )
    return found


def _preview(place: str, hits: Mapping[str, Hit]) -> str:
    groups = [hit.group for hit in hits.values() if hit.group]
    return f"{PREVIEWS[place]}/projects/{groups[-1]}/tasks" if groups else ""
