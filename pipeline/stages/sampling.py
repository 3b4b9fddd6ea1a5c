"""sampling: which images people rate for each unit and text: the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.composition import Composition, Linear, combine, concepts_of
from pipeline.crowd.arrays import is_constant, standardised
from pipeline.crowd.composites import COMPOSITION, PROBABILITIES, compositions, is_composite
from pipeline.crowd.correlation import importance_weights
from pipeline.crowd.population import one_bin, population_columns
from pipeline.crowd.samplers.draws import Draws
from pipeline.crowd.samplers.registry import sampler
from pipeline.errors import AssayError
from pipeline.files import read_json, write_json
from pipeline.seeds import generator
from pipeline.stages.keywords import keywords
from pipeline.stages.place import part_of, place_of
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table, write_table
from pipeline.stages.unit_activations import of_units

COLUMNS = (
    "draw",
    "method",
    "unit",
    "description",
    "image_id",
    "activation",
    "probability",
    "q",
    "weight",
    "multiplicity",
    "stratum",
    "inclusion",
    "flags",
)

TEXT = ["method", "unit", "description"]
CONSTANT_HERE = "constant activation on the evaluation images"
POPULATION = [*TEXT, "bin", "n_images", "probability", "activation", "product", "square"]

Columns = dict[str, NDArray[np.generic]]


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write study.parquet, undrawn.parquet, population.parquet and facts.json.

    A row a draw; a row a unit without a text, or whose activation is constant on the evaluation images; and
    what is known of all images of each unit and text. With ratings of people they are copied from the
    frozen study: nothing is drawn anew.
    """
    if "study" in config.get("crowd", {}):
        return copy_part(config, output)
    return draw_study(config, inputs, output)


def copy_part(config: dict[str, Any], output: Path) -> list[str]:
    """Write the part of a frozen study that belongs to this dataset, model, layer and method."""
    paths = config["crowd"]["study"]
    part = part_of(config)
    facts = read_json(paths["facts"])
    if part not in facts["parts"]:
        raise AssayError(
            f"{paths['facts'].parent} has no part {part}; it has {', '.join(sorted(facts['parts']))}"
        )
    for name in ("study", "undrawn", "population"):
        if name not in paths:
            continue  # a study frozen before this file existed
        table = read_table(paths[name])
        own = table[table["part"] == part].drop(columns="part").reset_index(drop=True)
        write_table(own, output / f"{name}.parquet")
    write_json(output / "facts.json", facts["parts"][part])
    return []


