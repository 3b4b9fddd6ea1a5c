"""A small study by the contract: 4 descriptions x 40 inputs, with tiny pictures in the study itself."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from starlette.testclient import TestClient

from pipeline.rating.app import rating_app
from pipeline.rating.page import RatingPage
from pipeline.rating.store import Rater, Store
from pipeline.study.asked import input_id, task_id
from pipeline.study.frozen import FrozenStudy

TITLES = ("a red circle", "a <script>alert(1)</script>", 'commas, "quotes" & more', "größer als nan")


@dataclass
class Clock:
    """A clock that a test turns."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """A study that is being rated, and a browser's view of it."""

    folder: Path
    page: RatingPage
    store: Store
    client: TestClient
    clock: Clock
    raters: list[Rater] = field(default_factory=list)

    def state(self, rater: Rater) -> dict:
        return self.page.state(rater)

    def draft(self, rater: Rater, assignment: dict, marks: Sequence[str], version: int) -> dict:
        return self.page.draft(rater, assignment["id"], marks, version)

    def submit(self, rater: Rater, assignment: dict, marks: Sequence[str], seconds: float = 20.0) -> dict:
        return self.page.submit(rater, assignment["id"], marks, seconds)

    def restart(self) -> "World":
        self.store.close()
        return opened(self.folder, len(self.raters), self.clock)


def opened(
    folder: Path, n_raters: int = 3, clock: Clock | None = None, hosts: Sequence[str] = ("*",)
) -> World:
    """Open a study folder as the server does."""
    clock = clock or Clock()
    store = Store(folder)
    raters = store.ensure_raters(n_raters)
    page = RatingPage(FrozenStudy(folder), store, clock=clock)
    client = TestClient(rating_app(page, hosts), base_url="http://127.0.0.1:8765")
    return World(folder, page, store, client, clock, raters)


def write_study(
    folder: Path,
    titles: Sequence[str] = TITLES,
    n_images: int = 40,
    checks: Sequence[tuple[str, str]] = (),
    probability: Callable[[int], float] = lambda i: 0.5,
    **settings: object,
) -> Path:
    """Write a frozen study; `checks` are attention checks, (description, answer) each."""
    (folder / "images").mkdir(parents=True)
    images = [_picture(folder, i) for i in range(n_images + len(checks))]
    rows = [(images[i]["image_id"], title, "") for title in titles for i in range(n_images)]
    rows += [(images[n_images + k]["image_id"], title, answer) for k, (title, answer) in enumerate(checks)]
    inputs = pd.DataFrame(rows, columns=["image_id", "description", "answer"])
    inputs.insert(0, "input_id", [input_id(image, title) for image, title, _ in rows])
    inputs.to_csv(folder / "inputs.csv", index=False)
    pd.DataFrame(images).to_csv(folder / "images.csv", index=False)
    first = inputs["input_id"].tolist()[:15]
    tasks = {"task_id": [task_id(first)]} | {f"input_id{j}": [each] for j, each in enumerate(first)}
    pd.DataFrame(tasks).to_csv(folder / "tasks.csv", index=False)
    draws = inputs[inputs["answer"] == ""].reset_index(names="draw")
    draws.assign(probability=[probability(i) for i in range(len(draws))]).to_parquet(folder / "study.parquet")
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def _picture(folder: Path, number: int) -> dict[str, str]:
    stream = BytesIO()
    Image.new("RGB", (8, 8), (number * 5 % 256, number // 50, 90)).save(stream, "PNG")
    name = f"p'{number}\".png"
    (folder / "images" / name).write_bytes(stream.getvalue())
    checksum = hashlib.sha256(stream.getvalue()).hexdigest()
    return {
        "image_id": f'../im"{number}', "checksum": checksum, "file": f"{checksum[:16]}.png", "url": "",
        "source": "result", "path": name, "member": "", "root": "",
    }  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = opened(write_study(tmp_path / "small"))
    yield found
    found.store.close()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Return a function that writes a study by `write_study` and opens it."""
    made: list[World] = []

    def make(n_raters_with_links: int = 3, **study: object) -> World:
        made.append(opened(write_study(tmp_path / f"study{len(made)}", **study), n_raters_with_links))
        return made[-1]

    yield make
    for world in made:
        world.store.close()


@pytest.fixture
def write() -> Callable[..., Path]:
    """Return `write_study`."""
    return write_study


@pytest.fixture
def reopen() -> Callable[..., World]:
    """Return `opened`."""
    return opened
