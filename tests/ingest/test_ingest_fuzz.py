"""Damaged files: an error that names the file, or a result in which every row is accounted for."""

import csv
import io
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from ingest_formats import (
    ANSWERS,
    FORMATS,
    STUDY,
    expected,
    found,
    ingest_files,
    plain_cells,
    rows_of,
    shown_cells,
    table_bytes,
    tick_cells,
)

from pipeline.errors import AssayError
from pipeline.ingest.ingesting import Ingested

JUNK = [
    "",
    " ",
    "\ufeff",
    "true",
    "image0",
    "t",
    "\u202e",
    "é",
    "💥",
    '"',
    "'",
    ",",
    "\n",
    "\r",
    "\0",
    "&amp;",
]
JUNK += ["9" * 30, "-1", "Input.task_id", "Answer.image0", "{}", "[{}]", "nan", "\ud800", "Rejected", "1e999"]
JUNK += ["<", "PAR1", "&amp;"]
VALUES = [None, 0, -1, 1e308, float("nan"), True, "", "yes", [], {}, [[]], [{}], {"choices": "yes"}, "\ud800"]


def flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def insert_bytes(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.randbytes(rng.randint(1, 8)) + data[place:]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def drop_piece(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 300) :]


def repeat_piece(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    end = start + rng.randint(1, 2000)
    return data[:end] + data[start:]


def insert_text(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(JUNK).encode("utf-8", "surrogatepass") + data[place:]


def swap_delimiters(data: bytes, rng: random.Random) -> bytes:
    one, other = rng.sample([b",", b"\t", b";", b'"', b"\n", b":", b"{"], 2)
    return data.replace(one, other)


def recode(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(["utf-16", "utf-8-sig", "latin-1", "utf-16-be"]), "replace")


def in_table(change) -> object:
    """Return a change of a file's table; JSON and Parquet are left alone."""

    def changed(data: bytes, rng: random.Random) -> bytes:
        if data[:1] in b"[{P" or not data:
            return flip(data, rng) if data else data
        text = data.decode("utf-8", "replace")
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text else ","))
        rows = [row for row in rows if row]
        if not rows:
            return data
        change(rows, rng)
        stream = io.StringIO(newline="")
        csv.writer(stream).writerows(rows)
        return stream.getvalue().encode("utf-8", "replace")

    return changed


@in_table
def drop_column(rows, rng) -> None:
    place = rng.randrange(len(rows[0]))
    for row in rows:
        del row[place : place + 1]


@in_table
def rename_column(rows, rng) -> None:
    place = rng.randrange(len(rows[0]))
    rows[0][place] = rng.choice([rows[0][place].lower(), rng.choice(JUNK[:-2]), rng.choice(rows[0]) + "1"])


@in_table
def swap_headers(rows, rng) -> None:
    one, other = rng.randrange(len(rows[0])), rng.randrange(len(rows[0]))
    rows[0][one], rows[0][other] = rows[0][other], rows[0][one]


@in_table
def swap_cells(rows, rng) -> None:
    one, other = rng.choice(rows), rng.choice(rows)
    a, b = rng.randrange(len(one)), rng.randrange(len(other))
    one[a], other[b] = other[b], one[a]


@in_table
def change_cell(rows, rng) -> None:
    row = rng.choice(rows)
    row[rng.randrange(len(row))] = rng.choice(JUNK).replace("\ud800", "?")


@in_table
def shuffle_rows(rows, rng) -> None:
    rng.shuffle(rows)


def change_json(data: bytes, rng: random.Random) -> bytes:
    """Replace a random value of a JSON file."""
    try:
        value = json.loads(data)
    except ValueError:
        return change_cell(data, rng)
    holder, place = [value], 0
    while isinstance(holder[place], dict | list) and holder[place] and rng.random() < 0.9:
        holder = holder[place]
        place = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    if holder == [value]:
        return json.dumps(rng.choice(VALUES)).encode()
    holder[place] = rng.choice(VALUES)
    return json.dumps(value).encode()


