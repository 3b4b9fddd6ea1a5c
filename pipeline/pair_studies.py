"""Between a data set of pairs and what checks it: a probe of a sweep, and the people of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from pipeline.datasets.reading import ImageReader
from pipeline.datasets.rows import Row
from pipeline.errors import AssayError
from pipeline.files import replacing, sha256
from pipeline.matching.probe import Probe, load_probe
from pipeline.pairs.checking import verdicts
from pipeline.pairs.edited import SHEET, candidate
from pipeline.pairs.files import existing_folder
from pipeline.pairs.judging import judged, questions
from pipeline.pairs.pair_set import PairSet, assemble
from pipeline.pairs.sheet import read_pairs, write_columns
from pipeline.plan.points import PlannedPoint
from pipeline.plan.workflow import Prepared
from pipeline.stages.capturing import capture_layers
from pipeline.stages.probe import WEIGHTS
from pipeline.stages.tables import read_table
from pipeline.study.frozen import FrozenStudy, read_text_table, require_study_name
from pipeline.study.settings import StudySettings
from pipeline.study.tasks import EDITS
from pipeline.study.writing import Drawn, write_study

QUESTIONS = "questions.csv"


def probed_point(prepared: Prepared) -> tuple[PlannedPoint, Path]:
    """Return a point of the sweep that has the sweep's one probe, and the folder of the probe.

    Raises AssayError where the sweep has none, several (of several models or layers), or where it was not
    run yet.
    """
    points = {p.keys["probe"]: p for p in prepared.build.points if "probe" in p.keys}
    if len(points) != 1:
        told = sorted(
            f"model.arch={p.values['model']['arch']} layer={p.values['layer']}" for p in points.values()
        )
        raise AssayError(
            f"the sweep has {len(points)} probes{': ' if told else ''}{', '.join(told)}; a check needs one: "
            "give a sweep of track=sae, and choose its model and layer"
        )
    ((key, point),) = points.items()
    folder = prepared.store.folder("probe", key)
    if not (folder / "meta.json").is_file():
        raise AssayError(f"probe/{key} is not there yet: run the sweep first")
    return point, folder


def check_pairs(root: Path, prepared: Prepared, odds: float = 2.0) -> pd.DataFrame:
    """Write the verdicts of a sweep's probe into `root`/pairs.csv; return them with what was left out."""
    point, folder = probed_point(prepared)
    labels = prepared.store.folder("labels", point.keys["labels"])
    attributes = read_table(labels / "attributes.parquet")["name"].tolist()
    return check_with(root, load_probe(folder / WEIGHTS), attributes, point.values, odds)


def check_with(
    root: Path, probe: Probe, attributes: Sequence[str], config: Mapping[str, Any], odds: float = 2.0
) -> pd.DataFrame:
    """Write a probe's verdicts into `root`/pairs.csv and return one row a pair.

    config: a point's model, layer, loader, device and numerics; odds: the least change that counts.
    Columns as `checking.verdicts` has them, and `reason`: why a pair has no verdict, "" where it has one.
    """
    root = existing_folder(root)
    found = _all_pairs(root, attributes)
    probabilities = probe.probabilities(_activations(found, root, config))
    before, after = (probabilities[found.table[side].to_numpy()] for side in ("before", "after"))
    known = np.isfinite(probe.biases)
    table = verdicts(found.table, before, after, known, odds)
    unknown = table["classifier"] == ""
    table = table.assign(reason=np.where(unknown, "the probe could not be trained on its attribute", ""))
    table = pd.concat([table, found.skipped[["pair_id", "reason"]]], ignore_index=True)
    table["classifier"] = table["classifier"].fillna("")
    write_columns(root, _cells(table))
    return table


def _all_pairs(root: Path, attributes: Sequence[str]) -> PairSet:
    """Return all pairs that can be used, accepted by people or not."""
    rows = [
        Row(row.line, {name: value for name, value in row.values.items() if name != "accepted"})
        for row in read_pairs(root).rows
    ]
    return assemble([candidate(root, root / SHEET, row) for row in rows], attributes, other_size="keep")


