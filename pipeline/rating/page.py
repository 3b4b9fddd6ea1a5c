"""The rating page without its HTTP: what a rater may do, and what follows from it."""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.rating.assignment import IntArray, check_slot, shown_order
from pipeline.rating.counts import PREFIX, Counts, as_counts
from pipeline.rating.store import Assignment, Rater, Store
from pipeline.study.frozen import FrozenStudy

HOLD_MINUTES = 30.0
SHOWN_OF_A_MARK = 40


class RefusedError(Exception):
    """What a rater asked for cannot be: an HTTP status and a message for the rater."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Hold:
    """Inputs kept for a rater's unsubmitted assignment, until nothing was heard for a while."""

    positions: IntArray
    since: float


class RatingPage:
    """A study that is being rated. Its methods may be called from several threads.

    Every change is committed to the store before it shows in memory, and so before it is acknowledged.
    """

    def __init__(
        self,
        study: FrozenStudy,
        store: Store,
        *,
        hold_minutes: float = HOLD_MINUTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.study = study
        self.store = store
        self.counts = Counts(study, {PREFIX + each for each in store.assignment_ids()})
        self._hold_seconds = 60 * hold_minutes
        self._clock = clock
        self._lock = threading.RLock()
        self._image_lock = threading.Lock()
        self._image_of: dict[str, str] = dict(
            zip(study.inputs["input_id"], study.inputs["image_id"], strict=True)
        )
        self._raters = {rater.token: rater for rater in store.raters()}
        self._owner = store.owner_token
        self._seen = store.seen()
        self._done = store.done()
        self._holds: dict[str, Hold] = {}
        self._remember()

    def rater(self, token: str) -> Rater | None:
        """Return whose token this is."""
        return self._raters.get(token)

    def is_owner(self, token: str) -> bool:
        """Say whether this is the owner's token."""
        return secrets.compare_digest(token.encode(errors="replace"), self._owner.encode())

    def state(self, rater: Rater) -> dict[str, Any]:
        """Return what the rater's page shows; gives the rater a new assignment where none is open."""
        with self._lock:
            now = self._heard_from(rater)
            assignment = self.store.current(rater.id) or self._assign(rater, now)
            n_tasks, n_ratings = self._done.get(rater.id, (0, 0))
            left = self.counts.left_for(rater.id)
            held = sum(self._n_needed(each) for each in self.store.unsubmitted(rater.id))
            return {
                "rater": rater.label,
                "progress": {"tasks_done": n_tasks, "ratings_done": n_ratings, "inputs_left": left + held},
                "assignment": assignment and _shown(rater, assignment),
                "can_reopen": n_tasks > 0 and not (assignment and assignment.reopened),
                "status": "rate" if assignment else "wait" if left else "done",
            }

    def draft(self, rater: Rater, assignment: str, marks: Sequence[str], version: int) -> dict[str, Any]:
        """Keep what is marked so far, unless a version as new is there; ignored once submitted."""
        with self._lock:
            now = self._heard_from(rater)
            found = self._own(rater, assignment)
            marked = _within(found, marks)
            if not found.open:
                return {"submitted": True}
            if version <= found.version:
                return {"version": found.version}
            self.store.save_draft(found, marked, version, now)
            return {"version": version}

    def submit(
        self, rater: Rater, assignment: str, marks: Sequence[str], seconds: float | None
    ) -> dict[str, Any]:
        """Answer every input of an assignment, once: a second submission changes nothing."""
        with self._lock:
            now = self._heard_from(rater)
            found = self._own(rater, assignment)
            marked = _within(found, marks)
            if not found.open:
                return {"submitted": True, "already": True, "state": self.state(rater)}
            before = self.store.marked(found)
            self.store.submit(found, marked, seconds, now)
            self._count(found, marked, before)
            return {"submitted": True, "state": self.state(rater)}

    def reopen(self, rater: Rater) -> dict[str, Any]:
        """Let a rater correct what was submitted last; its answers stay in force until then."""
        with self._lock:
            now = self._heard_from(rater)
            current = self.store.current(rater.id)
            if current and current.reopened:
                return self.state(rater)
            last = self.store.last_submitted(rater.id)
            if last is None:
                raise RefusedError(409, "There is no submitted task to correct yet.")
            self.store.reopen(last, now)
            return self.state(rater)

    def image(self, input_id: str) -> tuple[bytes, str]:
        """Return the bytes and media type of an input's image.

        Raises RefusedError for an id that is no input of the study, AssayError for an image that is gone.
        """
        if input_id not in self._image_of:
            raise RefusedError(404, "This study has no such image.")
        with self._image_lock:
            return self.study.images.encoded(self._image_of[input_id])

    def overview(self) -> dict[str, Any]:
        """Return what is known in memory: counts by input (copies), who is at work, when each was seen."""
        with self._lock:
            self._expire(self._clock())
            counts = self.counts
            open_of = {each.rater for each in self.store.unsubmitted()}
            return {
                "ratings": counts.ratings[~counts.is_check],
                "elsewhere": int(counts.elsewhere[~counts.is_check].sum()),
                "stopped": counts.stopped[~counts.is_check],
                "raters": list(self._raters.values()),
                "open": open_of,
                "seen": dict(self._seen),
            }

    def _remember(self) -> None:
        now, counts = self._clock(), self.counts
        if rated := self.store.counts():
            inputs, n_ratings, yes = zip(*rated, strict=True)
            counts.add(counts.positions(inputs), as_counts(yes), as_counts(n_ratings))
        for rater, input_id in self.store.given():
            counts.mine(rater)[counts.position[input_id]] = True
        for assignment in self.store.unsubmitted():
            if now - assignment.touched < self._hold_seconds:
                self._hold(assignment, assignment.touched)

    def _count(self, assignment: Assignment, marked: Sequence[str], before: set[str]) -> None:
        """Take a submission that is in the store into memory; a correction only moves answers."""
        self._release(assignment.id)
        yes = as_counts([(each in marked) - (each in before) for each in assignment.inputs])
        n_more = 0 if assignment.reopened else 1
        self.counts.add(self.counts.positions(assignment.inputs), yes, np.full(len(yes), n_more))
        n_tasks, n_ratings = self._done.get(assignment.rater, (0, 0))
        self._done[assignment.rater] = (n_tasks + n_more, n_ratings + n_more * len(yes))

    def _heard_from(self, rater: Rater) -> float:
        """Note that a rater is there, which keeps the rater's inputs held; return the time."""
        now = self._clock()
        self._seen[rater.id] = now
        for assignment in self.store.unsubmitted(rater.id):
            self._hold(assignment, now)
        self._expire(now)
        return now

    def _assign(self, rater: Rater, now: float) -> Assignment | None:
        chosen = self.counts.next_for(rater.id, self.study.settings.inputs_per_task)
        if len(chosen) == 0:
            return None
        code = int(self.counts.description_of[chosen[0]])
        description = self.counts.descriptions[code]
        assignment = f"a{secrets.token_hex(6)}"
        inputs = self._with_check(rater, assignment, code, chosen)
        self.store.add(rater.id, assignment, description, inputs, now)
        self.counts.mine(rater.id)[self.counts.positions(inputs)] = True
        found = self._own(rater, assignment)
        self._hold(found, now)
        return found

    def _with_check(self, rater: Rater, assignment: str, code: int, chosen: IntArray) -> list[str]:
        ids, check = self.counts.ids, self.counts.check_for(rater.id, code)
        if check is None:
            return shown_order(assignment, (ids[i] for i in chosen))
        size = max(1, self.study.settings.inputs_per_task - 1)
        shown = shown_order(assignment, (ids[i] for i in chosen[:size]))
        description, seed = self.counts.descriptions[code], self.study.settings.seed
        shown.insert(check_slot(seed, rater.label, description, len(shown) + 1), ids[check])
        return shown

    def _own(self, rater: Rater, assignment: str) -> Assignment:
        found = self.store.assignment(rater.id, assignment)
        if found is None:
            raise RefusedError(404, "This link has no such task.")
        return found

    def _n_needed(self, assignment: Assignment) -> int:
        return int((~self.counts.is_check[self.counts.positions(assignment.inputs)]).sum())

    def _hold(self, assignment: Assignment, since: float) -> None:
        if hold := self._holds.get(assignment.id):
            hold.since = since
            return
        positions = self.counts.positions(assignment.inputs)
        self.counts.reserved[positions] += 1
        self._holds[assignment.id] = Hold(positions, since)

    def _release(self, assignment: str) -> None:
        if hold := self._holds.pop(assignment, None):
            self.counts.reserved[hold.positions] -= 1

    def _expire(self, now: float) -> None:
        for assignment in [k for k, h in self._holds.items() if now - h.since >= self._hold_seconds]:
            self._release(assignment)


def _within(assignment: Assignment, marks: Sequence[str]) -> list[str]:
    """Return the marks, each once, in the order shown; RefusedError names one that the task lacks."""
    known, marked = set(assignment.inputs), set(marks)
    for mark in marks:
        if mark not in known:
            raise RefusedError(422, f"marks: {ascii(mark)[:SHOWN_OF_A_MARK]} is no input of this task")
    return [each for each in assignment.inputs if each in marked]


def _shown(rater: Rater, assignment: Assignment) -> dict[str, Any]:
    return {
        "id": assignment.id,
        "description": assignment.description,
        "inputs": [{"id": i, "image": f"/r/{rater.token}/images/{i}"} for i in assignment.inputs],
        "marks": list(assignment.marks),
        "version": assignment.version,
        "number": assignment.number,
    }
