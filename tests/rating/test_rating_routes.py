"""The page's HTTP: what is served, to whom, and what is refused."""

import asyncio
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from io import BytesIO
from urllib.parse import quote, unquote

import pytest
from PIL import Image

from pipeline.rating.app import rating_app
from pipeline.rating.guard import BODY_LIMIT

POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HTML = {"accept": "text/html,application/xhtml+xml"}


def raw(app, method, path, piece=lambda: b""):
    """Return the status of a request whose path no client has tidied up; `piece` gives the body's next."""
    statuses, ended = [], False

    async def receive():
        nonlocal ended
        if ended:
            return {"type": "http.disconnect"}
        ended = not (body := piece())
        return {"type": "http.request", "body": body, "more_body": not ended}

    async def send(message):
        statuses.append(message.get("status"))

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": quote(path).encode(), "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    with ThreadPoolExecutor(1) as thread:  # a browser's driver may keep an event loop in this one
        thread.submit(asyncio.run, app(scope, receive, send)).result()
    return statuses[0]


@pytest.fixture
def first(world):
    """The first rater's path and assignment."""
    rater = world.raters[0]
    return f"/r/{rater.token}", world.state(rater)["assignment"]


def test_the_page_holds_the_state_that_its_route_gives(world):
    path = f"/r/{world.raters[0].token}"
    page = world.client.get(path, headers=HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    embedded = re.search(r'<script type="application/json" id="state">(.*?)</script>', page.text, re.S)
    assert json.loads(embedded[1]) == world.client.get(f"{path}/state").json()


def test_a_task_over_http(world, first):
    path, assignment = first
    marks = [assignment["inputs"][0]["id"]]
    draft = world.client.put(
        f"{path}/assignments/{assignment['id']}/draft", json={"marks": marks, "version": 3}
    )
    assert (draft.status_code, draft.json()) == (200, {"version": 3})
    sent = world.client.post(f"{path}/assignments/{assignment['id']}", json={"marks": marks, "seconds": 12.3})
    assert sent.status_code == 200
    assert sent.json() == {"submitted": True, "state": world.client.get(f"{path}/state").json()}
    assert sent.json()["state"]["progress"]["tasks_done"] == 1
    again = world.client.post(f"{path}/assignments/{assignment['id']}", json={"marks": [], "seconds": 1})
    assert (again.status_code, again.json()["already"]) == (200, True)
    reopened = world.client.post(f"{path}/reopen", json={})
    assert reopened.json()["assignment"]["marks"] == marks


def test_markup_in_a_description_is_text(make_world):
    world = make_world(titles=['</script><script>alert(1)</script><img src=x onerror="a()">'])
    page = world.client.get(f"/r/{world.raters[0].token}").text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    embedded = re.search(r'id="state">(.*?)</script>', page, re.S)[1]
    assert json.loads(embedded)["assignment"]["description"].startswith("</script><script>alert(1)")


def test_markup_in_a_studys_name_is_text(tmp_path, write, reopen):
    world = reopen(write(tmp_path / '<img src=x onerror="a()">'))
    for path in (f"/r/{world.raters[0].token}", f"/owner/{world.store.owner_token}"):
        page = world.client.get(path).text
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page
    world.store.close()


def test_an_image_with_quotes_in_its_name_is_served_by_the_inputs_id_alone(world, first):
    _, assignment = first
    answer = world.client.get(assignment["inputs"][0]["image"])
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["cache-control"] == "private, max-age=86400"
    assert answer.headers["x-content-type-options"] == "nosniff"
    with Image.open(BytesIO(answer.content)) as image:
        assert image.size == (8, 8)


@pytest.mark.parametrize(
    "name",
    [
        "../../inputs.csv", "..%2f..%2finputs.csv", "%2e%2e%2fsettings.json", "p'0\".png", '../im"0',
        "i000000000000", "..", "/etc/passwd", "%2fetc%2fpasswd", "i\0", "rating.sqlite", "",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_studys_inputs(world, name):
    for path in (f"/r/{world.raters[0].token}/images/", "/static/"):
        for spelled in (name, unquote(name), unquote(unquote(name))):
            assert raw(world.client.app, "GET", path + spelled) == 404


@pytest.mark.parametrize("name", ["../app.py", "../templates/rate.html", "/etc/passwd", "..", "", "\0"])
def test_static_files_are_no_way_to_the_code(world, name):
    assert raw(world.client.app, "GET", f"/static/{name}") == 404
    assert raw(world.client.app, "GET", "/static/rate.js") == 200


def test_an_image_that_is_gone_is_said_to_be_without_naming_its_place(world, first):
    _, assignment = first
    for path in (world.folder / "images").iterdir():
        path.write_bytes(b"another")
    answer = world.client.get(assignment["inputs"][0]["image"])
    assert (answer.status_code, answer.json()) == (503, {"error": "This image cannot be shown now."})


def test_one_raters_token_reads_and_writes_nothing_of_anothers(world, first):
    path, assignment = first
    other = f"/r/{world.raters[1].token}"
    theirs = world.client.get(f"{other}/state").json()["assignment"]
    body = {"marks": [], "seconds": 1, "version": 9}
    assert theirs["id"] != assignment["id"]
    assert world.client.put(f"{other}/assignments/{assignment['id']}/draft", json=body).status_code == 404
    assert world.client.post(f"{other}/assignments/{assignment['id']}", json=body).status_code == 404
    after = world.client.get(f"{path}/state").json()
    assert (after["assignment"], after["progress"]["tasks_done"]) == (assignment, 0)
    unknown = world.client.post(f"{other}/assignments/a000000000000", json=body)
    stolen = world.client.post(f"{other}/assignments/{assignment['id']}", json=body)
    assert unknown.json() == stolen.json()


def test_the_dashboard_needs_the_owners_token_and_the_owners_token_rates_nothing(world):
    rater, owner = world.raters[0].token, world.store.owner_token
    for tail in ("", "/facts", "/ratings.csv"):
        assert world.client.get(f"/owner/{owner}{tail}").status_code == 200
        assert world.client.get(f"/owner/{rater}{tail}").status_code == 404
        assert world.client.get(f"/owner/{quote('ü')}{tail}").status_code == 404
    assert world.client.get(f"/r/{owner}").status_code == 404
    assert world.client.get(f"/r/{owner}/state").status_code == 404


def test_an_unknown_link_is_a_friendly_page_that_tells_nothing(world):
    pages = {
        world.client.get(path, headers=HTML).text
        for path in ("/r/x", "/owner/x", f"/owner/{world.raters[0].token}", f"/r/{world.store.owner_token}")
    }
    assert len(pages) == 1
    assert "This link leads nowhere" in unescape(pages.pop())
    bodies = {world.client.get(path).text for path in ("/r/x/state", "/owner/x/facts", "/r/x/images/i1")}
    assert len(bodies) == 1


def test_the_root_says_to_use_the_link(world):
    page = world.client.get("/", headers=HTML)
    assert page.status_code == 404
    assert "Open the link that you were sent" in page.text


def test_every_answer_carries_the_headers(world, first):
    path, assignment = first
    owner = f"/owner/{world.store.owner_token}"
    answers = [
        world.client.get(each)
        for each in (
            path, f"{path}/state", owner, f"{owner}/facts", f"{owner}/ratings.csv", "/", "/r/x",
            assignment["inputs"][0]["image"], "/static/rate.js", "/static/none.js",
        )
    ]  # fmt: skip
    answers += [
        world.client.post(f"{path}/assignments/{assignment['id']}", json={"marks": ["no"]}),
        world.client.post(f"{path}/assignments/{assignment['id']}", content="x"),
        world.client.delete(path, headers={"content-type": "application/json"}),
    ]
    assert [each.status_code for each in answers[-3:]] == [422, 415, 405]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        if "/images/" not in str(answer.url) and "rate.js" not in str(answer.url):
            assert answer.headers["cache-control"] == "no-store"


def test_a_defect_answers_with_the_headers_and_without_a_traceback(world, monkeypatch):
    monkeypatch.setattr(world.page, "state", lambda rater: 1 / 0)
    quiet = type(world.client)(world.client.app, raise_server_exceptions=False)
    answer = quiet.get(f"/r/{world.raters[0].token}/state")
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8765"}, 403),
        ({"origin": "http://127.0.0.1:8765"}, 200),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=application/json"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_writes_from_other_sites_are_refused(world, first, headers, status):
    path, assignment = first
    headers = {"content-type": "application/json"} | headers
    body = json.dumps({"marks": [], "version": 1, "seconds": 1})
    draft = world.client.put(f"{path}/assignments/{assignment['id']}/draft", content=body, headers=headers)
    assert draft.status_code == status
    sent = world.client.post(f"{path}/assignments/{assignment['id']}", content=body, headers=headers)
    assert sent.status_code == status
    assert world.client.post(f"{path}/reopen", content="{}", headers=headers).status_code == status


def test_a_body_above_the_limit_is_refused_however_it_comes(world, first):
    path, assignment = first
    path = f"{path}/assignments/{assignment['id']}"
    fits = json.dumps({"marks": [], "seconds": 1, "x": ""})
    fits = fits[:-2] + "x" * (BODY_LIMIT - len(fits)) + fits[-2:]
    headers = {"content-type": "application/json"}
    pieces = lambda text: iter([text[:1000].encode(), text[1000:].encode()])  # noqa: E731
    assert world.client.post(path, content=fits + " ", headers=headers).status_code == 413
    chunked = world.client.post(path, content=pieces(fits + " "), headers=headers)
    assert "content-length" not in chunked.request.headers
    assert chunked.status_code == 413
    assert world.state(world.raters[0])["progress"]["tasks_done"] == 0
    assert world.client.post(path, content=pieces(fits), headers=headers).status_code == 200


def test_a_body_is_not_read_past_the_limit(world, first):
    path, assignment = first
    endless = itertools.count(1)
    status = raw(
        world.client.app,
        "POST",
        f"{path}/assignments/{assignment['id']}",
        lambda: b" " * 16384 * bool(next(endless)),
    )
    assert (status, next(endless)) == (413, 6)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "no JSON"), ("{", "no JSON"), ("[" * 60000, "no JSON"),
        ("\xff", "no JSON"), ("9" * 9999, "no JSON"),
        ("[]", "JSON object"), ("null", "JSON object"), ('"a"', "JSON object"),
        ("{}", "marks must be"), ('{"marks": null}', "marks must be"), ('{"marks": "i1"}', "marks must be"),
        ('{"marks": [1]}', "marks must be"), ('{"marks": [["i1"]]}', "marks must be"),
        ('{"marks": {"i1": true}}', "marks must be"), ('{"marks": [null]}', "marks must be"),
    ],
)  # fmt: skip
def test_a_body_of_the_wrong_kind_is_named(world, first, body, says):
    path, assignment = first
    headers = {"content-type": "application/json"}
    for method, tail in (("PUT", "/draft"), ("POST", "")):
        answer = world.client.request(
            method, f"{path}/assignments/{assignment['id']}{tail}",
            content=body.encode("latin-1"), headers=headers,
        )  # fmt: skip
        assert answer.status_code == 422
        assert says in answer.json()["error"]


