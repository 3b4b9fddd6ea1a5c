"""Write a frozen study: draws, inputs, tasks, images, and the pages that raters see."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd

from pipeline.crowd.composites import asked
from pipeline.errors import AssayError
from pipeline.files import replacing, write_json
from pipeline.study.frozen import FrozenStudy, fingerprints
from pipeline.study.hosting import image_urls
from pipeline.study.images import exported_name
from pipeline.study.pages import PAGES, page
from pipeline.study.settings import StudySettings, write_settings
from pipeline.study.tasks import make_inputs, make_tasks, refreshed_tasks

IMAGE_COLUMNS = ("image_id", "checksum", "file", "url", "synset", "source", "path", "member", "root")


@dataclass(frozen=True)
class Drawn:
    """What a study is made from.

    draws, undrawn and population carry `part`; facts by part; images has image_id, checksum, source, path,
    member, root and synset; checks (attention checks) has image_id, description and answer.
    """

    draws: pd.DataFrame
    undrawn: pd.DataFrame
    population: pd.DataFrame
    facts: Mapping[str, Any]
    images: pd.DataFrame
    checks: pd.DataFrame


def write_study(drawn: Drawn, settings: StudySettings, folder: Path, name: str) -> None:
    """Write the whole study into an empty folder."""
    inputs = make_inputs(asked(drawn.draws), drawn.checks, _checksums(drawn.images))
    images = _shown(drawn.images, set(inputs["image_id"]), settings)
    urls = dict(zip(images["image_id"], images["url"], strict=True))
    mark = _mark(name)
    tasks = make_tasks(inputs, asked(drawn.draws), urls, mark, settings.inputs_per_task, settings.seed)
    _write(drawn, settings, inputs, tasks, images, folder)


def write_extension(drawn: Drawn, old: FrozenStudy, folder: Path, name: str) -> None:
    """Write a study that holds `old` whole, its tasks unchanged, and new tasks for what `drawn` adds.

    `drawn` is the whole of the new study's draws, and all attention checks. A pair that the old study
    asks about is not asked again; an old check that is drawn now is an ordinary input.
    """
    settings = old.settings
    inputs = make_inputs(asked(drawn.draws), drawn.checks, _checksums(drawn.images))
    fresh = ~inputs["input_id"].isin(old.inputs["input_id"])
    texts = inputs.loc[fresh & (inputs["answer"] == ""), "description"]
    added = inputs[
        (fresh & (inputs["answer"] == "")) | (inputs["answer"] != "") & inputs["description"].isin(texts)
    ]
    images = _shown(drawn.images, set(inputs["image_id"]), settings)
    urls = dict(zip(images["image_id"], images["url"], strict=True))
    kept = refreshed_tasks(old.tasks, inputs, asked(drawn.draws), urls, settings.inputs_per_task)
    new = make_tasks(added, asked(drawn.draws), urls, _mark(name), settings.inputs_per_task, settings.seed)
    tasks = pd.concat([kept, new], ignore_index=True)
    ordered = [*old.inputs["input_id"], *inputs.loc[fresh, "input_id"]]
    _write(drawn, settings, inputs.set_index("input_id").loc[ordered].reset_index(), tasks, images, folder)


def write_urls(study: FrozenStudy, template: str) -> None:
    """Put other image addresses into images.csv, tasks.csv and label_studio.json: what is asked stays."""
    images = study.images.table.assign(url=image_urls(template, study.images.table))
    urls = dict(zip(images["image_id"], images["url"], strict=True))
    url_of = {key: urls[asked.image_id] for key, asked in study.asked.inputs.items()} | {"": ""}
    tasks = study.tasks.copy()
    for column in (c for c in tasks.columns if c.startswith("image_url")):
        tasks[column] = tasks[column.replace("image_url", "input_id")].map(url_of)
    _write_csv(images, study.folder / "images.csv")
    _write_csv(tasks, study.folder / "tasks.csv")
    write_json(study.folder / "label_studio.json", label_studio_tasks(study.inputs, urls))
    write_settings(study.folder / "settings.json", replace(study.settings, image_base_url=template))


def label_studio_tasks(inputs: pd.DataFrame, urls: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what Label Studio imports: one task an input."""
    rows = inputs[["input_id", "image_id", "description"]].itertuples(index=False, name=None)
    return [
        {"data": {"input_id": key, "image_url": urls[image], "description": text}}
        for key, image, text in rows
    ]


def _mark(name: str) -> str:
    """Return what a study's tasks are known by at MTurk: other people's `pilot` is another study."""
    return f"{name}-{uuid4().hex[:8]}"


def _checksums(images: pd.DataFrame) -> dict[str, str]:
    return dict(zip(images["image_id"], images["checksum"], strict=True))


def _shown(images: pd.DataFrame, asked: set[str], settings: StudySettings) -> pd.DataFrame:
    """Return images.csv: the images asked about, by id, with the names and addresses that raters see."""
    own = images[images["image_id"].isin(asked)].sort_values("image_id", ignore_index=True)
    if missing := sorted(asked - set(own["image_id"])):
        raise AssayError(f"attention check: the dataset has no image {missing[0]!r}")
    places = own[["checksum", "path", "member"]].itertuples(index=False, name=None)
    own = own.assign(file=[exported_name(*place) for place in places])
    return own.assign(url=image_urls(settings.image_base_url, own))[list(IMAGE_COLUMNS)]


def _write(
    drawn: Drawn,
    settings: StudySettings,
    inputs: pd.DataFrame,
    tasks: pd.DataFrame,
    images: pd.DataFrame,
    folder: Path,
) -> None:
    drawn.draws.to_parquet(folder / "study.parquet", index=False)
    drawn.undrawn.to_parquet(folder / "undrawn.parquet", index=False)
    if len(drawn.population):
        drawn.population.to_parquet(folder / "population.parquet", index=False)
    write_settings(folder / "settings.json", settings)
    for name, table in (("inputs", inputs), ("tasks", tasks), ("images", images)):
        _write_csv(table, folder / f"{name}.csv")
    for name in PAGES:
        (folder / name).write_text(page(name, settings.inputs_per_task), encoding="utf-8")
    urls = dict(zip(images["image_id"], images["url"], strict=True))
    write_json(folder / "label_studio.json", label_studio_tasks(inputs, urls))
    facts = {"parts": drawn.facts, "n_inputs": len(inputs), "n_tasks": len(tasks)}
    write_json(folder / "facts.json", facts | {"frozen": fingerprints(FrozenStudy(folder))})


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    with replacing(path) as temporary:
        # Every cell quoted: a bare CR in a text would end its row otherwise.
        table.to_csv(temporary, index=False, encoding="utf-8", lineterminator="\n", quoting=csv.QUOTE_ALL)
