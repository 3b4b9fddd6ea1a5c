"""Which HITs of the account are a study's: each carries the study and the task in its annotation."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeline.mturk.client import PAGE_SIZE, MTurk, explained
from pipeline.mturk.records import read_records, records_file
from pipeline.mturk.state import Hit, read_hits, write_hits
from pipeline.study.frozen import FrozenStudy

OPEN = ("Assignable", "Unassignable")


@dataclass(frozen=True)
class ListedHit:
    """A HIT as MTurk lists it. `is_open`: work may still come in; `expires`: when no one can accept it."""

    task_id: str
    hit: Hit
    is_open: bool
    expires: datetime


@dataclass(frozen=True)
class Known:
    """A study's HITs by task, those that MTurk lists today, and how many the state did not know."""

    hits: Mapping[str, Hit]
    listed: tuple[ListedHit, ...]
    n_adopted: int


def annotation(study: str, task: str) -> str:
    """Return what a task's HIT is marked with; `study` is the one that first held the task."""
    return f"assay:{study}:{task}"


def reconcile(study: FrozenStudy, client: MTurk, place: str) -> Known:
    """Return all HITs of the study, and record those that mturk.json lacks.

    A crash between creating a HIT and recording it, or a lost mturk.json, thus leads to no second HIT:
    they are found in MTurk's list, and those deleted there in what was collected.
    """
    recorded = read_hits(study, place)
    listed = tuple(listed_hits(study, client, place))
    collected = {
        record["task_id"]: Hit(record["HITId"], "", "", "")
        for record in read_records(records_file(study, place))
    }
    hits = collected | {one.task_id: one.hit for one in reversed(listed)} | recorded
    if hits != recorded:
        write_hits(study, place, hits)
    return Known(hits, listed, len(hits) - len(recorded))


def hit_of(hit: Mapping[str, Any]) -> Hit:
    """Return what we keep of boto3's HIT."""
    created = hit["CreationTime"].astimezone(UTC).isoformat() if "CreationTime" in hit else ""
    return Hit(hit["HITId"], hit.get("HITTypeId", ""), created, hit.get("HITGroupId", ""))


def listed_hits(study: FrozenStudy, client: MTurk, place: str) -> Iterator[ListedHit]:
    """Yield the HITs of the account that are the study's."""
    rows = study.tasks[["study", "task_id"]].itertuples(index=False, name=None)
    tasks = {annotation(*row) for row in rows}
    marks = "|".join(re.escape(annotation(mark, "")) for mark in dict.fromkeys(study.tasks["study"]))
    edited = re.compile(f"(?:{marks})t[0-9a-f]{{12}}")
    with explained(f"listing the HITs in the {place}"):
        pages = client.get_paginator("list_hits").paginate(PaginationConfig={"PageSize": PAGE_SIZE})
        for hit in (hit for page in pages for hit in page.get("HITs", [])):
            mark = hit.get("RequesterAnnotation", "")
            # A task that was edited since is still the study's: its ratings are collected.
            if mark in tasks or edited.fullmatch(mark):
                yield ListedHit(
                    mark.rpartition(":")[2],
                    hit_of(hit),
                    hit.get("HITStatus") in OPEN,
                    hit.get("Expiration", datetime.max.replace(tzinfo=UTC)),
                )
