"""sampling: which images people rate for each unit and text: the study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import standardised
from pipeline.crowd.correlation import importance_weights
from pipeline.crowd.population import population_columns
from pipeline.crowd.samplers.draws import Draws
from pipeline.crowd.samplers.registry import sampler
from pipeline.errors import AssayError
from pipeline.files import read_json, write_json
from pipeline.seeds import generator
from pipeline.stages.keywords import keywords
from pipeline.stages.place import part_of, place_of
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table, write_table

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
POPULATION = [*TEXT, "bin", "n_images", "probability", "activation", "product", "square"]

Columns = Mapping[str, NDArray[np.generic]]


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write study.parquet, undrawn.parquet, population.parquet and facts.json.

    A row a draw; a row a unit without a text; and what is known of all images of each unit and text. With
    ratings of people they are copied from the frozen study: nothing is drawn anew.
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
    texts = read_table(inputs["probabilities"] / "texts.parquet")["description"].tolist()
    probabilities = read_array(inputs["probabilities"] / "probabilities.npy")
    activations = layer_array(inputs["activations"])
    image_ids = read_table(inputs["splits"] / "splits.parquet")["image_id"].to_numpy()[rows]
    studies, populations = [], []
    for row in explanations[TEXT].to_dict("records"):
        activation = np.asarray(activations[rows, row["unit"]], dtype=np.float64)
        probability = np.asarray(probabilities[rows, texts.index(row["description"])], dtype=np.float64)
        abar = standardised(activation)
        draws = draws_of(row, activation, probability, config["sampler"], place_of(config))
        studies.append(draw_columns(draws, image_ids, abar, probability))
        populations.append(population_columns(abar, probability))
    study = _joined(explanations[TEXT], studies, COLUMNS)
    write_table(study, output / "study.parquet")
    population = _joined(explanations[TEXT], populations, POPULATION)
    write_table(population, output / "population.parquet")
    write_table(read_table(inputs["explanations"] / "unexplained.parquet"), output / "undrawn.parquet")
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
    return (
        [f"{fallen} units are drawn uniformly, because their activation or probability is constant"]
        if fallen
        else []
    )


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
