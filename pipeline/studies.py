"""Freeze a study: what people are asked and paid to rate outlives every key."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd

from pipeline.crowd.aggregation import ERROR_RATE, PAIR, UNIFORM_PRIOR
from pipeline.crowd.composites import asked
from pipeline.datasets.reading import ImageReader
from pipeline.drift import drawn_settings
from pipeline.errors import AssayError
from pipeline.files import canonical, read_json
from pipeline.ingest.ingesting import ingest_into
from pipeline.plan.points import PlannedPoint
from pipeline.plan.stages import units_stage
from pipeline.plan.workflow import Prepared
from pipeline.rating.export import STORE, export_ratings
from pipeline.stages.place import part_of
from pipeline.study.frozen import (
    FrozenStudy,
    open_study,
    read_text_table,
    require_as_frozen,
    require_study_name,
)
from pipeline.study.images import exported_name
from pipeline.study.settings import StudySettings
from pipeline.study.writing import Drawn, write_extension, write_study

PART_AND_UNIT = ["part", "unit"]
SAME_PROBABILITY = 1e-6
PUBLISHED, PAGE_RATINGS = "mturk.json", "rating-page.csv"


def freeze_study(prepared: Prepared, name: str) -> Path:
    """Copy a sweep's draws, q, weights, tasks and image checksums to `studies/<name>/`.

    Raises AssayError where the study exists (a study never changes), where a draw is not there yet,
    where two points would be the same part of it, or where they disagree on how people are asked.
    """
    drawn, settings = _drawn(prepared), _settings(prepared)

    def write(drawn: Drawn, folder: Path) -> None:
        write_study(drawn, settings, folder, name)

    return _create(prepared.project.studies, name, drawn, write)


def extend_study(prepared: Prepared, old_name: str, name: str) -> Path:
    """Write `studies/<name>/`: the old study whole, and what the sweep adds to it (methods, or units).

    What was drawn is kept: a unit that the old study has is never drawn anew. Ratings given for the
    old study count for the new one. Raises AssayError as `freeze_study` does, and where the sweep adds
    nothing or was drawn over other images.
    """
    old = open_study(prepared.project.studies, old_name)
    require_as_frozen(old)

    def write(drawn: Drawn, folder: Path) -> None:
        write_extension(drawn, old, folder, name)
        _carry_over(old, folder)

    return _create(prepared.project.studies, name, _extended(old, _drawn(prepared)), write)


def _create(studies: Path, name: str, drawn: Drawn, write: Callable[[Drawn, Path], None]) -> Path:
    require_study_name(name)
    folder = studies / name
    if folder.exists():
        raise AssayError(f"studies/{name} exists and a study never changes: freeze under another name")
    hidden = folder.with_name(f".{name}.{uuid4().hex[:8]}")
    hidden.mkdir(parents=True)
    try:
        write(_holding(drawn, hidden / "images"), hidden)
        hidden.rename(folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return folder


def _holding(drawn: Drawn, folder: Path) -> Drawn:
    """Copy the images that no folder of the user's holds: rendered ones, or those of an older study."""
    held = drawn.images["source"] == "result"
    names = drawn.images[["checksum", "path", "member"]].itertuples(index=False, name=None)
    files = pd.Series([exported_name(*name) for name in names], index=drawn.images.index, dtype="str")
    for result, rows in drawn.images[held].groupby("held", sort=False):
        folder.mkdir(exist_ok=True)
        reader = ImageReader(rows, None, Path(str(result)))
        for row, file in enumerate(files[rows.index]):
            (folder / file).write_bytes(reader.encoded(row))
    images = drawn.images.assign(
        path=drawn.images["path"].mask(held, files), member=drawn.images["member"].mask(held, "")
    )
    return replace(drawn, images=images)


def _drawn(prepared: Prepared) -> Drawn:
    draws, undrawn, population, images = [], [], [], []
    facts: dict[str, Any] = {}
    for part, (point, sampling) in _parts(prepared).items():
        draws.append(pd.read_parquet(sampling / "study.parquet").assign(part=part))
        undrawn.append(pd.read_parquet(sampling / "undrawn.parquet").assign(part=part))
        if (path := sampling / "population.parquet").is_file():  # not of an older version's result
            population.append(pd.read_parquet(path).assign(part=part))
        facts[part] = read_json(sampling / "facts.json") | {"sampling_key": sampling.name}
        facts[part] |= {"origin": _origin(prepared, point), "settings": drawn_settings(point.values)}
        images.append(_images(prepared, point))
    if all(table.empty for table in draws):
        raise AssayError("no unit of the sweep has a text, so there is nothing to ask people about")
    checks = _checks(prepared.build.points[0].values["crowd"]["attention_checks"])
    wanted = {*pd.concat(draws)["image_id"], *checks["image_id"]}
    return Drawn(
        pd.concat(draws, ignore_index=True),
        pd.concat(undrawn, ignore_index=True),
        pd.concat(population, ignore_index=True) if population else pd.DataFrame(columns=PART_AND_UNIT),
        facts,
        _one_each(images, wanted),
        checks,
    )


