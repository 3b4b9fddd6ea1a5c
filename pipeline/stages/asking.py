"""Open a model, the samples and its answers, for the stages that ask it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.stages.keywords import keywords
from pipeline.stages.tables import read_table
from pipeline.vqa.registry import vqa_dataset
from pipeline.vqa.sample import VqaSample, select

if TYPE_CHECKING:
    from pipeline.vlms.game import VlmGame
    from pipeline.vlms.prepared import Prepared
    from pipeline.vlms.vlm import Answer, Vlm

PUBLISHED = "root"
"""The setting that datasets in a local folder have, of which some samples are taken."""


def list_samples(questions: Mapping[str, Any]) -> list[VqaSample]:
    """Return the samples that are asked; AssayError as the dataset has it, and where there are too few."""
    read, wanted = vqa_dataset(questions["name"]).read, questions["n_samples"]
    samples: list[VqaSample] = read(**keywords(read, questions))
    if PUBLISHED not in questions:
        return samples
    if wanted is not None and wanted > len(samples):
        raise AssayError(
            f"questions.n_samples={wanted}: {questions['name']} has {len(samples)} in "
            f"{questions[PUBLISHED]}; take questions.n_samples={len(samples)} or fewer, or null for all"
        )
    return select(samples, wanted, questions["seed"])


@contextmanager
def opened(config: Mapping[str, Any], vlm: Path) -> "Iterator[Vlm]":
    """Load the model that a result of the stage vlm states, with the stated exactness.

    Raises AssayError as the model's loader does, and where the device has too little memory for the block.
    """
    import torch

    from pipeline.models.device import exact
    from pipeline.vlms.registry import vlm_module

    facts, numerics = read_json(vlm / "facts.json"), config["numerics"]
    load = vlm_module(facts["name"]).load
    weights = {"source": "folder", "path": vlm, **facts.get("weights", {}), **_path(config)}
    settings = {"attention": config["vlm"]["attention"], "max_pixels": facts.get("max_pixels")}
    with exact(tf32=numerics["tf32"], threads=numerics["threads"]):
        try:
            yield load(
                weights=weights,
                dtype=numerics["precision"],
                device=config["device"],
                **keywords(load, settings),
            )
        except torch.OutOfMemoryError as error:
            raise _out_of_memory(config, str(error)) from error


def _out_of_memory(config: Mapping[str, Any], said: str) -> AssayError:
    batch_size, precision = config["loader"]["batch_size"], config["numerics"]["precision"]
    return AssayError(
        f"device={config['device']}: {said.split('. ')[0]}; lower loader.batch_size={batch_size} (it changes "
        f"speed alone), or change numerics.precision={precision} or vlm.max_pixels, which changes results"
    )


def _path(config: Mapping[str, Any]) -> dict[str, Path]:
    return {"path": path} if (path := config["vlm"].get("weights", {}).get("path")) else {}


@dataclass(frozen=True)
class Answered:
    """A sample that can be asked, and the model's answer to it."""

    sample: VqaSample
    answer: "Answer"

    def prepared(self, vlm: "Vlm") -> "Prepared":
        """Return the prompt that the model answered."""
        return vlm.prepare(self.sample.image(), self.sample.question)

    def game(self, config: Mapping[str, Any], vlm: "Vlm", prepared: "Prepared") -> "VlmGame":
        """Return the game of the answer, in batches of `loader.batch_size` states."""
        from pipeline.vlms.game import VlmGame

        batch_size, radius = config["loader"]["batch_size"], config["game"]["blur_radius"]
        return VlmGame(vlm, prepared, self.answer, batch_size=batch_size, blur_radius=radius)


def read_answered(config: Mapping[str, Any], answers: Path) -> dict[str, Answered]:
    """Return the samples that have an answer by id, in their order."""
    from pipeline.vlms.vlm import Answer

    table = read_table(answers / "answers.parquet")
    found = {sample.sample_id: sample for sample in list_samples(config["questions"])}
    return {
        str(row["sample_id"]): Answered(
            found[str(row["sample_id"])],
            Answer(np.array(row["ids"], dtype=np.int64), str(row["answer"]), float(row["log_probability"])),
        )
        for _, row in usable(table).iterrows()
    }


def usable(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of samples that could be asked and got an answer."""
    return answers[answers["flag"] == ""]
