"""sampling: which images people rate for each unit and text: the study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import standardised
from pipeline.crowd.correlation import importance_weights
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
    "flags",
)


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write study.parquet (a row a draw), undrawn.parquet (units without a text) and facts.json.

    With ratings of people they are copied from the frozen study: nothing is drawn anew.
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
    for name in ("study", "undrawn"):
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
    studies = [
        draw_unit(
            row,
            image_ids,
            np.asarray(activations[rows, row["unit"]], dtype=np.float64),
            np.asarray(probabilities[rows, texts.index(row["description"])], dtype=np.float64),
            config["sampler"],
            place_of(config),
        )
        for row in explanations[["method", "unit", "description"]].to_dict("records")
    ]
    study = pd.concat(studies, ignore_index=True) if studies else pd.DataFrame(columns=list(COLUMNS))
    write_table(study, output / "study.parquet")
    write_table(read_table(inputs["explanations"] / "unexplained.parquet"), output / "undrawn.parquet")
    write_json(
        output / "facts.json", {"n_images": len(rows), "split": split, "sampler": config["sampler"]["name"]}
    )
    fallen = study.loc[study["flags"].str.contains("uniform_proposal"), "unit"].nunique()
    return (
        [f"{fallen} units are drawn uniformly, because their activation or probability is constant"]
        if fallen
        else []
    )


def draw_unit(
    row: Mapping[Any, Any],
    image_ids: NDArray[np.generic],
    activation: NDArray[np.float64],
    probability: NDArray[np.float64],
    settings: dict[str, Any],
    place: str,
) -> pd.DataFrame:
    """Return one unit's draws over N evaluation images, activation standardised over them.

    The stream depends on (sampler.seed, `place`: model and layer, method, unit), so no
    other unit or method moves it. A constant activation is NaN in the study.
    """
    draw = sampler(settings["name"])
    rng = generator(settings["seed"], "sampling", place, row["method"], row["unit"])
    options = {name: value for name, value in settings.items() if name not in ("name", "seed")}
    draws = draw(activation, probability, rng, **keywords(draw, options))
    index = draws.indices
    counts = np.bincount(index, minlength=len(image_ids))
    return pd.DataFrame(
        {
            "draw": np.arange(len(index)),
            **row,
            "image_id": image_ids[index],
            "activation": standardised(activation)[index],
            "probability": probability[index],
            "q": draws.q[index],
            "weight": importance_weights(draws.q[index], len(image_ids)),
            "multiplicity": counts[index],
            "flags": ";".join(draws.flags),
        },
        columns=list(COLUMNS),
    )
