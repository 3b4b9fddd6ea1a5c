"""From an opened matching result to what the pages of its attributes show."""

from base64 import b64encode
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from pipeline.attribute_results import MatchingResult, Pairs
from pipeline.datasets.reading import ImageReader
from pipeline.report.attribute_examples import fires, missed, spread_over, strongest
from pipeline.report.attribute_page import (
    About,
    AttributeRow,
    AttributeView,
    LatentExamples,
    PairExample,
    PairSide,
    Perturbed,
    Picture,
    Step,
)

SIDE, QUALITY = 176, 82
"""Pixels of a picture's longer side at most, and of JPEG."""
N_STRONGEST, N_MISSES, N_PAIRS = 8, 8, 6
REMEMBERED = 4096
"""Pictures that are kept for other pages: an image often stands on several."""
NAN = float("nan")


class Pictures:
    """Small pictures of images as data URIs, made once each."""

    def __init__(self, images: ImageReader) -> None:
        self._images = images
        self._made = lru_cache(REMEMBERED)(self._make)

    def show(self, row: int, held: bool, note: str = "") -> Picture:
        """Return the picture of image `row`; AssayError names an image that is gone or changed."""
        return Picture(self._images.ids[row], self._made(row), held, note)

    def _make(self, row: int) -> str:
        image = self._images[row]
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        stream = BytesIO()
        image.save(stream, "JPEG", quality=QUALITY, subsampling=0)
        return f"data:image/jpeg;base64,{b64encode(stream.getvalue()).decode('ascii')}"


class Views:
    """Makes the views of a result's attributes, by their column."""

    def __init__(self, result: MatchingResult) -> None:
        self._result = result
        self._k = int(result.summary["k"])
        self._pictures = Pictures(result.images)
        self._pairs = result.pairs
        self._pair_pictures = Pictures(self._pairs.images) if self._pairs else None
        self._steps = {int(str(a)): rows for a, rows in result.coalitions.groupby("attribute")}

    def about(self) -> About:
        """Return what all pages say of the result."""
        result, facts = self._result, self._result.sae_facts
        told = {
            "matching": result.key,
            "matcher": str(result.summary["name"]),
            "mode": str(result.summary["mode"]),
            "beta": f"{result.summary['beta']:g}",
            "k": str(self._k),
            "SAE": str(facts.get("variant", "")),
            "dictionary size": _told(facts.get("dictionary_size")),
            "K": _told(facts.get("k")),
            "seed": _told(facts.get("seed")),
            "L0": f"{result.summary['l0']:.1f}",
            "pairs": f"perturbation {self._pairs.key}" if self._pairs else "none",
        }
        known = tuple((label, words) for label, words in told.items() if words)
        matched = str(result.summary["matched_on"])
        return About(result.key, known, matched, result.held_out_split, self._k, self._pairs is not None)

    def rows(self, pages: dict[int, str]) -> list[AttributeRow]:
        """Return every attribute's row of the index, by column; pages: the file of those that have one."""
        table = self._result.attributes
        changes = self._pairs.attributes.set_index("attribute") if self._pairs else pd.DataFrame()
        return [
            AttributeRow(
                name=str(row["name"]),
                family=str(row["family"]),
                n_matched=int(row["n_train"]),
                n_held_out=int(row["n_held_out"]),
                reason=str(row["reason"]),
                n_latents=int(row["n_latents"]),
                f1=float(row["f1"]),
                add=_at(changes, int(row["attribute"]), "add"),
                rem=_at(changes, int(row["attribute"]), "rem"),
                page=pages.get(int(row["attribute"]), ""),
            )
            for _, row in table.iterrows()
        ]

    def view(self, column: int, row: AttributeRow) -> AttributeView:
        """Return all that the page of the attribute in a column shows."""
        steps = self._steps_of(column)
        counted = [step for step in steps if step.counted]
        held = self._result.labels[:, column]
        misses = missed(self._result.codes, [step.latent for step in counted], held)
        return AttributeView(
            row=row,
            steps=tuple(steps),
            latents=tuple(self._examples(step, held) for step in counted),
            misses=tuple(self._pictures.show(int(i), True) for i in spread_over(misses, N_MISSES)),
            n_misses=len(misses),
            perturbed=self._perturbed(column),
        )

    def _steps_of(self, column: int) -> list[Step]:
        if column not in self._steps:
            return []
        names = ["step", "latent", "f1_train", "f1"]
        rows = self._steps[column][names].itertuples(index=False, name=None)
        return [
            Step(int(number), int(latent), float(matched), float(held_out), int(number) <= self._k)
            for number, latent, matched, held_out in rows
        ]

    def _examples(self, step: Step, held: np.ndarray) -> LatentExamples:
        codes = self._result.codes
        rows, values = strongest(codes, step.latent, N_STRONGEST)
        on, _ = fires(codes, step.latent)
        shown = [
            self._pictures.show(int(row), bool(held[row]), f"code {value:#.3g}".rstrip("."))
            for row, value in zip(rows, values, strict=True)
        ]
        return LatentExamples(step, len(on), int(held[on].sum()), tuple(shown))

    def _perturbed(self, column: int) -> Perturbed | None:
        if self._pairs is None:
            return None
        table = self._pairs.table
        own = np.flatnonzero(((table["added"] == column) | (table["removed"] == column)).to_numpy())
        chosen = table.iloc[spread_over(own, N_PAIRS)]
        by_attribute = self._pairs.attributes.set_index("attribute")
        n_stay = _at(by_attribute, column, "n_stay")
        return Perturbed(
            sides=tuple(_sides(self._pairs, column)),
            examples=tuple(self._pair(row, column) for _, row in chosen.iterrows()),
            dstay=_at(by_attribute, column, "dstay"),
            n_stay=0 if np.isnan(n_stay) else int(n_stay),
        )

    def _pair(self, row: "pd.Series[Any]", column: int) -> PairExample:
        assert self._pair_pictures is not None
        adds = int(row["added"]) == column
        side = "add" if adds else "rem"
        return PairExample(
            pair_id=str(row["pair_id"]),
            adds=adds,
            other=str(row["removed_name"] if adds else row["added_name"]),
            before=self._pair_pictures.show(int(row["before"]), not adds),
            after=self._pair_pictures.show(int(row["after"]), adds),
            delta=float(row[f"delta_{side}"]),
            graded=float(row[f"graded_{side}"]),
            empty=bool(row[f"empty_{side}"]),
        )


def _sides(pairs: Pairs, column: int) -> Iterator[PairSide]:
    """Yield what pairs that add an attribute, and pairs that remove it, do to its latents."""
    for name, side, sign in (("added", "add", 1), ("removed", "rem", -1)):
        changes = pairs.table.loc[pairs.table[name] == column, f"delta_{side}"].dropna()
        if len(changes):
            moved = sign * changes
            counts = [int(n) for n in ((moved > 0).sum(), (moved == 0).sum(), (moved < 0).sum())]
            yield PairSide(name == "added", len(changes), float(changes.mean()), *counts)


def _at(table: pd.DataFrame, row: int, column: str) -> float:
    if column not in table or row not in table.index:
        return NAN
    return float(table[column].to_numpy(dtype=np.float64)[table.index.get_loc(row)])


def _told(value: Any) -> str:
    return "" if value is None else str(value)
