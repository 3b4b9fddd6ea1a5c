"""explanations: one method's text for each judged unit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.explainers.explanations import Explanations
from pipeline.explainers.registry import explainer
from pipeline.explainers.vocabulary import read_vocabulary
from pipeline.stages.keywords import keywords
from pipeline.stages.place import place_of
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table, write_table

Inputs = dict[str, Path]


def run(config: dict[str, Any], inputs: Inputs, output: Path) -> list[str]:
    """Write explanations.parquet (method, unit, description, ...) and unexplained.parquet (unit, reason)."""
    settings = config["explainer"]
    units = read_table(inputs["units"] / "units.parquet")
    chosen = units["unit"].tolist()
    explain = explainer(settings["name"]).explain
    result: Explanations = GATHER[settings["name"]](
        explain, config, inputs, chosen, int(units["n_units"].iloc[0])
    )
    method = settings.get("method", settings["name"])
    write_table(result.table, output / "explanations.parquet")
    write_table(result.unexplained.assign(method=method), output / "unexplained.parquet")
    left = len(result.unexplained)
    found = [f"{method} gives no text for {left} of {len(chosen)} units"] if left else []
    return [*result.notes, *found]


def _csv(
    explain: Callable[..., Explanations], config: Any, inputs: Inputs, units: list[int], n_units: int
) -> Explanations:
    settings = config["explainer"]
    return explain(units, n_units, layer=config["layer"], **keywords(explain, settings))


def _random(
    explain: Callable[..., Explanations], config: Any, inputs: Inputs, units: list[int], n_units: int
) -> Explanations:
    return explain(_names(inputs), units, **keywords(explain, config["explainer"]), place=place_of(config))


def _top_concept(
    explain: Callable[..., Explanations], config: Any, inputs: Inputs, units: list[int], n_units: int
) -> Explanations:
    rows = _rows(config, inputs)
    activations = np.asarray(layer_array(inputs["activations"])[rows])
    attributes = np.asarray(read_array(inputs["labels"] / "attributes.npy")[rows])
    return explain(activations, attributes, _names(inputs), units)


def _clip_dissect(
    explain: Callable[..., Explanations], config: Any, inputs: Inputs, units: list[int], n_units: int
) -> Explanations:
    from pipeline.stages.open_scorer import open_scorer

    settings = config["explainer"]
    rows = _rows(config, inputs)
    vocabulary = read_vocabulary(settings["vocabulary"]) if settings["vocabulary"] else _names(inputs)
    scorer = open_scorer(config["scorer"], inputs["scorer"])
    texts = scorer.embed_texts(vocabulary, device=config["device"], **config["numerics"])
    images = np.asarray(read_array(inputs["image_embeddings"] / "image_embeddings.npy")[rows])
    activations = np.asarray(layer_array(inputs["activations"])[rows])
    options = {name: settings[name] for name in ("top", "lam", "temperature")}
    return explain(activations, images @ texts.T, vocabulary, units, **options)


GATHER = {"csv": _csv, "random": _random, "top_concept": _top_concept, "clip_dissect": _clip_dissect}
"""What each method is given; a method's own code is its module in pipeline/explainers."""


def _names(inputs: Inputs) -> list[str]:
    names: list[str] = read_table(inputs["labels"] / "attributes.parquet")["name"].tolist()
    return names


def _rows(config: Any, inputs: Inputs) -> Any:
    return rows_of_split(inputs["splits"], config["explainer"]["split"], "explainer.split")
