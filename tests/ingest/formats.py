"""A small study, answers to it, and a writer for every format that people bring."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

import pandas as pd

from pipeline.ingest.ingesting import Ingested, ingest
from pipeline.ingest.mturk_csv import FIXED
from pipeline.study.asked import Asked, Input, input_id, task_id

TURKLE_LACKS = {"AssignmentStatus", "RejectionTime", "Approve", "Reject"}
XMLNS = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"


@dataclass(frozen=True)
class Answer:
    """One worker's answer to one task: a vote a slot, None where the slot is empty."""

    worker: str
    task: str
    votes: tuple[bool | None, ...]
    assignment: str = ""
    status: str = "Submitted"
    submitted: str = "Thu Oct 09 07:30:20 UTC 2025"
    approval: str = ""
    rejection: str = ""
    seconds: str = "61"

    @property
    def identity(self) -> str:
        return self.assignment or f"A-{self.worker}-{self.task}"


def make_study(
    texts: Sequence[str], *, width: int, n_images: int, checks: Mapping[tuple[str, str], bool] | None = None
) -> Asked:
    """Return tasks of `width` slots: every text with images img0..., attention checks by (image, text)."""
    inputs, tasks = {}, {}
    for text in texts:
        images = [f"img{j}" for j in range(n_images)]
        ids = [input_id(image, text) for image in images]
        for key, image in zip(ids, images, strict=True):
            inputs[key] = Input(image, text, (checks or {}).get((image, text)))
        for start in range(0, n_images, width):
            slots = (*ids[start : start + width], *[""] * width)[:width]
            tasks[task_id(slots)] = slots
    return Asked(inputs, tasks)


STUDY = make_study(["red", 'a "big", <blue> & grey cat'], width=4, n_images=6)


def text_of(study: Asked, task: str) -> str:
    return study.inputs[next(key for key in study.tasks[task] if key)].description


def answer(worker: str, task: str, votes: str, study: Asked = STUDY, **more: str) -> Answer:
    """Votes as text: "y" and "n" by slot; slots that the task leaves empty need none."""
    said = [{"y": True, "n": False}[v] for v in votes]
    filled = [bool(key) for key in study.tasks[task]]
    return Answer(worker, task, tuple(said.pop(0) if full else None for full in filled), **more)


def expected(answers: Iterable[Answer], study: Asked = STUDY) -> dict[tuple[str, str, str], bool]:
    """The ratings that answers hold: by worker, image and text."""
    return {
        (a.worker, study.inputs[key].image_id, study.inputs[key].description): bool(vote)
        for a in answers
        for key, vote in zip(study.tasks[a.task], a.votes, strict=True)
        if key
    }


def found(result: Ingested) -> dict[tuple[str, str, str], bool]:
    table = result.ratings
    keys = zip(table["worker"], table["image_id"], table["description"], strict=True)
    votes = dict(zip(keys, table["rating"], strict=True))
    assert len(votes) == len(table)
    return votes


def reasons(result: Ingested) -> list[str]:
    return result.rejected["reason"].tolist()


def ingest_files(
    folder: Path, files: Mapping[str, bytes], study: Asked = STUDY, n_raters: int = 3, hits=None
) -> Ingested:
    paths = []
    for name, data in files.items():
        (folder / name).write_bytes(data)
        paths.append(folder / name)
    return ingest(paths, study, n_raters=n_raters, keep_hit_ids=hits)


def input_cells(study: Asked, task: str, first: int = 0) -> dict[str, str]:
    """The cells of tasks.csv, with the prefix of results."""
    text = text_of(study, task)
    cells = {"Input.task_id": task, "Input.study": "s", "Input.description": text}
    cells["Input.description_html"] = escape(text, {'"': "&quot;"})
    for slot, key in enumerate(study.tasks[task], first):
        image = study.inputs[key].image_id if key else ""
        cells[f"Input.image_url{slot}"] = image and f"https://example.org/{image}.png"
        cells[f"Input.input_id{slot}"] = key
    return cells


