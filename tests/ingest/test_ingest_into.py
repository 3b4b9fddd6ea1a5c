import hashlib
import json
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from ingest_formats import (
    ANSWERS,
    FORMATS,
    STUDY,
    TASKS,
    answer,
    assignments,
    expected,
    found,
    json_lines,
    long_rows,
    mturk_csv,
    table_bytes,
    text_of,
)

from pipeline.errors import AssayError
from pipeline.ingest.ingesting import ingest_into
from pipeline.study.settings import StudySettings, write_settings

NAMES = ("ratings.parquet", "rejected.parquet", "summary.txt")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "studies" / "birds"
    folder.mkdir(parents=True)
    rows = [(key, i.image_id, i.description, "") for key, i in STUDY.inputs.items()]
    inputs = pd.DataFrame(rows, columns=["input_id", "image_id", "description", "answer"])
    inputs.to_csv(folder / "inputs.csv", index=False)
    tasks = [
        {"task_id": task, "description": text_of(STUDY, task)}
        | {f"input_id{j}": key for j, key in enumerate(slots)}
        for task, slots in STUDY.tasks.items()
    ]
    pd.DataFrame(tasks).to_csv(folder / "tasks.csv", index=False)
    columns = ["image_id", "checksum", "file", "url", "source", "path", "member", "root"]
    pd.DataFrame(columns=columns).to_csv(folder / "images.csv", index=False)
    pd.DataFrame({"draw": [0]}).to_parquet(folder / "study.parquet")
    write_settings(folder / "settings.json", StudySettings(**asdict(StudySettings(inputs_per_task=4))))
    return folder


