"""Write a study's images into a folder, as its image addresses expect to find them."""

import hashlib
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import replacing, sha256
from pipeline.study.frozen import FrozenStudy

INDEX = "images.csv"


def export_images(study: FrozenStudy, folder: Path) -> int:
    """Write every image of the study once, and images.csv (file, url, checksum); return the number of files.

    A file lies under the path that its address has behind the fixed beginning of the study's
    `image_base_url`; where the study has no addresses, under its exported name. Bytes are what raters
    see, and checksum is the SHA-256 of them. A file that is there already with these bytes is left.
    Raises AssayError for a path that leaves the folder, two images of one path, an image that is gone.
    """
    table = study.images.table[["image_id", "file", "url"]]
    template = study.settings.image_base_url
    places = {
        image: exported_path(image, file, url, template) for image, file, url in table.itertuples(index=False)
    }
    held: dict[PurePosixPath, str] = {}
    for image_id, place in places.items():
        encoded, _ = study.images.encoded(image_id)
        checksum = hashlib.sha256(encoded).hexdigest()
        if held.setdefault(place, checksum) != checksum:
            raise AssayError(
                f"image {image_id!r} would overwrite another image at {place}: give image_base_url a place "
                "that differs for each image, such as {file}"
            )
        _put(_inside(folder, place, image_id), encoded, checksum)
    files = [str(place) for place in places.values()]
    checksums = [held[place] for place in places.values()]
    _write_index(folder, pd.DataFrame({"file": files, "url": table["url"].tolist(), "checksum": checksums}))
    return len(held)


def exported_path(image_id: str, file: str, url: str, template: str | None) -> PurePosixPath:
    """Return where an image lies below the place that all addresses of the template begin with.

    `file` counts where there is no address. Raises AssayError for an address that the template does
    not give, and for an absolute path, an empty one, or one with `..`.
    """
    path = _behind(url, template) if template is not None and url else file
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise AssayError(
            f"image {image_id!r}: its path {path!r} could leave the folder; use {{file}} in image_base_url"
        )
    return PurePosixPath(*parts)


def fixed_beginning(template: str) -> str:
    """Return the part of an address template that all images share, up to its last slash."""
    if "{" not in template:
        return template.rstrip("/") + "/"
    return template[: template.index("{")].rpartition("/")[0] + "/"


def _behind(url: str, template: str) -> str:
    beginning = fixed_beginning(template)
    if not url.startswith(beginning):
        raise AssayError(
            f"the image address {url} does not begin with {beginning}, as the study's settings.json says; "
            f"give the study its addresses again: assay host --study NAME --base-url {template}"
        )
    return unquote(re.split(r"[?#]", url.removeprefix(beginning), maxsplit=1)[0])


def _inside(folder: Path, place: PurePosixPath, image_id: str) -> Path:
    path = folder / place
    if not path.resolve().is_relative_to(folder.resolve()):
        raise AssayError(f"image {image_id!r}: {path} leads out of {folder} through a link; remove the link")
    return path


def _put(path: Path, encoded: bytes, checksum: str) -> None:
    if path.is_file() and path.stat().st_size == len(encoded) and sha256(path) == checksum:
        return
    with replacing(path) as temporary:
        temporary.write_bytes(encoded)


def _write_index(folder: Path, index: pd.DataFrame) -> None:
    with replacing(folder / INDEX) as temporary:
        index.drop_duplicates().to_csv(temporary, index=False, lineterminator="\n", encoding="utf-8")