def fixed_cells(given: Answer) -> dict[str, str]:
    cells = dict.fromkeys(FIXED, "")
    return cells | {
        "HITId": f"H-{given.task}",
        "Reward": "$0.06",
        "AssignmentId": given.identity,
        "WorkerId": given.worker,
        "AssignmentStatus": given.status,
        "SubmitTime": given.submitted,
        "ApprovalTime": given.approval,
        "RejectionTime": given.rejection,
        "WorkTimeInSeconds": given.seconds,
        "LifetimeApprovalRate": "100% (5/5)",
    }


def tick_cells(given: Answer, yes: str = "true", no: str = "false", first: int = 0) -> dict[str, str]:
    spelling = {True: yes, False: no, None: no}
    return {f"Answer.image{j}.on": spelling[vote] for j, vote in enumerate(given.votes, first)}


def plain_cells(given: Answer, yes: str = "on", no: str = "", first: int = 0) -> dict[str, str]:
    spelling = {True: yes, False: no, None: no}
    return {f"Answer.image{j}": spelling[vote] for j, vote in enumerate(given.votes, first)}


def shown_cells(given: Answer) -> dict[str, str]:
    return {"Answer.shown": ",".join(str(j) for j, vote in enumerate(given.votes) if vote is not None)}


def json_cells(given: Answer, *, plain: bool = False, shown: bool = False) -> dict[str, str]:
    if plain:
        named = {f"image{j}": "on" for j, vote in enumerate(given.votes) if vote}
        named |= {"shown": shown_cells(given)["Answer.shown"]} if shown else {}
    else:
        named = {f"image{j}": {"on": bool(vote)} for j, vote in enumerate(given.votes)}
    return {"Answer.taskAnswers": json.dumps([named])}


def rows_of(
    answers: Iterable[Answer], cells=tick_cells, study: Asked = STUDY, *, inputs: bool = True
) -> list[dict[str, str]]:
    return [
        fixed_cells(a)
        | (input_cells(study, a.task) if inputs else {})
        | cells(a)
        | {"Approve": "", "Reject": ""}
        for a in answers
    ]


def table_bytes(
    rows: Sequence[Mapping[str, str]],
    *,
    delimiter: str = ",",
    end: str = "\n",
    encoding: str = "utf-8",
    columns: Sequence[str] | None = None,
    header: bool = True,
) -> bytes:
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(
        stream, names, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL, restval=""
    )
    if header:
        writer.writeheader()
    writer.writerows({name: row.get(name, "") for name in names} for row in rows)
    return stream.getvalue().encode(encoding)


def mturk_csv(answers: Iterable[Answer], cells=tick_cells, study: Asked = STUDY, **form) -> bytes:
    return table_bytes(rows_of(answers, cells, study), **form)


def turkle_csv(answers: Iterable[Answer], study: Asked = STUDY) -> bytes:
    rows = []
    for row in rows_of(answers, plain_cells, study):
        kept = {name: cell for name, cell in row.items() if name not in TURKLE_LACKS}
        rows.append(
            kept
            | {"Turkle.Username": row["WorkerId"], "WorkerId": f"7{row['WorkerId']}"}
            | {"SubmitTime": "2025-10-09T07:30:20Z"}
        )
    return table_bytes(rows)


def answer_xml(cells: Mapping[str, str]) -> str:
    parts = "".join(
        f"<Answer><QuestionIdentifier>{escape(name.removeprefix('Answer.'))}</QuestionIdentifier>"
        f"<FreeText>{escape(said)}</FreeText></Answer>"
        for name, said in cells.items()
        if said
    )
    head = '<?xml version="1.0" encoding="ASCII"?>'
    return f'{head}<QuestionFormAnswers xmlns="{XMLNS}">{parts}</QuestionFormAnswers>'


def assignments(answers: Iterable[Answer], cells=tick_cells) -> list[dict]:
    """Assignments in boto3's shape, with times as ISO text and the task's id."""
    return [
        {
            "AssignmentId": a.identity,
            "WorkerId": a.worker,
            "HITId": f"H-{a.task}",
            "AssignmentStatus": a.status,
            "AcceptTime": "2025-10-09T07:29:19+00:00",
            "SubmitTime": "2025-10-09T07:30:20+00:00",
            "Answer": answer_xml(cells(a)),
            "task_id": a.task,
        }
        for a in answers
    ]


def json_bytes(value) -> bytes:
    return json.dumps(value, indent=1).encode()


