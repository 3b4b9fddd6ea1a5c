"""The rating page's store: one SQLite file in the study's folder."""

import fcntl
import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pipeline.errors import AssayError
from pipeline.files import sha256
from pipeline.rating.schema import SCHEMA

STORE = "rating.sqlite"
LOCK = ".rating.lock"
TOKEN_BYTES = 16
BUSY_SECONDS = 30.0

ASSIGNMENT = """SELECT id, rater, number, description, touched, marks, version, submitted, seconds, reopened
    FROM assignments WHERE """


@dataclass(frozen=True)
class Rater:
    """Somebody with a link. The label is what the owner and the export see."""

    id: int
    label: str
    token: str


@dataclass(frozen=True)
class Assignment:
    """One rater's answer to up to 15 inputs of one description; times in seconds since 1970, UTC.

    marks are the inputs that now count as yes in the draft; submitted is None until the first
    submission; reopened says that it is being corrected while its submitted answers stay in force.
    """

    id: str
    rater: int
    number: int
    description: str
    touched: float
    marks: tuple[str, ...]
    version: int
    submitted: float | None
    seconds: float | None
    reopened: bool
    inputs: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Whether a submission of it would count."""
        return self.submitted is None or self.reopened


class Store:
    """Every rater, assignment and answer of a study. A write is on the disk when its method returns.

    The one exception are drafts, which the rater's browser keeps as well. One process writes at a
    time, through one connection: callers hold a lock around each call.
    """

    def __init__(self, folder: Path) -> None:
        """Open or make `folder`/rating.sqlite, readable by its owner only.

        Raises AssayError where another process serves the study, where inputs.csv is not the one
        that rating began with, or where the file is no such store.
        """
        self.path = folder / STORE
        with ExitStack() as opened:
            opened.enter_context(_locked(folder))
            self.path.touch(mode=0o600, exist_ok=True)
            self._connection = opened.enter_context(closing(_connect(self.path)))
            self._prepare(folder / "inputs.csv")
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()

    @property
    def owner_token(self) -> str:
        """What the owner's link ends with."""
        return str(self._connection.execute("SELECT value FROM meta WHERE name = 'owner'").fetchone()[0])

    def raters(self) -> list[Rater]:
        """All raters, in the order in which their links were made."""
        rows = self._connection.execute("SELECT id, label, token FROM raters ORDER BY id")
        return [Rater(*row) for row in rows]

    def ensure_raters(self, n_raters: int) -> list[Rater]:
        """Make links until there are n_raters, and return all; none is ever taken away."""
        with self._writing() as connection:
            there = len(self.raters())
            for number in range(there + 1, n_raters + 1):
                connection.execute(
                    "INSERT INTO raters(label, token) VALUES (?, ?)",
                    (f"rater-{number}", secrets.token_urlsafe(TOKEN_BYTES)),
                )
        return self.raters()

    def counts(self) -> list[tuple[str, int, int]]:
        """Return input id, ratings and yes of every input that was rated."""
        rows = self._connection.execute("SELECT input, count(*), sum(rating) FROM answers GROUP BY input")
        return rows.fetchall()

    def assignment_ids(self) -> list[str]:
        """Return the ids of all assignments."""
        return [row[0] for row in self._connection.execute("SELECT id FROM assignments")]

    def given(self) -> list[tuple[int, str]]:
        """Return rater and input id of everything that was ever assigned."""
        return self._connection.execute("SELECT rater, input FROM assignment_inputs").fetchall()

    def seen(self) -> dict[int, float]:
        """Return when each rater last changed something."""
        rows = self._connection.execute("SELECT rater, max(touched) FROM assignments GROUP BY rater")
        return dict(rows.fetchall())

    def unsubmitted(self, rater: int | None = None) -> list[Assignment]:
        """Return the assignments that no answer was given to yet, of one rater or of all."""
        if rater is None:
            return self._assignments("submitted IS NULL")
        return self._assignments("rater = ? AND submitted IS NULL ORDER BY number", (rater,))

    def current(self, rater: int) -> Assignment | None:
        """Return what a rater works on: a reopened assignment, else the first unsubmitted one."""
        reopened = self._assignments("rater = ? AND reopened", (rater,))
        return next(iter(reopened or self.unsubmitted(rater)), None)

    def last_submitted(self, rater: int) -> Assignment | None:
        """Return the assignment that a rater submitted last."""
        where = "rater = ? AND submitted IS NOT NULL ORDER BY submitted DESC, number DESC LIMIT 1"
        return next(iter(self._assignments(where, (rater,))), None)

    def assignment(self, rater: int, assignment: str) -> Assignment | None:
        """Return a rater's assignment; None for another rater's as for one that never was."""
        return next(iter(self._assignments("id = ? AND rater = ?", (assignment, rater))), None)

    def done(self) -> dict[int, tuple[int, int]]:
        """Return how many tasks and ratings each rater submitted."""
        rows = self._connection.execute(
            """SELECT rater, count(DISTINCT assignment), count(*) FROM answers
            JOIN assignment_inputs USING (assignment, input) GROUP BY rater"""
        )
        return {rater: (n_tasks, n_ratings) for rater, n_tasks, n_ratings in rows}

    def add(self, rater: int, assignment: str, description: str, inputs: Sequence[str], now: float) -> None:
        """Give a rater inputs; sqlite3.IntegrityError if the rater ever had one of them."""
        with self._writing() as connection:
            connection.execute(
                """INSERT INTO assignments(id, rater, number, description, touched) VALUES (
                ?, ?, (SELECT count(*) + 1 FROM assignments WHERE rater = ?), ?, ?)""",
                (assignment, rater, rater, description, now),
            )
            connection.executemany(
                "INSERT INTO assignment_inputs(assignment, slot, input, rater) VALUES (?, ?, ?, ?)",
                [(assignment, slot, each, rater) for slot, each in enumerate(inputs)],
            )
            self._event(rater, assignment, "assigned", now, {})

    def save_draft(self, assignment: Assignment, marks: Sequence[str], version: int, now: float) -> None:
        """Keep what is marked so far. A power cut may lose it, a killed process does not."""
        with self._unsynced(), self._writing() as connection:
            connection.execute(
                "UPDATE assignments SET marks = ?, version = ?, touched = ? WHERE id = ?",
                (json.dumps(marks), version, now, assignment.id),
            )

    def submit(self, assignment: Assignment, marks: Sequence[str], seconds: float | None, now: float) -> None:
        """Answer every input of an assignment: marked is yes, unmarked no. Earlier answers are replaced.

        A correction's seconds are added to those of the first submission.
        """
        spent = None if seconds is None else seconds + (assignment.seconds or 0)
        with self._writing() as connection:
            connection.execute(
                """UPDATE assignments SET marks = ?, version = version + 1, touched = ?, submitted = ?,
                seconds = coalesce(?, seconds), reopened = 0 WHERE id = ?""",
                (json.dumps(marks), now, now, spent, assignment.id),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO answers(assignment, input, rating) VALUES (?, ?, ?)",
                [(assignment.id, each, each in marks) for each in assignment.inputs],
            )
            detail = {"marks": list(marks), "seconds": seconds}
            kind = "corrected" if assignment.reopened else "submitted"
            self._event(assignment.rater, assignment.id, kind, now, detail)

    def reopen(self, assignment: Assignment, now: float) -> None:
        """Let a rater correct a submitted assignment; its answers stay in force until then."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE assignments SET reopened = 1, touched = ? WHERE id = ?", (now, assignment.id)
            )
            self._event(assignment.rater, assignment.id, "reopened", now, {})

    def marked(self, assignment: Assignment) -> set[str]:
        """Return the inputs whose answer in force is yes."""
        rows = self._connection.execute(
            "SELECT input FROM answers WHERE assignment = ? AND rating", (assignment.id,)
        )
        return {row[0] for row in rows}

    def _assignments(self, where: str, values: Sequence[object] = ()) -> list[Assignment]:
        rows = self._connection.execute(ASSIGNMENT + where, values).fetchall()
        return [self._assignment(row) for row in rows]

    def _assignment(self, row: tuple[Any, ...]) -> Assignment:
        name, rater, number, description, touched, marks, version, submitted, seconds, reopened = row
        return Assignment(
            name, rater, number, description, touched, tuple(json.loads(marks)), version, submitted, seconds,
            bool(reopened), self._inputs(name),
        )  # fmt: skip

    def _inputs(self, assignment: str) -> tuple[str, ...]:
        rows = self._connection.execute(
            "SELECT input FROM assignment_inputs WHERE assignment = ? ORDER BY slot", (assignment,)
        )
        return tuple(row[0] for row in rows)

    def _event(
        self, rater: int, assignment: str, kind: str, now: float, detail: Mapping[str, object]
    ) -> None:
        self._connection.execute(
            "INSERT INTO events(at, rater, assignment, kind, detail) VALUES (?, ?, ?, ?, ?)",
            (now, rater, assignment, kind, json.dumps(detail)),
        )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Leave it to the next write to reach the disk itself: a killed process loses nothing by it."""
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    def _prepare(self, inputs: Path) -> None:
        if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            self._make(sha256(inputs))
        _check_unedited(self._connection, inputs)

    def _make(self, checksum: str) -> None:
        with self._writing() as connection:
            for statement in SCHEMA:
                connection.execute(statement)
            facts = {"owner": secrets.token_urlsafe(TOKEN_BYTES), "inputs": checksum}
            connection.executemany("INSERT INTO meta(name, value) VALUES (?, ?)", facts.items())


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that sees one state of `folder`/rating.sqlite and cannot change it.

    Raises AssayError where nobody rated on the page yet, or inputs.csv is not the one that rating began with.
    """
    path = folder / STORE
    if not path.is_file():
        raise AssayError(f"{path} is not there: nobody rated this study on the rating page yet (assay rate)")
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        _check_unedited(connection, folder / "inputs.csv")
        yield connection


def _check_unedited(connection: sqlite3.Connection, inputs: Path) -> None:
    began = connection.execute("SELECT value FROM meta WHERE name = 'inputs'").fetchone()[0]
    if began == (now := sha256(inputs)):
        return
    raise AssayError(
        f"{inputs} changed since rating began: {STORE} has ratings of another inputs.csv (checksum "
        f"{began[:12]}, now {now[:12]}). Put the old file back, or extend the study under another name"
    )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise AssayError(f"{path} cannot be read as a store of ratings ({error}): move it aside") from None
    return connection


def _locked(folder: Path) -> TextIO:
    stream = (folder / LOCK).open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise AssayError(
            f"the page of study {folder.name} is served by another process already: use its links, or stop it"
        ) from None
    return stream