CHANGES = [flip, insert_bytes, cut, drop_piece, repeat_piece, insert_text, swap_delimiters, recode]
CHANGES += [drop_column, rename_column, swap_headers, swap_cells, change_cell, shuffle_rows]
CHANGES += [change_json] * 4


def check(result: Ingested) -> None:
    """The identities, counted again from the tables."""
    ratings, rejected, counts = result.ratings, result.rejected, result.counts
    used = set(zip(ratings["source"], ratings["row"], strict=True))
    whole = set(zip(rejected["file"], rejected["row"], strict=True)) - used
    assert sum(facts.n_rows for facts in result.files) == counts.n_rows == len(used) + len(whole)
    assert counts.n_read == len(ratings) + len(rejected) and counts.n_used == len(ratings)
    assert rejected["reason"].str.len().gt(0).all() and rejected["row"].gt(0).all()
    pairs = {(given.image_id, given.description) for given in STUDY.inputs.values()}
    assert set(zip(ratings["image_id"], ratings["description"], strict=True)) <= pairs
    assert not ratings.duplicated(["worker", "image_id", "description"]).any()
    assert ratings["worker"].str.len().gt(0).all()
    texts = [column for table in (ratings, rejected) for _, column in table.items() if column.dtype == "str"]
    "".join([result.summary, *(text for column in texts for text in column.tolist())]).encode()


def fuzz(folder: Path, n_files: int, seed: int) -> Counter[str]:
    rng, outcomes = random.Random(seed), Counter[str]()
    names = list(FORMATS)
    for number in range(n_files):
        name = names[number % len(names)]
        data, changes = FORMATS[name], rng.choices(CHANGES, k=rng.choice([1, 1, 2, 3]))
        for change in changes:
            data = change(data, rng) if data else data
        try:
            check(ingest_files(folder, {"damaged": data}))
            outcomes["read"] += 1
        except AssayError as error:
            assert "damaged" in str(error)
            outcomes["refused"] += 1
        except BaseException as error:
            error.add_note(f"file {number} of seed {seed}: {name}, {[c.__name__ for c in changes]}")
            (folder / "failed").write_bytes(data)
            raise
    return outcomes


def test_500_damaged_files_are_refused_by_name_or_fully_accounted_for(tmp_path):
    outcomes = fuzz(tmp_path, 500, seed=1)
    assert outcomes.total() == 500 and min(outcomes["read"], outcomes["refused"]) > 50


@pytest.mark.long
def test_10_000_damaged_files_are_refused_by_name_or_fully_accounted_for(tmp_path):
    outcomes = fuzz(tmp_path, 10_000, seed=2)
    print(dict(outcomes))
    assert outcomes.total() == 10_000


@pytest.mark.parametrize("cells", [tick_cells, plain_cells, lambda a: plain_cells(a) | shown_cells(a)])
def test_a_changed_cell_costs_no_rating_of_another_row_silently(tmp_path, cells):
    rng = random.Random(3)
    base = rows_of(ANSWERS, cells)
    for _ in range(25):
        rows = [dict(row) for row in base]
        place = rng.randrange(len(rows))
        column = rng.choice(list(rows[place]))
        words = [word for word in JUNK if word not in ("\ud800", "\0")] + [r[column] for r in rows]
        rows[place][column] = rng.choice(words)
        result = ingest_files(tmp_path, {"damaged": table_bytes(rows)})
        check(result)
        votes = found(result)
        for number, given in enumerate(ANSWERS):
            if number != place:
                left = {key for key in expected([given]) if votes.get(key) != expected([given])[key]}
                named = result.rejected["assignment"].eq(given.identity).sum()
                assert len(left) <= named, (column, rows[place][column])


def test_a_file_cut_off_at_any_byte_loses_nothing_silently(tmp_path):
    data = FORMATS["mturk ticks"]
    wanted = expected(ANSWERS)
    for end in range(0, len(data), 29):
        try:
            result = ingest_files(tmp_path, {"damaged": data[:end]})
        except AssayError as error:
            assert "damaged" in str(error)
            continue
        check(result)
        assert found(result).items() <= wanted.items()
