"""A matching result and all that it came from, opened to be looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csc_array

from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.plan.project import Project
from pipeline.plan.shared import open_store
from pipeline.printing import find_result
from pipeline.run_roots import root_of_run
from pipeline.stages.sparse import read_codes
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table


@dataclass(frozen=True)
class Pairs:
    """Pairs of images that a matching result was tried on.

    table: one row a pair; the columns of the pairs stage's table (before, after: rows of the images) and
    those of the perturbation stage's. attributes: one row an attribute.
    """

    key: str
    table: pd.DataFrame
    attributes: pd.DataFrame
    images: ImageReader


class MatchingResult:
    """A result of the matching stage, by its key or its beginning.

    root and pairs_root: folders of the user's that hold the images of the dataset and of the pairs, where
    results do not hold them; by default those of the sweep that was last run with this result. Raises
    AssayError for a key of another stage, and naming the result that is not there any more.
    """

    def __init__(
        self, project: Project, key: str, root: Path | None = None, pairs_root: Path | None = None
    ) -> None:
        self._project, self._store = project, open_store(project)
        stage, self.key = find_result(self._store, key)
        if stage != "matching":
            raise AssayError(
                f"{key!r} is a result of the stage {stage}: give the key of a matching; "
                "the column matching_key of a sweep's points.csv lists them"
            )
        self.folder = self._store.folder(stage, self.key)
        self._meta = self._meta_of(self.folder)
        self._roots = {"dataset": root, "pairs": pairs_root}
        self.summary: dict[str, Any] = read_json(self.folder / "summary.json")
        self.attributes = read_table(self.folder / "attributes.parquet")
        self.held_out_split = str(self._meta["slice"]["evaluation"]["split"])

    @cached_property
    def coalitions(self) -> pd.DataFrame:
        """The headline's coalitions: attribute, step (from 1), latent, f1_train, f1 (held out)."""
        table = read_table(self.folder / "coalitions.parquet")
        if table["beta"].notna().any():
            table = table[table["beta"] == self.summary["beta"]]
        return table.sort_values(["attribute", "step"], kind="stable").reset_index(drop=True)

    @cached_property
    def held_out(self) -> NDArray[np.intp]:
        """The rows of the dataset's images that latents are judged on."""
        return rows_of_split(self._upstream("splits"), self.held_out_split, "evaluation.split")

    @cached_property
    def labels(self) -> NDArray[np.bool_]:
        """Which held-out image has which attribute, (n, A)."""
        labels = np.asarray(read_array(self._upstream("labels") / "attributes.npy"))
        found: NDArray[np.bool_] = labels[self.held_out] > 0
        return found

    @cached_property
    def codes(self) -> csc_array:
        """The codes of the held-out images, (n, D)."""
        return csc_array(read_codes(self._upstream("latents"), self.held_out))

    @cached_property
    def images(self) -> ImageReader:
        """The held-out images."""
        folder = self._above(self._upstream("splits"), "images")
        table = read_table(folder / "images.parquet").iloc[self.held_out].reset_index(drop=True)
        return self._reader(table, folder, "dataset")

    @cached_property
    def sae_facts(self) -> dict[str, Any]:
        """What the SAE is; empty where its result is not there any more."""
        keys = self._meta_of(self._upstream("latents"))["upstream"]
        path = self._store.folder("sae", str(keys["sae"])) / "facts.json"
        facts: dict[str, Any] = read_json(path) if path.is_file() else {}
        return facts

    @cached_property
    def pairs(self) -> Pairs | None:
        """The pairs of the perturbation made of this matching; of several the newest, None without one."""
        found = list(self._perturbations())
        if not found:
            return None
        folder = max(found, key=lambda item: (item[0], item[1].name))[1]
        source = self._above(folder, "pairs")
        measured = read_table(folder / "pairs.parquet")
        known = [name for name in ("added", "removed", "family") if name in measured]
        table = read_table(source / "pairs.parquet").merge(
            measured.drop(columns=known), on="pair_id", how="inner", validate="one_to_one"
        )
        images = self._reader(read_table(source / "images.parquet"), source, "pairs")
        return Pairs(folder.name, table, read_table(folder / "attributes.parquet"), images)

    def _perturbations(self) -> Iterator[tuple[float, Path]]:
        for key in self._store.keys("perturbation"):
            meta = self._store.meta("perturbation", key)
            if meta is not None and meta["upstream"].get("matching") == self.key:
                yield float(meta["started"]), self._store.folder("perturbation", key)

    def _upstream(self, stage: str) -> Path:
        return self._above(self.folder, stage)

    def _above(self, folder: Path, stage: str) -> Path:
        """Return the folder of the result of `stage` that the result in `folder` was made from."""
        key = str(self._meta_of(folder)["upstream"][stage])
        above = self._store.folder(stage, key)
        if not (above / "meta.json").is_file():
            raise AssayError(
                f"{stage}/{key}, of which {folder.parent.name}/{folder.name} was made, is not there any more "
                "(assay clean takes big results away): delete the matching result and run its sweep again"
            )
        return above

    def _meta_of(self, folder: Path) -> dict[str, Any]:
        meta = self._store.meta(folder.parent.name, folder.name)
        if meta is None:
            raise AssayError(f"{folder}/meta.json cannot be read: assay verify moves the result aside")
        return meta

    def _reader(self, table: pd.DataFrame, folder: Path, group: str) -> ImageReader:
        root = self._roots[group]
        if root is None and (table["source"] == "root").any():
            root = root_of_run(self._project, "matching", self.key, group)
            if root is None:
                option = "--root" if group == "dataset" else "--pairs-root"
                raise AssayError(
                    f"matching/{self.key}: its images ({group}) lie in a folder of yours, results do not say "
                    f"where, and no sweep that was run with this result says it: give {option} FOLDER"
                )
        return ImageReader(table, root, folder)
