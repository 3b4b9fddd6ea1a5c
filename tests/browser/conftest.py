"""A study on a real server, and a real browser: headless Chromium."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
import uvicorn
from PIL import Image

from pipeline.rating.app import rating_app
from pipeline.rating.export import export_ratings
from pipeline.rating.page import RatingPage
from pipeline.rating.store import Store
from pipeline.study.asked import input_id
from pipeline.study.frozen import FrozenStudy
from pipeline.study.settings import StudySettings, write_settings
from tests.browser.running import RUNNING

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
REQUIRED = os.environ.get("ASSAY_REQUIRE_BROWSER") == "1"
PATIENCE_MS = 20_000


@dataclass
class Site:
    """A study that is being served."""

    folder: Path
    url: str
    tokens: list[str]
    owner: str
    n_inputs: int

    def link(self, rater: int = 0) -> str:
        return f"{self.url}/r/{self.tokens[rater]}"

    @property
    def dashboard(self) -> str:
        return f"{self.url}/owner/{self.owner}"

    def rate(self, rater: int, n_marked: int, seconds: float = 20.0) -> None:
        """Let a rater do one task over HTTP, marking its first inputs."""
        link = self.link(rater)
        task = httpx.get(f"{link}/state").json()["assignment"]
        marks = [each["id"] for each in task["inputs"]][:n_marked]
        body = {"marks": marks, "seconds": seconds}
        assert httpx.post(f"{link}/assignments/{task['id']}", json=body).status_code == 200

    def exported(self) -> pd.DataFrame:
        """The export, after checking that no rating is in it twice."""
        target = self.folder / "exported.csv"
        export_ratings(self.folder, target)
        table = pd.read_csv(target, keep_default_na=False)
        assert not table.duplicated(["worker", "input_id"]).any()
        return table

    def answers(self, rater: int = 0) -> dict[str, str]:
        """What a rater's export says of each input."""
        table = self.exported()
        mine = table[table["worker"].str.startswith(f"rater-{rater + 1}@")]
        return dict(zip(mine["input_id"], mine["rating"], strict=True))


@dataclass
class Window:
    """A rater's browser window, and what went wrong in it."""

    page: Any
    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    @property
    def boxes(self) -> Any:
        return self.page.locator("#grid input[type=checkbox]")

    @property
    def status(self) -> Any:
        return self.page.locator("#status")

    @property
    def send(self) -> Any:
        return self.page.get_by_role("button", name="Send answers")

    def ids(self) -> list[str]:
        """The inputs of the task in view, by position."""
        self.boxes.first.wait_for()
        return [box.get_attribute("data-input") for box in self.boxes.all()]

    def marked(self) -> list[int]:
        return [i for i, box in enumerate(self.boxes.all()) if box.is_checked()]

    def mark(self, *positions: int) -> None:
        for position in positions:
            # Forced: a locked checkbox is there to be clicked in vain.
            self.page.locator(".cell .picture").nth(position).click(force=True)

    def focused(self) -> Any:
        """The id of what has the focus."""
        return self.page.evaluate("document.activeElement.id")

    def says(self, text: str) -> None:
        """Wait until the status line holds a text."""
        self.page.locator("#status", has_text=text).wait_for()

    def moved_on(self, ids: Sequence[str]) -> None:
        """Wait until another task than that of `ids` is in view, past the moment of ignored keys."""
        self.page.wait_for_function(
            "first => document.querySelector('#grid input')?.dataset.input !== first", arg=ids[0]
        )
        self.settle()

    def settle(self) -> None:
        """Let the half second pass in which the page ignores the second of two clicks."""
        self.page.wait_for_timeout(550)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Chromium, or a skip; with ASSAY_REQUIRE_BROWSER=1 a failure.

    A module that imports this fixture has one of its own, which takes the browser that is there.
    """
    if RUNNING:
        yield RUNNING[0]
        return
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("playwright is not installed")
    if not CHROMIUM.is_file():
        _absent(f"{CHROMIUM} is not there")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        RUNNING.append(browser)
        yield browser
        RUNNING.clear()
        browser.close()


def _absent(what: str) -> None:
    if REQUIRED:
        pytest.fail(f"ASSAY_REQUIRE_BROWSER=1, and {what}")
    pytest.skip(f"{what}: the rating page is not tried in a browser")


@pytest.fixture
def open_window(chromium: Any) -> Iterator[Callable[..., Window]]:
    """Open windows on a link, each in a profile of its own unless `beside` shares one; no script may fail."""
    contexts: list[Any] = []
    windows: list[Window] = []

    def opened(link: str, *, beside: Window | None = None, **options: Any) -> Window:
        context = beside.page.context if beside else chromium.new_context(**options)
        if beside is None:
            context.set_default_timeout(PATIENCE_MS)
            contexts.append(context)
        window = Window(context.new_page())
        windows.append(window)
        window.page.on("pageerror", lambda error: window.faults.append(str(error)))
        window.page.on("console", lambda message: _hear(window, message))
        window.page.goto(link)
        return window

    yield opened
    for context in contexts:
        context.close()
    for window in windows:
        assert [f for f in window.faults if not any(e in f for e in window.expected)] == []


def _hear(window: Window, message: Any) -> None:
    if message.type in ("error", "warning"):
        window.faults.append(message.text)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two descriptions of 20 images, 6 inputs a task, three raters wanted."""
    folder = write_study(tmp_path / "colours", ["a red circle", "a green square"], 20)
    with serving(folder) as served:
        yield served