def draw_study(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Draw the images of every explained unit."""
    split = config["evaluation"]["split"]
    rows = rows_of_split(inputs["splits"], split, "evaluation.split")
    explanations = read_table(inputs["explanations"] / "explanations.parquet")
    activations = of_units(inputs, explanations["unit"].tolist(), rows)
    varies = np.array([not is_constant(column) for column in activations.T], dtype=bool)
    still = explanations.loc[~varies, TEXT].assign(reason=CONSTANT_HERE)
    explanations, activations = explanations[varies].reset_index(drop=True), activations[:, varies]
    made_of, concepts = compositions(explanations), Concepts(inputs["probabilities"], rows)
    image_ids = read_table(inputs["splits"] / "splits.parquet")["image_id"].to_numpy()[rows]
    studies, populations = [], []
    for column, row in enumerate(explanations[TEXT].to_dict("records")):
        composition = made_of[row["description"]]
        activation = np.asarray(activations[:, column], dtype=np.float64)
        probability = combine(composition, concepts.probabilities(composition))
        abar = standardised(activation)
        draws = draws_of(row, activation, probability, config["sampler"], place_of(config))
        studies.append(draw_columns(draws, image_ids, abar, probability))
        if is_composite(explanations).any():
            studies[-1] |= concepts.columns(composition, draws)
        known = one_bin if isinstance(composition, Linear) else population_columns
        populations.append(known(abar, probability))
    study = _study(explanations, studies)
    write_table(study, output / "study.parquet")
    population = _joined(explanations[TEXT], populations, POPULATION)
    write_table(population, output / "population.parquet")
    unexplained = read_table(inputs["explanations"] / "unexplained.parquet").assign(description="")
    write_table(pd.concat([unexplained, still], ignore_index=True), output / "undrawn.parquet")
    write_json(
        output / "facts.json",
        {
            "n_images": len(rows),
            "split": split,
            "sampler": config["sampler"]["name"],
            "coordinated": bool(config["sampler"].get("coordinated")),
        },
    )
    fallen = study.loc[study["flags"].str.contains("uniform_proposal"), "unit"].nunique()
    notes = {
        f"{fallen} units are drawn uniformly, because their probability is constant": fallen,
        f"{len(still)} units have a text and are not drawn: {CONSTANT_HERE}": len(still),
    }
    return [note for note, count in notes.items() if count]


@dataclass(frozen=True)
class Concepts:
    """The scorer's probabilities of the concepts of all texts on the images `rows`."""

    folder: Path
    rows: NDArray[np.intp]

    @cached_property
    def _columns(self) -> tuple[dict[str, int], NDArray[np.generic]]:
        texts = read_table(self.folder / "texts.parquet")["description"].tolist()
        return {text: i for i, text in enumerate(texts)}, read_array(self.folder / "probabilities.npy")

    def probabilities(self, composition: Composition) -> dict[str, NDArray[np.float64]]:
        """Return each concept's probabilities (n,)."""
        place, array = self._columns
        return {
            text: np.asarray(array[self.rows, place[text]], dtype=np.float64)
            for text in concepts_of(composition)
        }

    def columns(self, composition: Composition, draws: Draws) -> Columns:
        """Return concept_probabilities of the draws: a list a draw, empty for a text that is one concept."""
        cells = np.empty(len(draws.indices), dtype=object)
        own = [] if isinstance(composition, str) else [*self.probabilities(composition).values()]
        for draw, image in enumerate(draws.indices):
            cells[draw] = [float(values[image]) for values in own]
        return {PROBABILITIES: cells}


def _study(explanations: pd.DataFrame, parts: Sequence[Columns]) -> pd.DataFrame:
    """Return study.parquet: COLUMNS, and where a text is composite what it is made of."""
    if not is_composite(explanations).any():
        return _joined(explanations[TEXT], parts, COLUMNS)
    return _joined(explanations[[*TEXT, COMPOSITION]], parts, [*COLUMNS, COMPOSITION, PROBABILITIES])


def _joined(texts: pd.DataFrame, parts: Sequence[Columns], columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of all texts; parts: each text's own columns. A frame a text would be slow."""
    if not parts:
        return pd.DataFrame(columns=list(columns))
    lengths = [len(next(iter(part.values()))) for part in parts]
    table = texts.loc[texts.index.repeat(lengths)].reset_index(drop=True)
    own = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return table.assign(**own)[list(columns)]


def draws_of(
    row: Mapping[Any, Any],
    activation: NDArray[np.float64],
    probability: NDArray[np.float64],
    settings: dict[str, Any],
    place: str,
) -> Draws:
    """Return the draws of one unit and text over N evaluation images.

    The stream depends on (sampler.seed, `place`: model and layer, method, unit), so no
    other unit or method moves it; on no method where draws are `coordinated`, so that the methods' draws
    for a unit share images.
    """
    draw = sampler(settings["name"])
    whose = (row["unit"],) if settings.get("coordinated") else (row["method"], row["unit"])
    rng = generator(settings["seed"], "sampling", place, *whose)
    options = {name: value for name, value in settings.items() if name not in ("name", "seed")}
    return draw(activation, probability, rng, **keywords(draw, options))


def draw_columns(
    draws: Draws,
    image_ids: NDArray[np.generic],
    abar: NDArray[np.float64],
    probability: NDArray[np.float64],
) -> Columns:
    """Return the columns (n,) of study.parquet that differ by draw.

    abar (N,): the activation standardised over the evaluation images; NaN where it is constant.
    """
    index = draws.indices
    n = len(index)
    return {
        "draw": np.arange(n),
        "image_id": image_ids[index],
        "activation": abar[index],
        "probability": probability[index],
        "q": draws.q[index],
        "weight": importance_weights(draws.q[index], len(image_ids)),
        "multiplicity": np.bincount(index, minlength=len(image_ids))[index],
        "stratum": np.zeros(n, dtype=np.int64) if draws.stratum is None else draws.stratum,
        "inclusion": np.full(n, np.nan) if draws.inclusion is None else draws.inclusion,
        "flags": np.full(n, ";".join(draws.flags), dtype=object),
    }