def json_lines(values: Iterable) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def label_studio(answers: Iterable[Answer], study: Asked = STUDY, *, emails: bool = False) -> list[dict]:
    by_task: dict[str, list[Answer]] = {}
    for a in answers:
        by_task.setdefault(a.task, []).append(a)
    numbers = iter(range(100, 10**6))
    return [
        {
            "id": number,
            "data": {k.removeprefix("Input."): v for k, v in input_cells(study, task).items()},
            "annotations": [_annotation(next(numbers), a, emails) for a in given],
            "predictions": [],
        }
        for number, (task, given) in enumerate(by_task.items(), 1)
    ]


def _annotation(number: int, given: Answer, emails: bool) -> dict:
    return {
        "id": number,
        "completed_by": {"id": 1, "email": given.worker} if emails else int(given.worker),
        "was_cancelled": False,
        "created_at": "2025-10-09T07:30:20.123456Z",
        "lead_time": 61.2,
        "result": [
            {
                "from_name": f"image{j}",
                "to_name": "page",
                "type": "choices",
                "value": {"choices": ["yes" if vote else "no"]},
            }
            for j, vote in enumerate(given.votes)
            if vote is not None
        ],
    }


def long_rows(answers: Iterable[Answer], study: Asked = STUDY) -> list[dict[str, str]]:
    return [
        {
            "worker": a.worker,
            "assignment": a.identity,
            "task": "",
            "input_id": key,
            "image_id": study.inputs[key].image_id,
            "description": study.inputs[key].description,
            "rating": "yes" if vote else "no",
            "status": "Submitted",
            "submitted": "2025-10-09T07:30:20+00:00",
            "seconds": "61",
        }
        for a in answers
        for key, vote in zip(study.tasks[a.task], a.votes, strict=True)
        if key
    ]


def long_parquet(answers: Iterable[Answer], study: Asked = STUDY) -> bytes:
    table = pd.DataFrame(long_rows(answers, study))
    table["rating"] = table["rating"] == "yes"
    table["seconds"] = table["seconds"].astype(float)
    stream = io.BytesIO()
    table.to_parquet(stream, index=False)
    return stream.getvalue()


TASKS = tuple(STUDY.tasks)
ANSWERS = (
    answer("11", TASKS[0], "ynny"),
    answer("12", TASKS[0], "yyny"),
    answer("13", TASKS[0], "nnnn"),
    answer("11", TASKS[1], "ny"),
    answer("12", TASKS[2], "nyyn"),
    answer("13", TASKS[3], "yn"),
)
RENAMED = {a.worker: f"{a.worker}@example.org" for a in ANSWERS}
FORMATS = {
    "mturk ticks": mturk_csv(ANSWERS),
    "mturk plain": mturk_csv(ANSWERS, plain_cells),
    "mturk plain shown": mturk_csv(ANSWERS, lambda a: plain_cells(a) | shown_cells(a)),
    "mturk taskAnswers": mturk_csv(ANSWERS, json_cells),
    "mturk taskAnswers plain": mturk_csv(ANSWERS, lambda a: json_cells(a, plain=True)),
    "mturk tsv": mturk_csv(ANSWERS, delimiter="\t"),
    "mturk semicolons": mturk_csv(ANSWERS, delimiter=";"),
    "turkle": turkle_csv(ANSWERS),
    "boto3 page": json_bytes({"NumResults": 6, "Assignments": assignments(ANSWERS)}),
    "boto3 list": json_bytes(assignments(ANSWERS)),
    "boto3 lines": json_lines(assignments(ANSWERS)),
    "boto3 taskAnswers": json_bytes(assignments(ANSWERS, json_cells)),
    "boto3 plain": json_bytes(assignments(ANSWERS, lambda a: plain_cells(a) | shown_cells(a))),
    "label studio": json_bytes(label_studio(ANSWERS)),
    "long csv": table_bytes(long_rows(ANSWERS)),
    "long tsv": table_bytes(long_rows(ANSWERS), delimiter="\t"),
    "long parquet": long_parquet(ANSWERS),
}


def emailed(answers: Iterable[Answer]) -> list[Answer]:
    return [replace(a, worker=RENAMED[a.worker]) for a in answers]
