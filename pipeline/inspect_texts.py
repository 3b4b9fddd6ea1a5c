"""What methods say of a unit, and how their texts score: rows of all explanations and scoring results."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.composition import from_json
from pipeline.inspect_results import Made, UnitsResult
from pipeline.lineages import Settings, differences
from pipeline.report.unit_page import Score, Text, letter_of, weight_text
from pipeline.stages.tables import read_table

KINDS = {"crowd": "raters", "automatic": "scorer", "oracle": "labels"}
"""Who judges in which kind of scoring; the first is shown first."""
NOT_FACTS = ("method", "unit", "description", "composition", "reason")
OWN = {"score": "the method's own score"}
LONGEST_FACT = 200
NAN = float("nan")


class UnitTexts:
    """Gathers the texts of one units result."""

    def __init__(self, result: UnitsResult) -> None:
        self._result = result
        self._tables = {made.key: _explained(made) for made in result.explanations}
        self._scores = {made.key: read_table(made.folder / "scoring.parquet") for made in result.scorings}

    def of(self, unit: int, deviations: NDArray[np.float64]) -> tuple[list[Text], dict[str, str]]:
        """Return a text, or a reason, a method and its settings, with letters by distinct text.

        deviations (n,): the unit's standardised activation. Scores of a study count where its draws have
        the same; the others' keys and methods are returned beside the texts.
        """
        found = [
            (made, row)
            for made in self._result.explanations
            for row in _rows_of(self._tables[made.key], unit)
        ]
        found.sort(key=lambda item: str(item[1]["method"]))
        told = _told_apart([str(row["method"]) for _, row in found], [made.settings for made, _ in found])
        texts = [self._text(made, row, words) for (made, row), words in zip(found, told, strict=True)]
        left_out = {}
        for made, method, description in self._of_studies(unit):
            if self._result.agrees(made, unit, deviations):
                texts = self._with_study(texts, made, unit, method, description)
            else:
                left_out[made.key] = method
        return _lettered(texts), left_out

    def _text(self, made: Made, row: dict[str, Any], settings: str) -> Text:
        composed = str(row.get("composition") or "")
        place = f"explanations/{made.key}, unit {row['unit']}"
        scorings = [one for one in self._result.scorings if one.lineage.get("explanations") == made.key]
        return Text(
            letter="",
            method=str(row["method"]),
            settings=settings,
            description=str(row.get("description") or ""),
            composition=from_json(composed, place) if composed else None,
            reason=str(row.get("reason") or ""),
            facts=tuple(_facts_of(row)),
            scores=tuple(self._scores_of(scorings, str(row["method"]), int(row["unit"]))),
        )

    def _of_studies(self, unit: int) -> Iterator[tuple[Made, str, str]]:
        """Yield scoring, method and text where a result does not say of which explanations it comes."""
        for made in self._result.scorings:
            if "explanations" not in made.lineage:
                table = self._scores[made.key]
                own = table[(table["unit"] == unit) & (table["description"] != "")]
                for method, description in zip(own["method"], own["description"], strict=True):
                    yield made, str(method), str(description)

    def _with_study(
        self, texts: Sequence[Text], made: Made, unit: int, method: str, description: str
    ) -> list[Text]:
        scores = tuple(self._scores_of([made], method, unit))
        fits = [(text.method, text.description) == (method, description) for text in texts]
        if not any(fits):
            return [*texts, Text("", method, "of a study", description, None, "", (), scores)]
        return [
            replace(text, scores=(*scores, *text.scores)) if fit else text
            for text, fit in zip(texts, fits, strict=True)
        ]

    def _scores_of(self, scorings: Sequence[Made], method: str, unit: int) -> list[Score]:
        """Return a method's scores of a unit: by raters, by scorers, by labels; each the newest first."""
        ordered = sorted(scorings, key=lambda made: list(KINDS).index(made.settings["scoring.name"]))
        judges = [_judge(made.settings) for made in ordered]
        told = _told_apart(judges, [made.settings for made in ordered])
        return [
            _score(self._scores[made.key], made, method, unit, judge, words)
            for made, judge, words in zip(ordered, judges, told, strict=True)
            if ((self._scores[made.key]["unit"] == unit) & (self._scores[made.key]["method"] == method)).any()
        ]


def _explained(made: Made) -> pd.DataFrame:
    """Return a method's texts and, for the units without one, its reasons."""
    texts = read_table(made.folder / "explanations.parquet")
    missing = read_table(made.folder / "unexplained.parquet")
    return pd.concat([texts, missing], ignore_index=True) if len(missing) else texts


def _rows_of(table: pd.DataFrame, unit: int) -> list[dict[str, Any]]:
    own = table[table["unit"] == unit]
    return [
        {str(name): value for name, value in row.items() if not pd.isna(value)}
        for row in own.to_dict("records")
    ]


def _facts_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a method adds to a text, blanks left out, long texts cut."""
    told = [(OWN.get(name, name), value) for name, value in row.items() if name not in NOT_FACTS]
    words = [(name, weight_text(value) if isinstance(value, float) else str(value)) for name, value in told]
    return [
        (name, text if len(text) <= LONGEST_FACT else f"{text[: LONGEST_FACT - 1]}…")
        for name, text in words
        if text
    ]


def _lettered(texts: Sequence[Text]) -> list[Text]:
    letters: dict[str, str] = {}
    for text in texts:
        if text.description and text.description not in letters:
            letters[text.description] = letter_of(len(letters))
    return [replace(text, letter=letters.get(text.description, "")) for text in texts]


def _told_apart(names: Sequence[str], settings: Sequence[Settings]) -> list[str]:
    """Return for each of several results in what it differs from those of the same name."""
    told = [""] * len(names)
    for name in dict.fromkeys(names):
        own = [i for i, other in enumerate(names) if other == name]
        for i, words in zip(own, differences([settings[i] for i in own]), strict=True):
            told[i] = words
    return told


def _judge(settings: Settings) -> str:
    kind = settings["scoring.name"]
    if kind == "automatic":
        return f"scorer {settings.get('scorer.name', '')}".strip()
    if kind == "oracle":
        return "labels of the dataset"
    raters = "simulated raters" if settings.get("crowd.name") == "simulated" else "raters"
    how = (settings.get("aggregation.name"), settings.get("estimator.name"))
    return ", ".join([raters, *(name for name in how if name)])


def _score(table: pd.DataFrame, made: Made, method: str, unit: int, judge: str, settings: str) -> Score:
    of_method = table[table["method"] == method]
    row = of_method[of_method["unit"] == unit].iloc[0]
    estimates = of_method["estimate"].dropna()
    estimate = float(row["estimate"])
    return Score(
        key=made.key,
        kind=KINDS[made.settings["scoring.name"]],
        by=judge,
        settings=settings,
        estimate=estimate,
        low=float(row["low"]),
        high=float(row["high"]),
        confidence=float(made.settings.get("estimator.confidence", NAN)),
        target=str(row["target"]),
        rank=0 if np.isnan(estimate) else int((estimates > estimate).sum()) + 1,
        n_ranked=len(estimates),
        n_images=int(row["n_images"]),
        n_ratings=int(row["n_ratings"]),
        flags=tuple(word for word in str(row["flags"]).split(";") if word),
    )
