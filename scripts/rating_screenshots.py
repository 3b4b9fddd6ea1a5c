"""Photograph the rating page and its dashboard: `python scripts/rating_screenshots.py --emoji FOLDER`.

A real server rates a made-up study: emoji where FOLDER (images.csv and images/) is given, else drawn
shapes. Five simulated raters work first. Light and dark stand side by side in docs/figures/.
"""

import argparse
import json
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import uvicorn
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from pipeline.datasets.drawing import render
from pipeline.datasets.scene import nuisance_of, scene_of
from pipeline.files import sha256
from pipeline.rating.app import rating_app
from pipeline.rating.page import RatingPage
from pipeline.rating.store import Store
from pipeline.seeds import generator
from pipeline.study.asked import input_id
from pipeline.study.frozen import FrozenStudy
from pipeline.study.settings import StudySettings, write_settings

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
N_INPUTS = 75
N_TASKS = (12, 10, 12, 6, 3)
ERROR_RATES = (0.06, 0.08, 0.1, 0.12, 0.3)
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 740}
GUTTER = 24
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
EMOJI = {
    "something to eat or drink": "Food & Drink",
    "an animal or a plant": "Animals & Nature",
    "a vehicle or a building": "Travel & Places",
    "a face with a strong emotion": "Smileys & Emotion",
}
SHAPES = {"a red shape": "red", "a star": "star", "a large shape": "large", "stripes": "striped"}


@dataclass(frozen=True)
class Asked:
    """An image's bytes by name, and whether each description is true of it."""

    images: dict[str, bytes]
    true_of: dict[str, set[str]]


@dataclass(frozen=True)
class Served:
    """A page that is being served, and the store's raters."""

    url: str
    tokens: list[str]
    owner: str