def write_study(folder: Path, titles: Sequence[str], n_images: int, **settings: Any) -> Path:
    """Write a frozen study that asks each title of each image."""
    (folder / "images").mkdir(parents=True)
    images = pd.DataFrame([_picture(folder, i) for i in range(n_images)])
    images.to_csv(folder / "images.csv", index=False)
    rows = [(input_id(image, title), image, title, "") for title in titles for image in images["image_id"]]
    inputs = pd.DataFrame(rows, columns=["input_id", "image_id", "description", "answer"])
    inputs.to_csv(folder / "inputs.csv", index=False)
    inputs.assign(probability=0.5).to_parquet(folder / "study.parquet")
    pd.DataFrame({"task_id": []}).to_csv(folder / "tasks.csv", index=False)
    write_settings(folder / "settings.json", StudySettings(**({"inputs_per_task": 6} | settings)))
    return folder


def _picture(folder: Path, number: int) -> dict[str, str]:
    stream = BytesIO()
    size = (48, 32) if number % 2 else (32, 48)
    Image.new("RGB", size, (number * 12 % 256, 90, 160)).save(stream, "PNG")
    name = f"red'circle\"{number}.png"
    (folder / "images" / name).write_bytes(stream.getvalue())
    checksum = hashlib.sha256(stream.getvalue()).hexdigest()
    return {
        "image_id": name, "checksum": checksum, "file": f"{checksum[:16]}.png", "url": "",
        "source": "result", "path": name, "member": "", "root": "",
    }  # fmt: skip


@contextmanager
def serving(folder: Path, n_raters: int = 3) -> Iterator[Site]:
    """Serve a study on a free port of this machine."""
    with closing(Store(folder)) as store:
        raters = store.ensure_raters(n_raters)
        page = RatingPage(FrozenStudy(folder), store)
        config = uvicorn.Config(rating_app(page), port=0, access_log=False, log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            thread.join(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        tokens = [rater.token for rater in raters]
        yield Site(folder, f"http://127.0.0.1:{port}", tokens, store.owner_token, len(page.study.inputs))
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Write and serve a study of one's own."""

    @contextmanager
    def served(folder: Path, titles: Sequence[str], n_images: int, **settings: Any) -> Iterator[Site]:
        with serving(write_study(folder, titles, n_images, **settings)) as found:
            yield found

    return served


@pytest.fixture
def phone() -> dict[str, Any]:
    """A phone's window: 375 pixels wide, with a finger for a pointer."""
    return {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}
