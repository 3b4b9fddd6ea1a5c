"""The tables of the rating page's store."""

SCHEMA = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    """CREATE TABLE raters(
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL UNIQUE,
        token TEXT NOT NULL UNIQUE
    ) STRICT""",
    """CREATE TABLE assignments(
        id TEXT PRIMARY KEY,
        rater INTEGER NOT NULL REFERENCES raters(id),
        number INTEGER NOT NULL,
        description TEXT NOT NULL,
        touched REAL NOT NULL,
        marks TEXT NOT NULL DEFAULT '[]',
        version INTEGER NOT NULL DEFAULT 0,
        submitted REAL,
        seconds REAL,
        reopened INTEGER NOT NULL DEFAULT 0 CHECK(reopened = 0 OR submitted IS NOT NULL),
        UNIQUE(rater, number)
    ) STRICT""",
    "CREATE INDEX unsubmitted ON assignments(rater) WHERE submitted IS NULL",
    "CREATE INDEX reopened ON assignments(rater) WHERE reopened",
    "CREATE INDEX submitted ON assignments(rater, submitted)",
    """CREATE TABLE assignment_inputs(
        assignment TEXT NOT NULL REFERENCES assignments(id),
        slot INTEGER NOT NULL,
        input TEXT NOT NULL,
        rater INTEGER NOT NULL REFERENCES raters(id),
        PRIMARY KEY(assignment, slot),
        UNIQUE(assignment, input),
        UNIQUE(rater, input)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE answers(
        assignment TEXT NOT NULL,
        input TEXT NOT NULL,
        rating INTEGER NOT NULL CHECK(rating IN (0, 1)),
        PRIMARY KEY(assignment, input),
        FOREIGN KEY(assignment, input) REFERENCES assignment_inputs(assignment, input)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE events(
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        rater INTEGER NOT NULL REFERENCES raters(id),
        assignment TEXT NOT NULL REFERENCES assignments(id),
        kind TEXT NOT NULL,
        detail TEXT NOT NULL
    ) STRICT""",
)