def main() -> None:
    """Serve, rate, photograph."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emoji", type=Path, help="folder with images.csv (image, category) and images/")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--each", type=Path, help="folder for every picture by itself")
    chosen = parser.parse_args()
    asked = emoji(chosen.emoji) if chosen.emoji else shapes()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "emoji"
        write_study(folder, asked)
        with serving(folder) as served, sync_playwright() as playwright:
            rate_some(served, asked)
            launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
            with closing(launched) as browser:
                pictures = photographs(browser, served, asked)
    write_figures(pictures, chosen.out)
    if chosen.each:
        chosen.each.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            picture.save(chosen.each / f"{name}.png")


def emoji(folder: Path) -> Asked:
    """Take emoji of the categories asked for, and as many others."""
    table = pd.read_csv(folder / "images.csv", keep_default_na=False)
    rng = generator(0, "screenshots")
    categories = {name: set(rows["image"]) for name, rows in table.groupby("category")}
    several = table[table["category"].isin(list(EMOJI.values()))]["image"].tolist()
    names = [several[i] for i in rng.permutation(len(several))[:N_INPUTS]]
    images = {name: enlarged((folder / "images" / name).read_bytes()) for name in names}
    return Asked(images, {text: categories[category] & set(names) for text, category in EMOJI.items()})


def shapes() -> Asked:
    """Draw shapes."""
    names = {f"shape{i:03d}.png": i for i in range(N_INPUTS)}
    images = {name: as_png(render(scene_of(0, i), nuisance_of(0, i, 192), 192)) for name, i in names.items()}
    values = {name: set(scene_of(0, i).values().values()) for name, i in names.items()}
    return Asked(images, {text: {n for n in names if value in values[n]} for text, value in SHAPES.items()})


def enlarged(encoded: bytes) -> bytes:
    """Return an image with four times the pixels a side."""
    with Image.open(BytesIO(encoded)) as image:
        return as_png(image.resize((4 * image.width, 4 * image.height), Image.Resampling.LANCZOS))


def as_png(image: Image.Image) -> bytes:
    """Encode an image."""
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def write_study(folder: Path, asked: Asked) -> None:
    """Write a study that asks each description of each image."""
    (folder / "images").mkdir(parents=True)
    for name, encoded in asked.images.items():
        (folder / "images" / name).write_bytes(encoded)
    rows = [(input_id(n, text), n, text, "") for text in asked.true_of for n in asked.images]
    inputs = pd.DataFrame(rows, columns=["input_id", "image_id", "description", "answer"])
    inputs.to_csv(folder / "inputs.csv", index=False)
    pd.DataFrame([image_row(folder, name) for name in asked.images]).to_csv(
        folder / "images.csv", index=False
    )
    inputs.assign(probability=0.3).to_parquet(folder / "study.parquet")
    pd.DataFrame({"task_id": []}).to_csv(folder / "tasks.csv", index=False)
    write_settings(folder / "settings.json", StudySettings(stop="decisive", prior=0.3))


def image_row(folder: Path, name: str) -> dict[str, str]:
    """Return an image's row of images.csv."""
    checksum = sha256(folder / "images" / name)
    return {"image_id": name, "checksum": checksum, "file": name, "source": "result", "path": name,
            "member": "", "root": ""}  # fmt: skip


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve a study on a free port of this machine."""
    with closing(Store(folder)) as store:
        raters = store.ensure_raters(len(N_TASKS))
        page = RatingPage(FrozenStudy(folder), store)
        server = uvicorn.Server(
            uvicorn.Config(rating_app(page), port=0, access_log=False, log_level="warning")
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", [rater.token for rater in raters], store.owner_token)
        server.should_exit = True
        thread.join()


def rate_some(served: Served, asked: Asked) -> None:
    """Let every rater do some tasks, each with an own error rate."""
    rng = generator(0, "screenshot raters")
    text_of = {input_id(n, text): (n, text) for text in asked.true_of for n in asked.images}
    for rater, (token, n_tasks) in enumerate(zip(served.tokens, N_TASKS, strict=True)):
        for _ in range(n_tasks):
            task = sent(f"{served.url}/r/{token}/state")["assignment"]
            ids = [each["id"] for each in task["inputs"]]
            true = [text_of[i][0] in asked.true_of[text_of[i][1]] for i in ids]
            wrong = rng.random(len(ids)) < ERROR_RATES[rater]
            marks = [i for i, t, w in zip(ids, true, wrong, strict=True) if t != w]
            seconds = 6.5 if rater == 4 else float(rng.normal(34 + 4 * rater, 5))
            sent(f"{served.url}/r/{token}/assignments/{task['id']}", {"marks": marks, "seconds": seconds})


def sent(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send JSON or nothing, and return the JSON that comes back."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


def photographs(browser: Browser, served: Served, asked: Asked) -> dict[str, Image.Image]:
    """Return every view, light and dark, wide and on a phone."""
    taken: dict[str, Image.Image] = {}
    link = f"{served.url}/r/{served.tokens[2]}"
    for scheme in SCHEMES:
        for name, size in (("page", WIDE), ("phone", PHONE)):
            context = browser.new_context(
                viewport=size, color_scheme=scheme, is_mobile=name == "phone", has_touch=name == "phone",
                device_scale_factor=2 if name == "phone" else 1,
            )  # fmt: skip
            page = context.new_page()
            page.goto(link)
            mark_true(page, asked)
            if name == "phone":
                page.locator(".cell.marked").first.scroll_into_view_if_needed()
            taken[f"{name}-{scheme}"] = photograph(page)
            page.locator(".zoom-open").nth(1).click()
            page.wait_for_timeout(300)
            taken[f"{name}-zoom-{scheme}"] = photograph(page)
            page.goto(f"{served.url}/owner/{served.owner}")
            page.get_by_text("Updated").wait_for()
            taken[f"{name}-dashboard-{scheme}"] = photograph(page, full_page=True)
            page.goto(f"{served.url}/r/{served.tokens[4]}")
            page.locator("summary").click()
            taken[f"{name}-instructions-{scheme}"] = photograph(page)
            context.close()
    return taken


def mark_true(page: Page, asked: Asked) -> None:
    """Mark what the description is true of, and wait until it is saved."""
    text = page.locator("#description").inner_text()
    true = {input_id(name, text) for name in asked.true_of[text]}
    for box in page.locator("#grid input").all():
        if box.get_attribute("data-input") in true and not box.is_checked():
            box.check()
    page.wait_for_timeout(900)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def photograph(page: Page, *, full_page: bool = False) -> Image.Image:
    """Take a picture of the window or of the whole page."""
    with Image.open(BytesIO(page.screenshot(full_page=full_page))) as image:
        return image.convert("RGB")


def write_figures(pictures: dict[str, Image.Image], out: Path) -> None:
    """Write the three figures of the docs."""
    figures = {
        "rating_page": ("page-light", "page-dark"),
        "rating_phone": ("phone-light", "phone-zoom-light", "phone-dark", "phone-dashboard-dark"),
        "rating_dashboard": ("page-dashboard-light", "page-dashboard-dark"),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, parts in figures.items():
        figure = side_by_side([pictures[part] for part in parts])
        figure.quantize(256, kmeans=3, dither=Image.Dither.NONE).save(out / f"{name}.png", optimize=True)


def side_by_side(pictures: list[Image.Image]) -> Image.Image:
    """Return pictures in a row, cut to the height of the first."""
    width = sum(picture.width for picture in pictures) + GUTTER * (len(pictures) - 1)
    height = pictures[0].height
    row = Image.fromarray(np.full((height, width, 3), 255, dtype=np.uint8))
    left = 0
    for picture in pictures:
        row.paste(picture.crop((0, 0, picture.width, min(height, picture.height))), (left, 0))
        left += picture.width + GUTTER
    return row


if __name__ == "__main__":
    main()