@pytest.mark.parametrize("mark", ["i000000000000", "<b>", "\ud800", "x" * 5000, ""])
def test_a_mark_outside_the_assignment_is_named_and_nothing_is_stored(world, first, mark):
    path, assignment = first
    body = json.dumps({"marks": [assignment["inputs"][0]["id"], mark], "version": 1, "seconds": 1})
    headers = {"content-type": "application/json"}
    for method, tail in (("PUT", "/draft"), ("POST", "")):
        answer = world.client.request(
            method, f"{path}/assignments/{assignment['id']}{tail}", content=body, headers=headers
        )
        assert answer.status_code == 422
        assert ascii(mark)[:40] in answer.json()["error"]
    assert world.client.get(f"{path}/state").json()["assignment"] == assignment


@pytest.mark.parametrize("version", [None, "1", 1.0, 1.5, True, -1, 2**53, 10**30, [1]])
def test_a_version_of_the_wrong_kind_is_named(world, first, version):
    path, assignment = first
    body = {"marks": [], "version": version}
    answer = world.client.put(f"{path}/assignments/{assignment['id']}/draft", json=body)
    assert (answer.status_code, "version" in answer.json()["error"]) == (422, True)


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-1", '"3"', "true", "1e300", "[]"])
def test_seconds_of_the_wrong_kind_are_named(world, first, seconds):
    path, assignment = first
    answer = world.client.post(
        f"{path}/assignments/{assignment['id']}",
        content=f'{{"marks": [], "seconds": {seconds}}}',
        headers={"content-type": "application/json"},
    )
    assert (answer.status_code, "seconds" in answer.json()["error"]) == (422, True)


def test_answers_whose_time_is_unknown_are_still_taken(world, first):
    path, assignment = first
    assert world.client.post(f"{path}/assignments/{assignment['id']}", json={"marks": []}).status_code == 200
    text = world.client.get(f"/owner/{world.store.owner_token}/ratings.csv").text
    assert all(line.endswith("Z,") for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 404), ("localhost:8765", 404), ("LOCALHOST", 404), ("[::1]:8765", 404),
        ("evil.example", 400), ("127.0.0.1.evil.example", 400), ("localhost:80@evil.example", 400), ("", 400),
    ],
)  # fmt: skip
def test_only_loopback_names_reach_a_page_on_loopback(world, host, status):
    client = type(world.client)(rating_app(world.page, ("127.0.0.1", "localhost", "[::1]")))
    assert client.get("/", headers={"host": host}).status_code == status


def test_the_ratings_are_a_download_with_a_harmless_name(world):
    answer = world.client.get(f"/owner/{world.store.owner_token}/ratings.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="small-ratings.csv"'
    assert answer.text.splitlines() == [
        "worker,assignment,task,input_id,image_id,description,rating,status,submitted,seconds"
    ]
