"""A units result, and all that the store holds of its units: texts by every method, and scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.datasets.nearest import did_you_mean
from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError
from pipeline.explainers.explanations import Columns
from pipeline.files import canonical, read_json
from pipeline.inspect_files import ResultFiles
from pipeline.lineages import Lineages, Settings
from pipeline.plan.project import Project
from pipeline.plan.shared import open_store
from pipeline.printing import find_result
from pipeline.run_roots import root_of_run
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_table
from pipeline.stages.unit_activations import unit_activations

STAGES = ("units", "explanations", "scoring")
PLACE = ("dataset.name", "model.arch", "layer")
DEFAULT_SPLIT = "test"
TOLERANCE = 0.02
"""Standard deviations: a network computed on another machine may move a unit by so much."""


@dataclass(frozen=True)
class Made:
    """A result made of the units.

    lineage: stage to key of all that it was made of. settings: those that its units do not share, and which
    files were read.
    """

    key: str
    folder: Path
    lineage: dict[str, str]
    settings: Settings
    started: float


class UnitsResult:
    """The units result from which a result comes: its key may be that of explanations or a scoring.

    root: the dataset's folder, where results do not hold the images; by default that of the sweep that was
    last run with them. Of results with the same settings and files the newest counts, or the one that was
    asked for. Raises AssayError for a key from which no units are reached, naming the nearest, and naming
    the result that is not there any more.
    """

    def __init__(self, project: Project, key: str, root: Path | None = None) -> None:
        self._project, self._store, self._root = project, open_store(project), root
        self._lineages, self._files = Lineages(self._store), ResultFiles(project, self._store)
        self._asked = self._lineages.of(*self._named(key))
        self.key = self._asked.get("units") or self._units_of_study(key)
        self._own = self._lineages.of("units", self.key)
        self.table = read_table(self._there("units", self.key) / "units.parquet")
        self.settings = self._lineages.settings(self._own)
        self.latents = "latents" in self._own
        self.n_units = int(self.table["n_units"].iloc[0])
        source = "latents" if self.latents else "activations"
        self._source = {source: self._there(source, self._own[source])}

    @cached_property
    def explanations(self) -> list[Made]:
        """The explanations results of these units, by method's settings one."""
        return self._distinct("explanations", self._explanations)

    @cached_property
    def scorings(self) -> list[Made]:
        """The scoring results of these explanations, and of studies of this layer."""
        known = {made.key for made in self.explanations}
        of_known = [made for made in self._scorings if made.lineage.get("explanations") in known | {None}]
        return self._distinct("scoring", of_known)

    @property
    def n_older(self) -> int:
        """How many results have the settings of another, and do not count."""
        return len(self._explanations) + len(self._scorings) - len(self.explanations) - len(self.scorings)

    @cached_property
    def place(self) -> Settings:
        """Where the units are: dataset.name, model.arch, layer, as far as results still say it."""
        known = self._lineages.settings(self._asked) | self.settings
        return {name: known[name] for name in PLACE if name in known}

    @cached_property
    def split(self) -> str:
        """The split that scores are judged on; "test", or "all" without it, where nothing is scored."""
        for lineage in [self._asked, *(made.lineage for made in self._scorings)]:
            if "sampling" in lineage and (path := self._result(lineage, "sampling") / "facts.json").is_file():
                return str(read_json(path)["split"])
            if split := self._lineages.settings(lineage).get("evaluation.split"):
                return str(split)
        if self._splits is None:
            return "all"
        known = read_table(self._splits / "splits.parquet")["split"]
        return DEFAULT_SPLIT if (known == DEFAULT_SPLIT).any() else "all"

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the dataset's images in the split, (n,)."""
        if self._splits is None:
            return np.arange(self.activations.shape[0])
        return rows_of_split(self._splits, self.split, "evaluation.split")

    @cached_property
    def activations(self) -> Columns:
        """The activations of all units on all images, (N, U)."""
        return unit_activations(self._source)

    def activation(self, unit: int) -> NDArray[np.float64]:
        """Return a unit's activation on the images of the split, (n,)."""
        column = self.activations[:, [unit]][:, 0]
        return np.asarray(column[self.rows], dtype=np.float64)

    @cached_property
    def images(self) -> ImageReader:
        """The images of the split."""
        key = self._images_key
        folder = self._there("images", key)
        table = read_table(folder / "images.parquet").iloc[self.rows].reset_index(drop=True)
        root = self._root
        if root is None and (table["source"] == "root").any():
            root = root_of_run(self._project, "images", key, "dataset")
            if root is None:
                raise AssayError(
                    f"images/{key} lie in a folder of yours, results do not say where, and no sweep that was "
                    "run with them says it: give --root FOLDER"
                )
        return ImageReader(table, root, folder)

    @cached_property
    def sae_facts(self) -> dict[str, Any]:
        """What the SAE is whose latents the units are; empty for neurons, and where its result is gone."""
        path = self._result(self._own, "sae") / "facts.json" if "sae" in self._own else None
        return dict(read_json(path)) if path and path.is_file() else {}

    def agrees(self, made: Made, unit: int, deviations: NDArray[np.float64]) -> bool:
        """Say whether a study drew its images by this unit's standardised activation (n,) on these images."""
        folder = self.above(made, "sampling")
        path = folder / "study.parquet" if folder else Path()
        if not path.is_file():
            return False
        study = read_table(path)
        own = study[study["unit"] == unit]
        places = pd.Index(self.images.ids).get_indexer(pd.Index(own["image_id"]))
        recorded = own["activation"].to_numpy(dtype=np.float64)
        return bool(
            (places >= 0).all() and np.allclose(deviations[places], recorded, atol=TOLERANCE, equal_nan=True)
        )

    def above(self, made: Made, stage: str) -> Path | None:
        """Return the folder of the result of `stage` that a result was made of, None where it is gone."""
        if stage not in made.lineage:
            return None
        folder = self._result(made.lineage, stage)
        return folder if (folder / "meta.json").is_file() else None

    def slice_of(self, made: Made, stage: str) -> Settings:
        """Return the settings of the result of `stage` alone that a result was made of."""
        return self._told({stage: made.lineage[stage]})

    @cached_property
    def _explanations(self) -> list[Made]:
        return list(self._all_of("explanations"))

    @cached_property
    def _scorings(self) -> list[Made]:
        return list(self._all_of("scoring"))

    def _all_of(self, stage: str) -> Iterator[Made]:
        """Yield what was asked for, then the newest first."""
        found = [made for key in self._store.keys(stage) if (made := self._made(stage, key))]
        asked = self._asked.get(stage)
        yield from sorted(found, key=lambda made: (made.key != asked, -made.started, made.key))

    def _made(self, stage: str, key: str) -> Made | None:
        meta, lineage = self._store.meta(stage, key), self._lineages.of(stage, key)
        if meta is None or not self._is_own(lineage):
            return None
        extra = {name: above for name, above in lineage.items() if self._own.get(name) != above}
        folder = self._store.folder(stage, key)
        return Made(key, folder, lineage, self._told(extra), float(meta["started"]))

    def _told(self, lineage: dict[str, str]) -> Settings:
        return self._lineages.settings(lineage) | self._files.settings(lineage)

    def _is_own(self, lineage: dict[str, str]) -> bool:
        if "units" in lineage:
            return lineage["units"] == self.key
        known = self._lineages.settings(lineage)
        return "sampling" in lineage and all(known.get(name) == value for name, value in self.place.items())

    def _distinct(self, stage: str, found: Sequence[Made]) -> list[Made]:
        first: dict[str, Made] = {}
        for made in found:
            text = canonical([made.settings, made.lineage.get("explanations") if stage == "scoring" else ""])
            first.setdefault(text, made)
        return list(first.values())

    @cached_property
    def _splits(self) -> Path | None:
        """The splits of what was asked for, or of what is newest."""
        for lineage in [self._asked, *(made.lineage for made in self._scorings + self._explanations)]:
            if "splits" in lineage and self._store.meta("splits", lineage["splits"]):
                return self._result(lineage, "splits")
        images = self._own.get("images")
        others = [
            key
            for key in self._store.keys("splits")
            if self._lineages.of("splits", key).get("images") == images
        ]
        metas = {key: meta for key in others if (meta := self._store.meta("splits", key))}
        newest = max(metas, key=lambda key: (float(metas[key]["started"]), key), default=None)
        return self._store.folder("splits", newest) if newest else None

    @property
    def _images_key(self) -> str:
        if "images" in self._own:
            return self._own["images"]
        if self._splits is not None:  # the activations below latents may be cleaned away
            return self._lineages.of("splits", self._splits.name)["images"]
        raise AssayError(
            f"the results that say of which images units/{self.key} was made are not there any more: "
            "run its sweep again"
        )

    def _named(self, key: str) -> tuple[str, str]:
        """Return (stage, key) of the one result that a key or its beginning names."""
        name = key.rsplit("/", 1)[-1]
        known = [(stage, found) for stage in STAGES for found in self._store.keys(stage)]
        fits = [one for one in known if one[1].startswith(name) and self._store.meta(*one)]
        if len(fits) == 1:
            return fits[0]
        hint = did_you_mean(name, dict.fromkeys(found[: max(len(name), 6)] for _, found in known))
        if hint and not any(full.startswith(name) for _, full in known):
            raise AssayError(
                f"no result {key!r} in {self._store.home}{hint}; the columns units_key, "
                "explanations_key and scoring_key of a sweep's points.csv list the keys"
            )
        return find_result(self._store, key)

    def _units_of_study(self, key: str) -> str:
        """Return the newest units result of the layer that a study's scores are about."""
        known = self._lineages.settings(self._asked)
        stage = next(iter(self._asked))
        if "sampling" not in self._asked or not all(name in known for name in PLACE):
            raise AssayError(
                f"{key!r} is a result of the stage {stage}, which comes of no units: give the key of a "
                "units, explanations or scoring result; points.csv of a sweep lists them"
            )
        found = {}
        for units in self._store.keys("units"):
            own, meta = (
                self._lineages.settings(self._lineages.of("units", units)),
                self._store.meta("units", units),
            )
            if meta and all(own.get(name) == known[name] for name in PLACE):
                found[units] = float(meta["started"])
        if not found:
            place = "/".join(str(known[name]) for name in PLACE)
            raise AssayError(
                f"{stage}/{key} has its scores from a study, and there is no units result of {place} that "
                "says what its units are: run a sweep of that layer first"
            )
        return max(found, key=lambda units: (found[units], units))

    def _there(self, stage: str, key: str) -> Path:
        folder = self._store.folder(stage, key)
        if not (folder / "meta.json").is_file():
            if stage == "units":
                raise AssayError(
                    f"units/{key}, of which that result was made, is not there: run its sweep again"
                )
            raise AssayError(
                f"{stage}/{key}, of which units/{self.key} was made, is not there any more (assay clean "
                f"takes big results away): delete results/units/{self.key} and run its sweep again, which "
                "makes only what is missing"
            )
        return folder

    def _result(self, lineage: dict[str, str], stage: str) -> Path:
        return self._store.folder(stage, lineage[stage])