def _origin(prepared: Prepared, point: PlannedPoint) -> dict[str, dict[str, str]]:
    """Return key and contents of the activations and splits that a part was drawn over."""
    origin = {}
    for stage in (units_stage(point.values), "splits"):
        meta = prepared.store.meta(stage, point.keys[stage])
        outputs = meta["outputs"] if meta else {}
        contents = canonical({name: facts["sha256"] for name, facts in outputs.items()}) if outputs else ""
        origin[stage] = {"key": point.keys[stage], "contents": contents}
    return origin


def _parts(prepared: Prepared) -> dict[str, tuple[PlannedPoint, Path]]:
    """Return for each part a point and the folder of its draws."""
    parts: dict[str, tuple[PlannedPoint, Path]] = {}
    for point in prepared.build.points:
        part, keys = part_of(point.values), point.keys
        if "sampling" not in keys or "images" not in keys:
            raise AssayError(
                f"the point {' '.join(point.overrides)} draws no images: freeze a sweep with scoring=crowd "
                "and crowd=simulated"
            )
        here = prepared.store.folder("sampling", keys["sampling"])
        if part in parts and parts[part][1] != here:
            raise AssayError(
                f"two points of the sweep are the part {part} of the study; freeze them as two studies"
            )
        if not (here / "meta.json").is_file():
            raise AssayError(f"sampling/{keys['sampling']} is not there yet: run the sweep first")
        parts[part] = (point, here)
    return parts


def _images(prepared: Prepared, point: PlannedPoint) -> pd.DataFrame:
    folder = prepared.store.folder("images", point.keys["images"])
    table = pd.read_parquet(
        folder / "images.parquet", columns=["image_id", "checksum", "source", "path", "member"]
    )
    root = point.values["dataset"].get("root")
    table = table.assign(root=str(root or ""), held=str(folder), synset="")
    table.loc[table["source"] == "result", "root"] = ""
    if point.values["dataset"]["name"] == "imagenet_val" and "{synset}" in str(
        point.values["crowd"]["image_base_url"]
    ):
        from pipeline.datasets.imagenet_val import synsets

        table["synset"] = synsets(table, root=root)
    return table


def _one_each(tables: list[pd.DataFrame], wanted: set[str]) -> pd.DataFrame:
    """Return the wanted images once each; AssayError where two parts mean different images by one id."""
    table = pd.concat(tables, ignore_index=True).drop_duplicates(["image_id", "checksum"], ignore_index=True)
    table = table[table["image_id"].isin(wanted)]
    if (twice := table.duplicated("image_id")).any():
        raise AssayError(
            f"two datasets of the sweep have an image {table.loc[twice, 'image_id'].iloc[0]!r}, and not the "
            "same one; freeze them as two studies"
        )
    return table


def _checks(path: Path | None) -> pd.DataFrame:
    columns = ["image_id", "description", "answer"]
    if path is None:
        return pd.DataFrame(columns=columns, dtype="str")
    if not path.is_file():
        raise AssayError(f"crowd.attention_checks={path}: no such file")
    table = read_text_table(path)
    if missing := [name for name in columns if name not in table]:
        raise AssayError(f"{path} lacks the column {missing[0]!r}; it has {', '.join(table.columns)}")
    return table


def _settings(prepared: Prepared) -> StudySettings:
    """Return the settings that all points share."""
    found = {canonical(_asking(point.values)): point for point in prepared.build.points}
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise AssayError(
            f"the points {' '.join(first.overrides)} and {' '.join(second.overrides)} ask people in "
            "different ways; freeze them as two studies"
        )
    values = prepared.build.points[0].values
    return StudySettings(**(_asking(values) | _believing(values)))