def _activations(found: PairSet, root: Path, config: Mapping[str, Any]) -> np.ndarray:
    with TemporaryDirectory() as folder:
        reader = ImageReader(found.manifest.table, root, root)
        capture_layers([dict(config)], reader, [Path(folder)])
        (path,) = Path(folder).glob("*.npy")
        return np.array(np.load(path, allow_pickle=False))


def _cells(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    numbers = [name for name in table.columns if name.startswith("p_")]
    columns = {name: table[name].map(lambda p: "" if np.isnan(p) else f"{p:.4g}") for name in numbers}
    columns["classifier"] = table["classifier"]
    pair_ids = table["pair_id"].tolist()
    return {name: dict(zip(pair_ids, cells.tolist(), strict=True)) for name, cells in columns.items()}


def ask_people(
    root: Path,
    studies: Path,
    name: str,
    settings: StudySettings,
    *,
    before: bool,
    texts: Mapping[str, str],
) -> FrozenStudy:
    """Write `studies/<name>/`: does each changed attribute show in the after (and before) images?

    Every pair is asked about that can be used. Raises AssayError for a study that exists, and where
    there is nothing to ask.
    """
    root = existing_folder(root)
    require_study_name(name)
    if (studies / name).exists():
        raise AssayError(f"studies/{name} exists and a study never changes: ask under another name")
    sheet = read_pairs(root)
    named = {row.values[change] for row in sheet.rows for change in ("added", "removed")}
    found = _all_pairs(root, sorted(named - {""}))
    usable = set(found.table["pair_id"])
    rows = [row for row in sheet.rows if row.values["pair_id"] in usable]
    asked = questions(rows, before=before, texts=texts)
    with replacing(studies / name) as folder:
        folder.mkdir()
        write_study(_drawn(asked, found, root), settings, folder, name)
        asked.to_csv(folder / QUESTIONS, index=False, lineterminator="\n")
    return FrozenStudy(studies / name)


def _drawn(asked: pd.DataFrame, found: PairSet, root: Path) -> Drawn:
    """Return the questions as a study's draws: an attribute is a unit, each image is drawn once."""
    inputs = asked[["image_id", "attribute", "description"]].drop_duplicates(ignore_index=True)
    unit = inputs.groupby("attribute", sort=True).ngroup()
    n_images = inputs.groupby("attribute")["image_id"].transform("size")
    draws = inputs.drop(columns="attribute").assign(
        draw=inputs.groupby("attribute").cumcount(),
        method=EDITS,
        unit=unit,
        activation=0.0,
        probability=0.5,
        q=1 / n_images,
        weight=1.0,
        multiplicity=1,
        stratum=0,
        inclusion=1.0,
        flags="",
        part=EDITS,
    )
    manifest = found.manifest.table
    images = manifest[["image_id", "checksum", "source", "path", "member"]].assign(
        root=str(root), held=str(root), synset=""
    )
    facts = {
        EDITS: {"pairs": str(root), "sheet": sha256(root / SHEET), "n_images": len(images), "split": "all"}
    }
    checks = pd.DataFrame(columns=["image_id", "description", "answer"], dtype=str)
    return Drawn(draws, pd.DataFrame(columns=["part", "unit"]), pd.DataFrame(), facts, images, checks)


def judge_pairs(root: Path, study: FrozenStudy) -> dict[str, int]:
    """Write what the people of a study said into `root`/pairs.csv; return the pairs by verdict.

    Raises AssayError for a study that does not ask about these pairs, and one without ratings.
    """
    root = existing_folder(root)
    path, ratings = study.folder / QUESTIONS, study.folder / "ratings.parquet"
    if not path.is_file():
        raise AssayError(
            f"the study {study.name} does not ask about pairs; assay pairs ask makes one that does"
        )
    if not ratings.is_file():
        raise AssayError(f"{ratings} is not there: first assay ingest FILE... --study {study.name}")
    asked = read_text_table(path)
    here = {row.values["pair_id"] for row in read_pairs(root).rows}
    if strange := sorted(set(asked["pair_id"]) - here):
        raise AssayError(
            f"the study {study.name} asks about a pair {strange[0]!r}, which {root / SHEET} lacks"
        )
    columns = judged(asked, pd.read_parquet(ratings))
    write_columns(root, columns)
    said = list(columns["accepted"].values())
    return {"accepted": said.count("yes"), "rejected": said.count("no"), "undecided": said.count("")}
