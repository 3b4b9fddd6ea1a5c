"""explanations: one method's text for each judged unit."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns, Explanations
from pipeline.explainers.registry import explainer
from pipeline.explainers.vocabulary import Vocabulary, distinct, read_vocabulary
from pipeline.stages.keywords import keywords
from pipeline.stages.place import place_of
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table, write_table
from pipeline.stages.unit_activations import unit_activations

Explain = Callable[..., Explanations]


@dataclass(frozen=True)
class Given:
    """What the stage knows: a point's config, the inputs' folders, and which of n_units are judged."""

    config: dict[str, Any]
    inputs: dict[str, Path]
    units: list[int]
    n_units: int

    @property
    def settings(self) -> dict[str, Any]:
        """The explainer's settings."""
        settings: dict[str, Any] = self.config["explainer"]
        return settings

    @property
    def rows(self) -> NDArray[np.intp]:
        """The images that the explainer may see."""
        return rows_of_split(self.inputs["splits"], self.settings["split"], "explainer.split")

    @property
    def names(self) -> list[str]:
        """The attributes' names."""
        names: list[str] = read_table(self.inputs["labels"] / "attributes.parquet")["name"].tolist()
        return names

    @property
    def activations(self) -> Columns:
        """The whole layer's activations on those images."""
        return unit_activations(self.inputs, self.rows)

    @property
    def attributes(self) -> NDArray[Any]:
        """The attributes (N, A) of those images."""
        return np.asarray(read_array(self.inputs["labels"] / "attributes.npy")[self.rows])

    def options(self, explain: Explain) -> dict[str, Any]:
        """The settings that `explain` has a parameter for, and the place if it asks for one."""
        return keywords(explain, {**self.settings, "place": self.settings.get("place", self._place())})

    def _place(self) -> str:
        return place_of(self.config) if "layer" in self.config and "model" in self.config else ""


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write explanations.parquet (method, unit, description, composition, ...) and unexplained.parquet."""
    settings = config["explainer"]
    table = read_table(inputs["units"] / "units.parquet")
    given = Given(config, inputs, table["unit"].tolist(), int(table["n_units"].iloc[0]))
    result = GATHER[settings["name"]](explainer(settings["name"]).explain, given)
    method = settings.get("method", settings["name"])
    explained = result.table.assign(method=method)
    write_table(_with_composition(explained), output / "explanations.parquet")
    write_table(result.unexplained.assign(method=method), output / "unexplained.parquet")
    left = len(result.unexplained)
    found = [f"{method} gives no text for {left} of {len(given.units)} units"] if left else []
    return [*result.notes, *found]


def _with_composition(table: pd.DataFrame) -> pd.DataFrame:
    """Put the column composition after description; blank where the method makes no composite texts."""
    cells = table["composition"] if "composition" in table else pd.Series("", table.index, dtype="str")
    rest = table.drop(columns="composition", errors="ignore")
    rest.insert(list(rest.columns).index("description") + 1, "composition", cells)
    return rest


def _from_file(explain: Explain, given: Given) -> Explanations:
    return explain(given.units, given.n_units, layer=given.config["layer"], **given.options(explain))


def _from_responses(explain: Explain, given: Given) -> Explanations:
    responses = read_table(given.inputs["responses"] / "responses.parquet")
    return explain(responses, given.units, **given.options(explain))


def _from_names(explain: Explain, given: Given) -> Explanations:
    return explain(given.names, given.units, **given.options(explain))


def _from_attributes(explain: Explain, given: Given) -> Explanations:
    return explain(given.activations, given.attributes, given.names, given.units, **given.options(explain))


def _from_words(explain: Explain, given: Given) -> Explanations:
    """Give the scorer's embeddings of the images and of the words of a vocabulary."""
    from pipeline.stages.calibrating import calibration_facts
    from pipeline.stages.open_scorer import open_scorer

    config, inputs = given.config, given.inputs
    group, embeddings = (
        ("explainer_scorer", "explainer_embeddings")
        if "explainer_scorer" in inputs
        else ("scorer", "image_embeddings")
    )
    vocabulary = _vocabulary(given)
    scorer = open_scorer(config[group], inputs[group])
    inference = {"device": config["device"], **config["numerics"]}
    texts = scorer.embed_texts(vocabulary.words, **inference)
    images = read_array(inputs[embeddings] / "image_embeddings.npy")
    options = {**given.options(explain), **keywords(explain, config["numerics"])}
    del options["vocabulary"]  # the setting is a file, the argument its words
    if "calibration" in config[group]:
        facts = calibration_facts(config[group], inputs, images, scorer, inference)
        options |= {name: facts[name] for name in ("a", "b")}
    seen = np.asarray(images[given.rows])
    result = explain(given.activations, seen, texts, vocabulary.words, given.units, **options)
    notes = (*vocabulary.notes(given.settings["name"]), *result.notes)
    return Explanations(result.table, result.unexplained, notes)


def _vocabulary(given: Given) -> Vocabulary:
    path = given.settings["vocabulary"]
    return read_vocabulary(path) if path else distinct(given.names)


GATHER: dict[str, Callable[[Explain, Given], Explanations]] = {
    "csv": _from_file,
    "published": _from_file,
    "llm": _from_responses,
    "random": _from_names,
    "top_concept": _from_attributes,
    "network_dissection": _from_attributes,
    "invert": _from_attributes,
    "le_label": _from_attributes,
    "clip_dissect": _from_words,
    "le_siglip": _from_words,
}
"""What each method is given; a method's own code is its module in pipeline/explainers."""
