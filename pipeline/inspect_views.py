"""From an opened units result to what the pages of its units show."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.attribute_views import Pictures
from pipeline.crowd.arrays import standardised
from pipeline.errors import AssayError
from pipeline.inspect_opinions import Opinions
from pipeline.inspect_results import UnitsResult
from pipeline.inspect_texts import UnitTexts
from pipeline.report.unit_examples import Examples, examples, is_constant
from pipeline.report.unit_page import About, Facts, Group, Picture, Said, Text, UnitView, histogram_of

FloatArray = NDArray[np.float64]
Opinion = dict[str, dict[int, str]]
"""By letter of the text and row of the image."""
N_IMAGES = 8
"""Images a group."""
N_NAMED = 10
"""Judged units that a message names."""


class UnitViews:
    """Makes the views of a result's units."""

    def __init__(self, result: UnitsResult) -> None:
        self._result = result
        self._pictures = Pictures(result.images)
        self._opinions = Opinions(result)
        self._texts = UnitTexts(result)
        self._kind = "latent" if result.latents else "unit"

    def about(self, index: bool = False) -> About:
        """Return what all pages say of the result."""
        result = self._result
        place = result.place
        layer = f"layer {place['layer']} of {place.get('model.arch', '')}" if "layer" in place else ""
        what = "latents of an SAE on " if result.latents and layer else ""
        told = {
            "units": result.key,
            "layer": place.get("layer"),
            "model": place.get("model.arch"),
            "dataset": place.get("dataset.name"),
            "SAE": result.sae_facts.get("variant"),
            "dictionary size": result.sae_facts.get("dictionary_size"),
            "latents of the SAE" if result.latents else "units of the layer": result.n_units,
            f"judged {self._kind}s": len(result.table),
            "images": f"{len(result.rows)} ({result.split})",
            "explanations": len(result.explanations),
            "scorings": len(result.scorings),
            "older results of the same settings, not shown": result.n_older or None,
        }
        known = tuple((label, str(words)) for label, words in told.items() if words is not None)
        split = "" if result.split == "all" else result.split
        return About(result.key, f"{what}{layer}", split, len(result.rows), known, index, self._kind)

    def view(self, unit: int) -> UnitView:
        """Return all that a unit's page shows; AssayError where the layer has no such unit."""
        self.require([unit])
        activation = self._result.activation(unit)
        deviations = standardised(activation)
        texts, left_out = self._texts.of(unit, deviations)
        chosen = examples(activation, N_IMAGES, unit)
        judged = bool((self._result.table["unit"] == unit).any())
        return UnitView(
            unit=unit,
            judged=judged,
            facts=self._facts(unit, activation),
            texts=tuple(texts),
            groups=self._groups(activation, deviations, chosen, self._said(texts, chosen, left_out)),
            notes=tuple(_note(key, method) for key, method in left_out.items()),
        )

    def require(self, units: Sequence[int]) -> None:
        """Raise AssayError where no unit is named, or the layer has not one of them."""
        n_units, key = self._result.n_units, self._result.key
        if not units:
            judged = [str(unit) for unit in self._result.table["unit"].tolist()]
            told = ", ".join([*judged[:N_NAMED], *(["..."] if len(judged) > N_NAMED else [])])
            raise AssayError(f"give --unit K: the judged {self._kind}s are {told}")
        for unit in units:
            if unit >= n_units:
                raise AssayError(
                    f"--unit {unit}: the layer of units/{key} has {n_units} {self._kind}s, 0 to {n_units - 1}"
                )

    def images(self, view: UnitView) -> dict[str, Image.Image]:
        """Return the images that a view shows, by their ids."""
        images = self._result.images
        row_of = {image_id: row for row, image_id in enumerate(images.ids)}
        shown = [picture.image_id for group in view.groups for picture in group.pictures]
        return {image_id: images[row_of[image_id]] for image_id in shown}

    def _facts(self, unit: int, activation: FloatArray) -> Facts:
        table = self._result.table.set_index("unit")
        flags = str(table["flags"].get(unit, ""))
        if is_constant(activation):
            flags = "constant_activation"
        return Facts(
            mean=float(activation.mean()),
            sd=float(activation.std()),
            maximum=float(activation.max()),
            positive_share=float((activation > 0).mean()),
            sd_rank=int((table["sd"] > table["sd"].get(unit)).sum()) + 1 if unit in table.index else 0,
            n_judged=len(table),
            flags=tuple(word for word in flags.split(";") if word),
            histogram=histogram_of(activation),
        )

    def _said(self, texts: Sequence[Text], chosen: Examples, left_out: Collection[str]) -> Opinion:
        """Return what is said of each chosen image, by letter and row."""
        rows = np.concatenate([chosen.top, chosen.median, chosen.random]).tolist()
        found: Opinion = {}
        for text in texts:
            if text.letter and text.letter not in found:
                words = self._opinions.words(text.description, text.composition, rows, left_out)
                found[text.letter] = dict(zip(rows, words, strict=True))
        return found

    def _groups(
        self, activation: FloatArray, deviations: FloatArray, chosen: Examples, said: Opinion
    ) -> tuple[Group, ...]:
        def picture(row: int) -> Picture:
            known = tuple(Said(letter, words[row]) for letter, words in said.items() if words[row])
            return Picture(
                image_id=self._result.images.ids[row],
                data=self._pictures.show(row, False).data,
                rank=int(chosen.rank[row]),
                activation=float(activation[row]),
                standardised=float(deviations[row]),
                said=known,
            )

        n = len(activation)
        if is_constant(activation):
            own = tuple(picture(int(row)) for row in chosen.random)
            return (Group("random", f"Drawn from {n:,} images with a fixed seed.", own),)
        rules = {
            "top": (chosen.top, f"The largest activations of {n:,} images, largest first."),
            "median": (chosen.median, f"Those whose ranks are nearest to the middle of {n:,}."),
            "random": (chosen.random, "Drawn from all others with a fixed seed; the most active first."),
        }
        return tuple(
            Group(kind, rule, tuple(picture(int(row)) for row in own)) for kind, (own, rule) in rules.items()
        )


def _note(key: str, method: str) -> str:
    return (
        f"scoring/{key} is of a study of this layer ({method}), and is left out: its draws have other "
        "activations, or other images."
    )
