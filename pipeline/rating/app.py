"""The rating page's routes. What they do is in `page` and `dashboard`; what holds for all in `guard`."""

import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pipeline.errors import AssayError
from pipeline.rating.dashboard import Dashboard
from pipeline.rating.export import csv_pieces
from pipeline.rating.guard import Guard, trusted
from pipeline.rating.page import RatingPage, RefusedError
from pipeline.rating.store import Rater

HERE = Path(__file__).parent
UNKNOWN_LINK = "This link leads nowhere. Check that it is whole, or ask whoever sent it for a new one."
NO_PAGE = "There is nothing here. Open the link that you were sent."
BROKEN = "Something went wrong on the server. Your answers are kept; try again in a moment."
MAX_VERSION = 2**53
MAX_SECONDS = 1e7
Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


def rating_app(page: RatingPage, hosts: Sequence[str] = ("*",)) -> ASGIApp:
    """Return the ASGI application of a study's page; it answers to `hosts` only ("*": any name)."""
    routes = Routes(page)
    app = Starlette(
        routes=[
            Route("/r/{token}", routes.rate),
            Route("/r/{token}/state", routes.state),
            Route("/r/{token}/assignments/{assignment}/draft", routes.draft, methods=["PUT"]),
            Route("/r/{token}/assignments/{assignment}", routes.submit, methods=["POST"]),
            Route("/r/{token}/reopen", routes.reopen, methods=["POST"]),
            Route("/r/{token}/images/{input_id}", routes.image),
            Route("/owner/{token}", routes.dashboard),
            Route("/owner/{token}/facts", routes.facts),
            Route("/owner/{token}/ratings.csv", routes.ratings),
            Mount("/static", _Static(directory=HERE / "static")),
        ],
        exception_handlers={
            HTTPException: routes.failed,
            RefusedError: routes.failed,
            Exception: routes.broken,
        },
    )
    return Guard(trusted(app, hosts))


class Routes:
    """The endpoints, by what they answer."""

    def __init__(self, page: RatingPage) -> None:
        self._page = page
        self._dashboard = Dashboard(page)
        self._templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)

    async def rate(self, request: Request) -> Response:
        """The page that a rater works on."""
        rater = self._rater(request)
        state = await run_in_threadpool(self._page.state, rater)
        return self._html(
            "rate.html", token=rater.token, rater=rater.label, state=state,
            n_inputs=self._page.study.settings.inputs_per_task,
        )  # fmt: skip

    async def state(self, request: Request) -> Response:
        """Progress and the open assignment."""
        return JSONResponse(await run_in_threadpool(self._page.state, self._rater(request)))

    async def draft(self, request: Request) -> Response:
        """What is marked so far."""
        rater, sent = self._rater(request), await _sent(request)
        marks, version = _marks(sent), _version(sent)
        return JSONResponse(
            await run_in_threadpool(
                self._page.draft, rater, request.path_params["assignment"], marks, version
            )
        )

    async def submit(self, request: Request) -> Response:
        """The answers to an assignment."""
        rater, sent = self._rater(request), await _sent(request)
        marks, seconds = _marks(sent), _seconds(sent)
        return JSONResponse(
            await run_in_threadpool(
                self._page.submit, rater, request.path_params["assignment"], marks, seconds
            )
        )

    async def reopen(self, request: Request) -> Response:
        """The last submitted assignment, for correction."""
        return JSONResponse(await run_in_threadpool(self._page.reopen, self._rater(request)))

    async def image(self, request: Request) -> Response:
        """An input's image."""
        self._rater(request)
        try:
            encoded, media_type = await run_in_threadpool(self._page.image, request.path_params["input_id"])
        except AssayError as error:
            log.error("%s", error)
            raise HTTPException(503, "This image cannot be shown now.") from None
        return Response(encoded, media_type=media_type, headers={"Cache-Control": "private, max-age=86400"})

    async def dashboard(self, request: Request) -> Response:
        """The owner's page."""
        self._check_owner(request)
        known = await run_in_threadpool(self._dashboard.facts)
        return self._html("dashboard.html", token=request.path_params["token"], facts=known)

    async def facts(self, request: Request) -> Response:
        """What the owner's page shows."""
        self._check_owner(request)
        return JSONResponse(await run_in_threadpool(self._dashboard.facts))

    async def ratings(self, request: Request) -> Response:
        """All ratings in force, as CSV."""
        self._check_owner(request)
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", self._page.study.name)
        return StreamingResponse(
            (text for text, _ in csv_pieces(self._page.study.folder)),
            media_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}-ratings.csv"'},
        )

    async def failed(self, request: Request, error: Exception) -> Response:
        """Say what could not be: as a page where a person asked, else as JSON."""
        status, message = _of(error)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": message}, status)
        title = "Something went wrong" if status >= 500 else "This did not work"
        if status == 404:
            title = "Nothing here"
        return self._html("message.html", status, title=title, message=message)

    async def broken(self, request: Request, error: Exception) -> Response:
        """Answer a defect; its traceback goes to the server's log."""
        return await self.failed(request, HTTPException(500, BROKEN))

    def _rater(self, request: Request) -> Rater:
        if rater := self._page.rater(request.path_params["token"]):
            return rater
        raise HTTPException(404, UNKNOWN_LINK)

    def _check_owner(self, request: Request) -> None:
        if not self._page.is_owner(request.path_params["token"]):
            raise HTTPException(404, UNKNOWN_LINK)

    def _html(self, template: str, status: int = 200, **context: Any) -> Response:
        page = self._templates.get_template(template).render(study=self._page.study.name, **context)
        return HTMLResponse(page, status)


class _Static(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _of(error: Exception) -> tuple[int, str]:
    if isinstance(error, RefusedError):
        return error.status, error.message
    assert isinstance(error, HTTPException)
    if error.detail in ("Not Found", "Method Not Allowed"):
        return error.status_code, NO_PAGE
    return error.status_code, error.detail


async def _sent(request: Request) -> dict[str, Any]:
    try:
        sent = json.loads(await request.body())
    except ClientDisconnect:
        raise RefusedError(400, "The request broke off.") from None
    except (ValueError, RecursionError):
        raise RefusedError(422, "The request holds no JSON.") from None
    if not isinstance(sent, dict):
        raise RefusedError(422, "The request must be a JSON object.")
    return sent


def _marks(sent: dict[str, Any]) -> list[str]:
    marks = sent.get("marks")
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise RefusedError(422, "marks must be a list of input ids.")
    return marks


def _version(sent: dict[str, Any]) -> int:
    version = sent.get("version")
    if type(version) is not int or not 0 <= version < MAX_VERSION:
        raise RefusedError(422, f"version must be a whole number in [0, {MAX_VERSION}).")
    return version


def _seconds(sent: dict[str, Any]) -> float | None:
    seconds = sent.get("seconds")
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not math.isfinite(seconds) or not 0 <= seconds <= MAX_SECONDS:
        raise RefusedError(422, f"seconds must be a number in [0, {MAX_SECONDS:g}].")
    return float(seconds)