def bring(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_are_kept_and_the_tables_are_written(study, tmp_path):
    data = FORMATS["mturk ticks"]
    result = ingest_into(study, [bring(tmp_path, "batch.csv", data)])
    kept = study / "ingested" / f"{hashlib.sha256(data).hexdigest()[:12]}-batch.csv"
    assert kept.read_bytes() == data
    pd.testing.assert_frame_equal(pd.read_parquet(study / "ratings.parquet"), result.ratings)
    pd.testing.assert_frame_equal(pd.read_parquet(study / "rejected.parquet"), result.rejected)
    assert (study / "summary.txt").read_text() == result.summary
    assert found(result) == expected(ANSWERS) and set(result.ratings["source"]) == {"batch.csv"}


REFUSED_WORK = mturk_csv([answer("11", TASKS[0], "ynny", status="Rejected")])


def test_without_any_usable_rating_there_is_no_table_of_ratings(study, tmp_path):
    result = ingest_into(study, [bring(tmp_path, "refused.csv", REFUSED_WORK)])
    assert result.ratings.empty and not (study / "ratings.parquet").exists()
    pd.testing.assert_frame_equal(pd.read_parquet(study / "rejected.parquet"), result.rejected)
    assert (study / "summary.txt").read_text() == result.summary
    assert "no rating can be used: there is no ratings.parquet" in result.summary
    result = ingest_into(study, [bring(tmp_path, "batch.csv", FORMATS["mturk plain"])])
    assert len(pd.read_parquet(study / "ratings.parquet")) == len(result.ratings) > 0
    assert "no rating can be used" not in (study / "summary.txt").read_text()


def test_ratings_of_which_none_is_left_are_removed(study, tmp_path):
    ingest_into(study, [bring(tmp_path, "batch.csv", FORMATS["mturk ticks"])])
    for kept in (study / "ingested").iterdir():
        kept.unlink()
    ingest_into(study, [bring(tmp_path, "refused.csv", REFUSED_WORK)])
    assert not (study / "ratings.parquet").exists() and (study / "rejected.parquet").exists()


def test_an_image_address_of_another_image_of_the_study_is_seen(study, tmp_path):
    columns = ["image_id", "checksum", "file", "url", "source", "path", "member", "root"]
    rows = [[f"img{j}", "", "", f"https://example.org/{p}.png", "", "", "", ""] for j, p in enumerate(URLS)]
    pd.DataFrame(rows, columns=columns).to_csv(study / "images.csv", index=False)
    result = ingest_into(study, [bring(tmp_path, "b.csv", FORMATS["mturk ticks"])])
    other = result.rejected[result.rejected["reason"].str.startswith("the task showed another image")]
    assert set(other["image_id"]) == {"img0", "img1"} and len(other) == len(result.rejected) == 8


URLS = ("img1", "img0", "img2", "img3", "new4", "new5")


def test_later_files_add_to_earlier_ones_and_order_does_not_matter(study, tmp_path):
    first = bring(tmp_path, "one.csv", mturk_csv(ANSWERS[:3]))
    second = bring(tmp_path, "two.csv", mturk_csv(ANSWERS[3:]))
    ingest_into(study, [second])
    result = ingest_into(study, [first])
    assert found(result) == expected(ANSWERS)
    assert [facts.source for facts in result.files] == ["one.csv", "two.csv"]


def test_the_same_bytes_again_are_noted_and_change_nothing(study, tmp_path):
    ingest_into(study, [bring(tmp_path, "batch.csv", FORMATS["mturk ticks"])])
    before = contents(study)
    result = ingest_into(study, [bring(tmp_path, "batch (1).csv", FORMATS["mturk ticks"])])
    assert result.notes == ("batch (1).csv: already ingested, not kept twice",)
    assert {k: v for k, v in contents(study).items() if k != "x"} == before


def test_without_files_the_tables_are_rebuilt(study, tmp_path):
    ingest_into(study, [bring(tmp_path, "batch.csv", FORMATS["mturk ticks"])])
    before = contents(study)
    for name in NAMES:
        (study / name).unlink()
    ingest_into(study, [])
    assert contents(study) == before


def test_a_study_without_any_file_gets_no_ratings(study):
    with pytest.raises(AssayError, match="holds no file"):
        ingest_into(study, [])
    assert not (study / "ratings.parquet").exists()


@pytest.mark.parametrize(
    "data", [b"", b"%PDF-1.4", b"\x89PNG\r\n", b"\x00\x01\x02", b"PK\x03\x04", b"a,b\n1,2\n"]
)
def test_an_unreadable_file_is_refused_before_anything_is_written(study, tmp_path, data):
    ingest_into(study, [bring(tmp_path, "good.csv", mturk_csv(ANSWERS[:2]))])
    before = contents(study)
    files = [bring(tmp_path, "more.csv", mturk_csv(ANSWERS[2:])), bring(tmp_path, "junk.bin", data)]
    with pytest.raises(AssayError, match=r"junk\.bin"):
        ingest_into(study, files)
    assert contents(study) == before


def test_a_file_that_was_changed_after_it_was_ingested_is_named(study, tmp_path):
    ingest_into(study, [bring(tmp_path, "batch.csv", FORMATS["mturk ticks"])])
    kept = next((study / "ingested").iterdir())
    kept.write_bytes(kept.read_bytes().replace(b"true", b"false"))
    with pytest.raises(AssayError, match="was changed after it was ingested"):
        ingest_into(study, [])


def test_two_files_of_one_name_are_both_kept(study, tmp_path):
    for place, given in (("a", ANSWERS[:3]), ("b", ANSWERS[3:])):
        (tmp_path / place).mkdir()
        result = ingest_into(study, [bring(tmp_path / place, "batch.csv", mturk_csv(given))])
    assert found(result) == expected(ANSWERS) and len(set(result.ratings["source"])) == 2
    assert found(ingest_into(study, [])) == expected(ANSWERS)


def test_collected_assignments_are_read_where_they_lie_and_found_by_their_hit(study):
    given = [{k: v for k, v in one.items() if k != "task_id"} for one in assignments(ANSWERS)]
    (study / "ingested").mkdir()
    (study / "ingested" / "mturk-production.jsonl").write_bytes(json_lines(given))
    hits = {task: {"hit_id": f"H-{task}", "hit_type_id": "T", "created": "", "group": "g"} for task in TASKS}
    (study / "mturk.json").write_text(json.dumps({"production": hits}))
    assert found(ingest_into(study, [])) == expected(ANSWERS)


def test_the_rating_pages_export_beside_a_batch_is_read(study, tmp_path):
    page = [row | {"assignment": f"page-{row['worker']}"} for row in long_rows(ANSWERS[3:])]
    files = [bring(tmp_path, "b.csv", mturk_csv(ANSWERS[:3])), bring(tmp_path, "r.csv", table_bytes(page))]
    assert found(ingest_into(study, files)) == expected(ANSWERS)


def test_a_very_long_name_is_kept_by_its_end(study, tmp_path):
    given = bring(tmp_path, "é" * 100 + ".csv", mturk_csv(ANSWERS))
    first = ingest_into(study, [given])
    again = ingest_into(study, [])
    pd.testing.assert_frame_equal(first.ratings, again.ratings)
    assert first.ratings["source"].iloc[0].endswith("é.csv")


def test_many_at_once_lose_no_file(study, tmp_path):
    paths = [bring(tmp_path, f"{k}.csv", mturk_csv(ANSWERS[k : k + 1])) for k in range(6)]
    threads = [threading.Thread(target=ingest_into, args=(study, [path])) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list((study / "ingested").iterdir())) == 6
    assert len(pd.read_parquet(study / "ratings.parquet")) == len(expected(ANSWERS))


def test_a_kill_while_writing_leaves_the_old_tables(study, tmp_path, monkeypatch):
    ingest_into(study, [bring(tmp_path, "one.csv", mturk_csv(ANSWERS[:2]))])
    before = contents(study)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pd.DataFrame, "to_parquet", die)
        with pytest.raises(KeyboardInterrupt):
            ingest_into(study, [bring(tmp_path, "two.csv", mturk_csv(ANSWERS[2:]))])
    assert {name: contents(study)[name] for name in before} == before
    assert found(ingest_into(study, [])) == expected(ANSWERS)


