"""The images of a study, as bytes that a browser shows."""

from io import BytesIO
from pathlib import Path

import pandas as pd

from pipeline.datasets.decoding import Undecodable, opened_image
from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError

MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")


class StudyImages:
    """Images by id. Each is checked against the checksum that was frozen.

    table has image_id, checksum, source, path, member and root ("" for an image that the study
    itself holds, in `folder`).
    """

    def __init__(self, table: pd.DataFrame, folder: Path) -> None:
        self.table = table
        self._place: dict[str, tuple[ImageReader, int]] = {}
        for root, rows in table.groupby("root", sort=False):
            reader = ImageReader(rows, Path(str(root)) if root else None, folder)
            self._place |= {image: (reader, i) for i, image in enumerate(rows["image_id"])}

    def encoded(self, image_id: str) -> tuple[bytes, str]:
        """Return an image's bytes and media type; what browsers do not show is converted to PNG.

        Raises AssayError for an image that the study does not have, or that is gone or changed.
        """
        if image_id not in self._place:
            raise AssayError(f"the study has no image {image_id!r}")
        reader, row = self._place[image_id]
        encoded = reader.encoded(row)
        if media_type := shown_as(encoded):
            return encoded, media_type
        stream = BytesIO()
        reader[row].save(stream, "PNG")
        return stream.getvalue(), "image/png"


def shown_as(encoded: bytes) -> str | None:
    """Return the media type of bytes that browsers show, None for any other."""
    try:
        with opened_image(encoded) as image:
            return MEDIA_TYPES.get(image.format or "")
    except Undecodable:
        return None


def exported_name(checksum: str, path: str, member: str) -> str:
    """Return a file name that tells raters nothing: 16 digits of the checksum, and a suffix."""
    suffix = Path(member if Path(member).suffix.lower() in SUFFIXES else path).suffix.lower()
    return f"{checksum[:16]}{suffix if suffix in SUFFIXES else '.png'}"
