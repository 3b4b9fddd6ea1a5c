"""responses: what a vision-language model says about a sheet of each unit's images."""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.datasets.reading import ImageReader
from pipeline.explainers.explanations import constant_units
from pipeline.llm.answer import Answer
from pipeline.llm.asking import ask, kept_answers
from pipeline.llm.cache import AnswerCache
from pipeline.llm.client import Client
from pipeline.llm.cost import Meter, dollars_text, estimate, require_affordable
from pipeline.llm.endpoint import open_endpoint, prices_of
from pipeline.llm.grid import draw_sheet
from pipeline.llm.prompt import prompt_text, read_prompt
from pipeline.llm.question import Question
from pipeline.llm.selection import Shown, shown_images
from pipeline.stages.pictures import open_images
from pipeline.stages.place import place_of
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_table, write_table
from pipeline.stages.unit_activations import unit_activations

Inputs = dict[str, Path]
TYPES = {"prompt_tokens": "Int64", "completion_tokens": "Int64"}


def run(config: dict[str, Any], inputs: Inputs, output: Path) -> list[str]:
    """Write responses.parquet: a row a unit that was asked.

    Columns: unit, request_sha (the file in the folder of kept answers), what the endpoint answered, and
    the image ids shown. A unit of constant activation is not asked. What an answer costs is said on
    stderr before the first request.
    """
    settings = config["explainer"]
    rows = rows_of_split(inputs["splits"], settings["split"], "explainer.split")
    images = read_table(inputs["images"] / "images.parquet").iloc[rows]
    shown = _shown(config, inputs, rows)
    questions = {unit: _question(settings, images, one) for unit, one in shown.items()}
    cache = AnswerCache(kept_folder(output))
    answers = kept_answers(questions, cache)
    missing = {unit: question for unit, question in questions.items() if unit not in answers}
    notes = []
    if missing:
        reader = open_images(config, inputs["images"], images)
        new, note = _ask(settings, missing, shown, reader, cache)
        answers |= new
        notes = [note]
    write_table(_table(questions, answers, shown, images["image_id"].tolist()), output / "responses.parquet")
    return notes


def kept_folder(output: Path) -> Path:
    """Return the folder of kept answers, which were paid for: `responses/` beside `results/`."""
    return output.parents[2] / "responses"


def _shown(config: Mapping[str, Any], inputs: Inputs, rows: NDArray[np.intp]) -> dict[int, Shown]:
    settings = config["explainer"]
    activations = unit_activations(inputs, rows)
    units = read_table(inputs["units"] / "units.parquet")["unit"].tolist()
    constant = constant_units(activations, units)
    shown = shown_images(
        activations,
        [unit for unit in units if unit not in constant],
        n_top=settings["n_top"],
        n_random=settings["n_random"],
        seed=settings["seed"] or 0,
        place=place_of(config),
    )
    return {one.unit: one for one in shown}


def _question(settings: Mapping[str, Any], images: pd.DataFrame, shown: Shown) -> Question:
    checksums: list[str] = images["checksum"].tolist()
    template = read_prompt(settings["prompt"])
    names = ("model", "cell", "max_tokens", "token_limit", "temperature", "seed", "detail")
    return Question(
        prompt=prompt_text(template, len(shown.top), len(shown.random)),
        top=tuple(checksums[row] for row in shown.top),
        random=tuple(checksums[row] for row in shown.random),
        **{name: settings[name] for name in names},
    )


def _ask(
    settings: Mapping[str, Any],
    questions: Mapping[int, Question],
    shown: Mapping[int, Shown],
    reader: ImageReader,
    cache: AnswerCache,
) -> tuple[dict[int, Answer], str]:
    """Say what the questions cost, ask them if that is allowed, and say what they did cost."""
    endpoint = open_endpoint(settings["base_url"], settings["api_key_env"], os.environ)
    prices = prices_of(*(settings[n] for n in ("base_url", "price_input", "price_output", "image_tokens")))
    longest = max((question.prompt for question in questions.values()), key=len)
    planned = estimate(len(questions), longest, settings["max_tokens"], prices)
    print(f"llm: {planned}, to {endpoint.url} (model {settings['model']})", file=sys.stderr, flush=True)
    require_affordable(planned, settings["max_cost"])
    cache.prepare()
    meter = Meter(prices, planned.dollars / planned.n_requests, settings["max_cost"])
    limits = {name: settings[name] for name in ("timeout", "max_retries")}
    client = Client(endpoint, settings["model"], meter, **limits)

    def draw(unit: int) -> bytes:
        top, random = ([reader[row] for row in group] for group in (shown[unit].top, shown[unit].random))
        return draw_sheet(top, random, settings["cell"])

    try:
        answers = ask(questions, draw, client, cache, concurrency=settings["concurrency"])
    finally:
        client.close()
    spent = f"{meter.input_tokens:,} input and {meter.output_tokens:,} output tokens"
    n_asked = "1 answer was" if len(questions) == 1 else f"{len(questions):,} answers were"
    # The note is shown again by later runs, which ask nothing.
    return answers, f"llm: {n_asked} asked for when this was made: {spent}, {dollars_text(meter.spent)}"


def _table(
    questions: Mapping[int, Question],
    answers: Mapping[int, Answer],
    shown: Mapping[int, Shown],
    ids: list[str],
) -> pd.DataFrame:
    fields = list(Answer.__dataclass_fields__)
    columns = ["unit", "request_sha", *fields, "top_images", "random_images"]
    rows = [
        {
            "unit": unit,
            "request_sha": question.sha,
            **asdict(answers[unit]),
            "top_images": [ids[row] for row in shown[unit].top],
            "random_images": [ids[row] for row in shown[unit].random],
        }
        for unit, question in questions.items()
    ]
    table = pd.DataFrame(rows, columns=columns)
    texts = {name: "str" for name in ("request_sha", *fields) if name not in TYPES}
    return table.astype({"unit": "int64", **TYPES, **texts})