def test_no_heavy_package_is_needed():
    code = (
        "import sys, pipeline.ingest.ingesting; "
        "assert not {'torch', 'starlette', 'boto3'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_page_fits_its_readers(study, tmp_path):
    given = [
        answer(f"w{k:02}", task, "ynyn"[: 4 if j % 2 == 0 else 2])
        for k in range(40)
        for j, task in enumerate(TASKS)
    ]
    result = ingest_into(study, [bring(tmp_path, "b.csv", mturk_csv(given))])
    lines = result.summary.splitlines()
    assert len(lines) < 60 and max(map(len, lines)) <= 130
    assert "and 20 more workers" in result.summary
    assert "rows     160   160         0" in result.summary


def test_practice_in_the_sandbox_counts_until_the_real_work_is_there(study):
    kept = study / "ingested"
    kept.mkdir()
    (kept / "mturk-sandbox.jsonl").write_bytes(json_lines(assignments(ANSWERS[:2])))
    assert found(ingest_into(study, [])) == expected(ANSWERS[:2])
    (kept / "mturk-production.jsonl").write_bytes(json_lines(assignments(ANSWERS[2:])))
    result = ingest_into(study, [])
    assert found(result) == expected(ANSWERS[2:])
    practice = result.rejected[result.rejected["reason"].str.startswith("practice in the sandbox")]
    assert set(practice["file"]) == {"mturk-sandbox.jsonl"}
    assert len(practice) == 8


@pytest.mark.parametrize("text", ["{", "[]", '{"sandbox": 3}', '{"production": {"t": {"id": "H"}}}'])
def test_a_damaged_record_of_published_tasks_is_named(study, text):
    (study / "mturk.json").write_text(text)
    (study / "ingested").mkdir()
    (study / "ingested" / "mturk-sandbox.jsonl").write_bytes(json_lines(assignments(ANSWERS)))
    with pytest.raises(AssayError, match=r"mturk\.json is damaged"):
        ingest_into(study, [])
