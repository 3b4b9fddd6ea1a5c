"""Where the images of a study are on the web."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pandas as pd

from pipeline.errors import AssayError

FIELDS = ("file", "path", "synset", "image_id")


def image_urls(template: str | None, images: pd.DataFrame) -> list[str]:
    """Return each image's address, "" for all where there is no template.

    images has image_id, path, synset ("" where there is none) and file. A template names places to
    fill: {file} (a name that tells raters nothing), {path} (the image's path in its dataset),
    {image_id}, {synset} (of ImageNet); without any, /{file} is put behind it. Cells are percent-encoded.
    Raises AssayError for another place, a template that is no http address, an image without synset.
    """
    if template is None:
        return [""] * len(images)
    if not re.match(r"https?://[^/\s]+", template):
        raise AssayError(
            f"crowd.image_base_url={template!r} is no address: it starts with https:// or http://"
        )
    places = re.findall(r"\{([^{}]*)\}", template)
    if unknown := [place for place in places if place not in FIELDS]:
        raise AssayError(
            f"crowd.image_base_url={template!r}: unknown place {{{unknown[0]}}}; known: {', '.join(FIELDS)}"
        )
    whole = template if places else template.rstrip("/") + "/{file}"
    rows = images[list(FIELDS)].to_dict("records")
    return [_filled(whole, places or ["file"], row) for row in rows]


def _filled(template: str, places: list[str], row: Mapping[Any, str]) -> str:
    if "synset" in places and not row["synset"]:
        raise AssayError(
            f"crowd.image_base_url has {{synset}}, but image {row['image_id']!r} ({row['path']}) has none: "
            "only dataset=imagenet_val has synsets; use {path} or {file}"
        )
    for place in places:
        template = template.replace(f"{{{place}}}", quote(row[place], safe="/"))
    return template