def _asking(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that say how people are asked; the aggregation's where it says when to stop."""
    names = ("inputs_per_task", "n_raters", "reward", "image_base_url", "stop", "seed")
    settings = {name: values["crowd"][name] for name in names}
    return settings | (_believing(values) if settings["stop"] == "decisive" else {})


def _believing(values: Mapping[str, Any]) -> dict[str, Any]:
    aggregation = values["aggregation"]
    prior = None if aggregation["name"] == "bragg_siglip" else aggregation.get("prior", UNIFORM_PRIOR)
    return {"error_rate": aggregation.get("error_rate", ERROR_RATE), "prior": prior}


def _extended(old: FrozenStudy, new: Drawn) -> Drawn:
    """Return the old study's draws and what `new` has of parts and units that the old one lacks."""
    old_facts = read_json(old.folder / "facts.json")["parts"]
    for part in sorted(old_facts.keys() & new.facts.keys()):
        _require_same_origin(part, old_facts[part], new.facts[part], old.name)
    undrawn = pd.read_parquet(old.folder / "undrawn.parquet")
    had = pd.MultiIndex.from_frame(pd.concat([old.draws[PART_AND_UNIT], undrawn[PART_AND_UNIT]]))
    added, left = (t[~pd.MultiIndex.from_frame(t[PART_AND_UNIT]).isin(had)] for t in (new.draws, new.undrawn))
    if added.empty and left.empty:
        raise AssayError(f"the sweep adds neither a method nor a unit to the study {old.name}")
    draws = pd.concat([old.draws, added], ignore_index=True)
    if "stratum" in draws:  # which a study frozen by an older version lacks
        draws["stratum"] = draws["stratum"].fillna(0).astype(int)
    _require_one_probability(draws)
    images = pd.concat([old.images.table.assign(held=str(old.folder / "images")), new.images])
    checks = _joined_checks(old, new.checks, draws)
    return Drawn(
        draws,
        pd.concat([undrawn, left], ignore_index=True),
        _joined_population(old, new, had),
        new.facts | old_facts,
        _one_each([images], {*draws["image_id"], *checks["image_id"]}),
        checks,
    )


def _joined_population(old: FrozenStudy, new: Drawn, had: pd.MultiIndex) -> pd.DataFrame:
    """Return what is known of all images, of units that the old study `had` and of added ones.

    Empty where the old study was frozen without.
    """
    path = old.folder / "population.parquet"
    if not path.is_file():
        return new.population.head(0)
    added = new.population[~pd.MultiIndex.from_frame(new.population[PART_AND_UNIT]).isin(had)]
    return pd.concat([pd.read_parquet(path), added], ignore_index=True)


def _require_same_origin(part: str, old: Mapping[str, Any], new: Mapping[str, Any], study: str) -> None:
    """Refuse draws over other activations or images than those that the part was drawn over."""
    for name in ("n_images", "split"):
        if old[name] != new[name]:
            raise AssayError(
                f"part {part}: {name} is {new[name]} in the sweep and {old[name]} in the study {study}; "
                "draws over other images cannot be joined"
            )
    for stage in old["origin"]:
        was, now = old["origin"][stage], new["origin"][stage]
        if was["key"] != now["key"] and (was["contents"] != now["contents"] or not was["contents"]):
            settings = old["settings"].keys() | new["settings"].keys()
            changed = [k for k in sorted(settings) if old["settings"].get(k) != new["settings"].get(k)]
            raise AssayError(
                f"part {part}: the sweep's {stage} ({now['key']}) are not those that the study {study} was "
                f"drawn over ({was['key']}){': ' + ', '.join(changed) + ' differ' if changed else ''}; "
                "freeze them as a study of their own"
            )


def _require_one_probability(draws: pd.DataFrame) -> None:
    ends = asked(draws).groupby(PAIR, sort=False)["probability"].agg(["min", "max"]).reset_index()
    differ = ends[ends["max"] - ends["min"] > SAME_PROBABILITY]
    if len(differ):
        image, text = differ[PAIR].iloc[0]
        raise AssayError(
            f"image {image!r} with {text!r} has another probability in the sweep than in the study: the "
            "scorer differs; freeze the sweep as a study of its own"
        )


def _joined_checks(old: FrozenStudy, new: pd.DataFrame, draws: pd.DataFrame) -> pd.DataFrame:
    """Return the attention checks of both, without those that are drawn now: these are ordinary inputs."""
    known = old.inputs.loc[old.inputs["answer"] != "", [*PAIR, "answer"]]
    both = pd.concat([known, new[[*PAIR, "answer"]]], ignore_index=True).drop_duplicates(ignore_index=True)
    drawn = pd.MultiIndex.from_frame(asked(draws)[PAIR])
    return both[~pd.MultiIndex.from_frame(both[PAIR]).isin(drawn)]


def _carry_over(old: FrozenStudy, folder: Path) -> None:
    """Take over what is published and what was rated; ratings are read anew by the new study's tasks."""
    if (old.folder / PUBLISHED).is_file():
        shutil.copyfile(old.folder / PUBLISHED, folder / PUBLISHED)
    files = folder / "ingested"
    if (old.folder / "ingested").is_dir():
        shutil.copytree(old.folder / "ingested", files, ignore=shutil.ignore_patterns(PAGE_RATINGS))
    if (old.folder / STORE).is_file():
        files.mkdir(exist_ok=True)
        export_ratings(old.folder, files / f"rating-page-of-{old.name}.csv")
    if files.is_dir():
        ingest_into(folder, [])
