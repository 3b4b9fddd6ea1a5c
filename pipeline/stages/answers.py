"""answers: what the model says to each question, and how it sees image and question."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from PIL import Image

from pipeline.errors import AssayError
from pipeline.files import write_json
from pipeline.progress import tracked
from pipeline.stages.asking import list_samples, opened
from pipeline.stages.tables import write_table
from pipeline.vqa.sample import VqaSample, is_correct

if TYPE_CHECKING:
    from pipeline.vlms.prepared import Prepared
    from pipeline.vlms.vlm import Vlm

EMPTY = "empty_answer"
NOT_ASKED = "cannot_be_asked"
NOTHING: dict[str, Any] = {
    "ids": [],
    "answer": "",
    "log_probability": float("nan"),
    "correct": False,
    "n_patches": 0,
    "n_tokens": 0,
    "rows": 0,
    "columns": 0,
    "tokens": [],
    "footprints": [],
}


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write answers.parquet (a row a sample), canvases/ and masks/ (.png, named by row), summary.json.

    A sample that cannot be asked, and one whose answer is empty, has a flag and is left out of what follows.
    Raises AssayError where no sample is left.
    """
    samples = list_samples(config["questions"])
    (output / "canvases").mkdir()
    (output / "masks").mkdir()
    with opened(config, inputs["vlm"]) as vlm:
        rows = [
            _row(vlm, sample, config["vlm"]["max_new_tokens"], output, f"{i:05d}.png")
            for i, sample in enumerate(tracked(samples, "questions asked"))
        ]
        pad_norm = vlm.pad_norm
    table = pd.DataFrame(rows)
    flags = Counter(str(flag).split(":")[0] for flag in table["flag"] if flag)
    if flags.total() == len(table):
        raise _unanswered(config["questions"]["name"], table)
    asked = table[table["flag"] == ""]
    summary = {"n": len(table), "n_asked": len(asked), "accuracy": float(asked["correct"].mean())}
    write_table(table, output / "answers.parquet")
    write_json(output / "summary.json", {**summary, "pad_norm": pad_norm, **flags})
    return _notes(table, asked)


def _row(vlm: "Vlm", sample: VqaSample, max_new_tokens: int, output: Path, name: str) -> dict[str, Any]:
    row = {
        "sample_id": sample.sample_id,
        "category": sample.category,
        "question": sample.question,
        "expected": sample.answer,
        "picture": name,
        "has_mask": False,
    }
    try:
        prepared = vlm.prepare(sample.image(), sample.question)
    except AssayError as error:
        return {**row, **NOTHING, "flag": f"{NOT_ASKED}: {error}"}
    prepared.canvas.save(output / "canvases" / name)
    answer = vlm.answer(prepared, max_new_tokens=max_new_tokens)
    return {
        **row,
        "has_mask": _save_mask(vlm, sample, output / "masks" / name),
        "ids": answer.ids.tolist(),
        "answer": answer.text,
        "log_probability": answer.log_probability,
        "correct": is_correct(sample.answer, answer.text),
        **_seen(prepared),
        "flag": "" if len(answer.ids) else EMPTY,
    }


def _seen(prepared: "Prepared") -> dict[str, Any]:
    rows, columns = prepared.grid
    return {
        "n_patches": prepared.n_patches,
        "n_tokens": prepared.n_tokens,
        "rows": rows,
        "columns": columns,
        "tokens": list(prepared.tokens),
        "footprints": prepared.footprints.ravel().tolist(),
    }


def _save_mask(vlm: "Vlm", sample: VqaSample, path: Path) -> bool:
    """Save the mask as the model's canvas shows it, and say whether there is one; an empty one is none."""
    mask = None if sample.mask is None else sample.mask()
    if mask is None or not mask.any():
        return False
    drawn = Image.fromarray(mask).convert("RGB")
    vlm.prepare(drawn, sample.question).canvas.convert("L").point(lambda level: 255 * (level > 127)).save(
        path
    )
    return True


def _unanswered(name: str, table: pd.DataFrame) -> AssayError:
    """Return the error for questions of which none is left."""
    reasons = [str(flag).partition(": ")[2] for flag in table["flag"] if flag != EMPTY]
    n_empty = len(table) - len(reasons)
    found = [f"{len(reasons)} cannot be asked, first: {reasons[0]}"] if reasons else []
    if n_empty:
        found.append(
            f"to {n_empty} the model ends at once: look at eos_token_id and chat template in its folder, or "
            "ask with questions.suffix"
        )
    return AssayError(f"questions={name}: none of {len(table)} got an answer; {'; '.join(found)}")


def _notes(table: pd.DataFrame, asked: pd.DataFrame) -> list[str]:
    notes = [f"{int(asked['correct'].sum())} of {len(asked)} answers are right"]
    for flag, words in ((NOT_ASKED, "cannot be asked"), (EMPTY, "get an empty answer")):
        if len(found := table[table["flag"].str.startswith(flag)]):
            notes.append(
                f"{len(found)} of {len(table)} questions {words} and are left out, "
                f"first {found['sample_id'].iloc[0]} ({found['flag'].iloc[0]})"
            )
    return notes
