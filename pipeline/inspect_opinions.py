"""What the scorer and raters say of a text on each image, from all scoring results that know it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.composition import Composition, Linear, combine, concepts_of
from pipeline.files import canonical
from pipeline.inspect_results import Made, UnitsResult
from pipeline.lineages import Settings, differences
from pipeline.stages.tables import read_array, read_table

FloatArray = NDArray[np.float64]
RATING = ["worker", "image_id", "description", "rating"]
DRAWN = ["image_id", "description", "probability"]
REMEMBERED = 64
"""Tables of ratings, and of draws, that are kept for other texts and units."""


@dataclass(frozen=True)
class Source:
    """Results of one stage with the same settings; name: in what the settings differ from others', or ""."""

    name: str
    results: tuple[Made, ...]


class Opinions:
    """Looks up texts among scoring results of one units result."""

    def __init__(self, result: UnitsResult) -> None:
        self._result = result
        self._scorers, self._crowds = self._sources("probabilities"), self._sources("crowd")
        self._ids = pd.Index(result.images.ids)
        self._ratings, self._draws = lru_cache(REMEMBERED)(_ratings), lru_cache(REMEMBERED)(_draws)

    def words(
        self,
        description: str,
        composition: Composition | None,
        rows: Sequence[int],
        without: Collection[str] = (),
    ) -> list[str]:
        """Return for each image of `rows` what is said of a text, "" where nothing is.

        Ratings of a composite's concepts count on the images that were drawn for it alone: on others they
        were collected for other texts, and for some of its concepts at most. without: keys of scoring
        results that do not count.
        """
        concepts = [description, *(concepts_of(composition) if composition else ())]
        told: list[list[str]] = [[] for _ in rows]
        for source in _left(self._scorers, without):
            values = self._value(source, description, composition, concepts)
            for words, row in zip(told, rows, strict=True):
                if not isnan(values[row]):
                    words.append(_of_source(_value_text(float(values[row]), composition), source))
        for source in _left(self._crowds, without):
            votes = {concept: self._votes(source, concept) for concept in concepts}
            drawn = self._drawn_for(source, description) if composition else None
            for words, row in zip(told, rows, strict=True):
                own = {text: (yes[row], n[row]) for text, (yes, n) in votes.items()}
                if (drawn is None or drawn[row]) and (counted := _votes_text(own)):
                    words.append(_of_source(counted, source))
        return [" · ".join(words) for words in told]

    def _sources(self, stage: str) -> list[Source]:
        by_settings: dict[str, tuple[Settings, dict[str, Made]]] = {}
        for made in self._result.scorings:
            if stage in made.lineage:
                own = self._result.slice_of(made, stage)
                by_settings.setdefault(canonical(own), (own, {}))[1].setdefault(made.lineage[stage], made)
        told = differences([own for own, _ in by_settings.values()])
        return [
            Source(name, tuple(results.values()))
            for name, (_, results) in zip(told, by_settings.values(), strict=True)
        ]

    def _value(
        self, source: Source, description: str, composition: Composition | None, concepts: Sequence[str]
    ) -> FloatArray:
        """Return the scorer's value of a text on each image (n,), NaN where it is not known."""
        found = np.full(len(self._ids), np.nan)
        for made in source.results:
            known = self._probabilities(made, concepts)
            if description not in known and composition and {*concepts[1:]} <= known.keys():
                known[description] = combine(composition, known)
            if description in known:
                found = np.where(np.isnan(found), known[description], found)
        return found

    def _probabilities(self, made: Made, texts: Sequence[str]) -> dict[str, FloatArray]:
        """Return the probabilities (n,) of those texts that a result has, else those of its study's draws."""
        folder = self._result.above(made, "probabilities")
        if folder is None:
            return self._drawn(made, texts[0])
        columns = read_table(folder / "texts.parquet")["description"].tolist()
        array = read_array(folder / "probabilities.npy")
        return {
            text: np.asarray(array[self._result.rows, columns.index(text)], dtype=np.float64)
            for text in texts
            if text in columns
        }

    def _drawn(self, made: Made, text: str) -> dict[str, FloatArray]:
        draws = self._draws_of(made, text)
        if draws is None:
            return {}
        known = draws.drop_duplicates("image_id").set_index("image_id")["probability"]
        return {text: known.reindex(self._ids).to_numpy(dtype=np.float64)}

    def _draws_of(self, made: Made, text: str) -> pd.DataFrame | None:
        folder = self._result.above(made, "sampling")
        return self._draws(folder).get(text) if folder else None

    def _drawn_for(self, source: Source, text: str) -> NDArray[np.bool_]:
        """Say for each image whether a study of the source drew it for a text, (n,)."""
        found = np.zeros(len(self._ids), dtype=np.bool_)
        for made in source.results:
            if (draws := self._draws_of(made, text)) is not None:
                found |= self._ids.isin(draws["image_id"])
        return found

    def _votes(self, source: Source, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return yes votes and all votes on a text for each image, (n,) each."""
        tables = [
            self._ratings(folder)[text]
            for made in source.results
            if (folder := self._result.above(made, "crowd")) and text in self._ratings(folder)
        ]
        if not tables:
            none = np.zeros(len(self._ids), dtype=np.int64)
            return none, none
        votes = pd.concat(tables).drop_duplicates(["worker", "image_id"])
        counts = votes.groupby("image_id")["rating"].agg(["sum", "count"]).reindex(self._ids, fill_value=0)
        return counts["sum"].to_numpy(dtype=np.int64), counts["count"].to_numpy(dtype=np.int64)


def _ratings(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the ratings of each text."""
    table = pd.read_parquet(folder / "ratings.parquet", columns=RATING)
    return {str(text): own for text, own in table.groupby("description", sort=False)}


def _draws(folder: Path) -> dict[str, pd.DataFrame]:
    """Return what a study drew for each text; nothing where the study is gone."""
    path = folder / "study.parquet"
    table = pd.read_parquet(path, columns=DRAWN) if path.is_file() else pd.DataFrame(columns=DRAWN)
    return {str(text): own for text, own in table.groupby("description", sort=False)}


def _left(sources: Sequence[Source], without: Collection[str]) -> list[Source]:
    kept = [tuple(made for made in source.results if made.key not in without) for source in sources]
    return [Source(source.name, own) for source, own in zip(sources, kept, strict=True) if own]


def _of_source(words: str, source: Source) -> str:
    return f"{words} ({source.name})" if source.name else words


def _value_text(value: float, composition: Composition | None) -> str:
    """Return a probability in percent; the value of a weighted sum as a number."""
    return f"{value:.2f}" if isinstance(composition, Linear) else f"{100 * value:.0f}%"


def _votes_text(votes: Mapping[str, tuple[int, int]]) -> str:
    """Return "2 of 3 yes"; of a text that is rated concept by concept, "yes: red 2/3, blue 0/3"."""
    (yes, n_ratings), *parts = votes.values()
    if n_ratings:
        return f"{yes} of {n_ratings} yes"
    rated = zip([*votes][1:], parts, strict=True)
    told = [f"{concept} {own}/{n_own}" for concept, (own, n_own) in rated if n_own]
    return f"yes: {', '.join(told)}" if told else ""
