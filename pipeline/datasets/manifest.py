"""The manifest of a dataset's images, and the one loop that checks and lists them."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.datasets.decoding import Undecodable, displayed_size
from pipeline.errors import AssayError

OnBadImage = Literal["stop", "skip"]
COLUMNS = ("image_id", "source", "path", "member", "split", "width", "height", "checksum")


@dataclass(frozen=True)
class Manifest:
    """The images of a dataset.

    table: one row an image, columns as COLUMNS, in image order; checksum is the hex SHA-256 of
    the encoded bytes, width and height are pixels as displayed (EXIF orientation applied).
    skipped: image_id and reason of what could not be read.
    """

    table: pd.DataFrame
    notes: tuple[str, ...]
    skipped: pd.DataFrame


@dataclass(frozen=True)
class Found:
    """An image that a dataset lists: where it lies, what messages call it, how it is read."""

    image_id: str
    source: Literal["root", "result"]
    path: str
    place: str
    read: Callable[[], bytes]
    member: str = ""
    split: str = ""


def take_stock(
    found: Iterable[Found], on_bad_image: OnBadImage, *, nothing: str, notes: tuple[str, ...] = ()
) -> Manifest:
    """Read and decode every image once and return the manifest, in the order given.

    An unreadable image raises AssayError naming it, or with `on_bad_image="skip"` goes to
    `skipped`. Two images with one id, and no readable image at all (`nothing` says what was
    looked for), raise AssayError.
    """
    rows: list[tuple[str, str, str, str, str, int, int, str]] = []
    skipped: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for image in found:
        _refuse_second(image, places)
        try:
            rows.append(_row(image))
        except (Undecodable, OSError) as error:
            reason = f"{image.place}: {error}"
            if on_bad_image == "stop":
                raise AssayError(_unreadable(reason)) from error
            skipped.append((image.image_id, reason))
    if not rows:
        raise AssayError(_none_left(skipped, nothing))
    return Manifest(
        table=pd.DataFrame(rows, columns=list(COLUMNS)),
        notes=(*notes, *_skip_note(skipped)),
        skipped=pd.DataFrame(skipped, columns=["image_id", "reason"], dtype=str),
    )


def _refuse_second(image: Found, places: dict[str, str]) -> None:
    if first := places.get(image.image_id):
        raise AssayError(
            f"two images have the id {image.image_id!r}: {first} and {image.place}; ids must be unique, "
            "so rename or remove one"
        )
    places[image.image_id] = image.place


def _row(image: Found) -> tuple[str, str, str, str, str, int, int, str]:
    encoded = image.read()
    width, height = displayed_size(encoded)
    checksum = hashlib.sha256(encoded).hexdigest()
    where = (image.image_id, image.source, image.path, image.member)
    return (*where, image.split, width, height, checksum)


def _unreadable(reason: str) -> str:
    return (
        f"unreadable image: {reason}. Mend or remove it, or set dataset.on_bad_image=skip to go on without it"
    )


def _none_left(skipped: list[tuple[str, str]], nothing: str) -> str:
    if not skipped:
        return nothing
    return f"all {len(skipped)} images are unreadable; the first: {skipped[0][1]}"


def _skip_note(skipped: list[tuple[str, str]]) -> tuple[str, ...]:
    if not skipped:
        return ()
    return (f"unreadable images left out: {len(skipped)}; the first: {skipped[0][1]}",)
