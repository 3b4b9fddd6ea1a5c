"""The rating page in a real browser: however a rater gets through it, no rating is lost or doubled."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OFFLINE = "net::ERR_INTERNET_DISCONNECTED"
FAILED = "Failed to load resource"
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
Opener = Callable[..., Any]


def expected(ids: list[str], marked: tuple[int, ...]) -> dict[str, str]:
    return {each: "yes" if i in marked else "no" for i, each in enumerate(ids)}


def posts_of(page: Any) -> list[str]:
    """Collect the submissions that a page sends from now on."""
    posts: list[str] = []
    page.on("request", lambda r: r.method == "POST" and "/assignments/" in r.url and posts.append(r.url))
    return posts


def in_turn(page: Any, *answers: Callable[[Any], None]) -> None:
    """Answer the first submissions by these, the others by the server."""
    left = list(answers)

    def handle(route: Any) -> None:
        if route.request.method == "POST" and left:
            left.pop(0)(route)
        else:
            route.continue_()

    page.route(re.compile(r"/assignments/[^/]+$"), handle)


def says(status: int, body: object = None) -> Callable[[Any], None]:
    return lambda route: route.fulfill(
        status=status, content_type="application/json", body=json.dumps(body or {"error": "nope"})
    )


# One way through


def test_a_rater_gets_through_a_task_by_mouse(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    window.mark(0, 2, 4)
    window.mark(2)
    assert window.marked() == [0, 4]
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (0, 4))
    assert window.focused() == "ask"
    assert "1 task done · 34 images left" in window.page.locator("#progress-text").inner_text()


def test_a_rater_gets_through_a_task_by_keyboard_alone(site: Any, open_window: Opener) -> None:
    window = open_window(site.link(), viewport={"width": 1280, "height": 900})
    ids = window.ids()
    press = window.page.keyboard.press
    for _ in range(12):
        if window.focused() == "box-0":
            break
        press("Tab")
    assert window.focused() == "box-0"
    press("Space")
    press("ArrowRight")
    press("ArrowRight")
    press("Enter")
    press("Home")
    press("ArrowDown")
    assert window.focused() == "box-5"
    press("Space")
    press("ArrowUp")
    press("End")
    press("ArrowLeft")
    assert window.focused() == "box-4"
    assert window.marked() == [0, 2, 5]
    press("Control+Enter")
    window.moved_on(ids)
    assert site.answers() == expected(ids, (0, 2, 5))
    press("ArrowRight")
    assert window.focused() == "box-0"


def test_enter_on_the_send_button_sends_and_pressed_twice_sends_once(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids, posts = window.ids(), posts_of(window.page)
    window.mark(1)
    window.send.focus()
    window.page.keyboard.press("Enter")
    window.page.keyboard.press("Enter")
    window.moved_on(ids)
    assert len(posts) == 1
    assert site.answers() == expected(ids, (1,))


def test_a_rater_gets_through_a_task_on_a_phone(site: Any, open_window: Opener, phone: Any) -> None:
    window = open_window(site.link(), **phone)
    ids = window.ids()
    for position in (1, 3, 5):
        window.page.locator(".cell .picture").nth(position).tap()
    window.page.locator(".caption").nth(3).tap()
    assert window.marked() == [1, 5]
    window.send.tap()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (1, 5))


def test_on_a_phone_nothing_is_cut_off_and_targets_are_large(
    site: Any, open_window: Opener, phone: Any
) -> None:
    window = open_window(site.link(), **phone)
    window.ids()
    page = window.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    small = page.evaluate(
        """() => [...document.querySelectorAll("main button, summary, .cell label")]
        .map((each) => [each.innerText, each.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0 && (box.width < 44 || box.height < 44)).map(([text]) => text)"""
    )
    assert small == []


@pytest.mark.parametrize("text", ["x" * 300, "a long story of many words " * 20])
def test_a_long_description_is_shown_whole_and_leaves_room_for_the_images(
    tmp_path: Path, open_window: Opener, serve: Any, phone: Any, text: str
) -> None:
    with serve(tmp_path / "long", [text.strip()], 6) as site:
        window = open_window(site.link(), **phone)
        window.ids()
        assert window.page.locator("#description").inner_text() == text.strip()
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 375
        window.boxes.nth(5).scroll_into_view_if_needed()
        assert window.page.locator("#ask").evaluate("each => each.getBoundingClientRect().bottom") < 200
        window.page.locator(".zoom-open").nth(5).tap()
        assert window.page.locator("#zoom-image").evaluate("each => each.offsetHeight") > 150


def test_a_rater_rates_everything_and_is_thanked(tmp_path: Path, open_window: Opener, serve: Any) -> None:
    with serve(tmp_path / "few", ["a dot"], 7) as site:
        window = open_window(site.link())
        for _ in range(2):
            ids = window.ids()
            window.mark(0)
            window.settle()
            window.send.click()
            window.page.wait_for_function(
                "first => document.querySelector('#rate').hidden"
                " || document.querySelector('#grid input').dataset.input !== first",
                arg=ids[0],
            )
        window.page.get_by_role("heading", name="All done. Thank you!").wait_for()
        assert "You rated 7 images in 2 tasks." in window.page.locator("#rest-text").inner_text()
        assert len(site.answers()) == 7


def test_a_rater_waits_while_others_hold_what_is_left(
    tmp_path: Path, open_window: Opener, serve: Any
) -> None:
    with serve(tmp_path / "held", ["a dot"], 6, n_raters=1) as site:
        first, second = open_window(site.link(0)), open_window("about:blank")
        first.ids()
        second.page.clock.install()
        second.page.goto(site.link(1))
        second.page.get_by_role("heading", name="Nothing to rate just now").wait_for()
        first.mark(0)
        first.send.click()
        first.page.get_by_role("heading", name="All done").wait_for()
        assert second.page.get_by_role("heading", name="Nothing to rate just now").is_visible()
        second.page.clock.run_for(10_000)
        second.page.get_by_role("heading", name="All done").wait_for()
        assert len(site.exported()) == 6


# Marks are kept


def test_marks_survive_a_reload_in_the_middle(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    window.mark(0, 3)
    window.page.reload()
    assert window.ids() == ids
    assert window.marked() == [0, 3]
    window.page.get_by_role("button", name="Undo").click()
    assert window.marked() == [0]
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (0,))


def test_marks_survive_a_closed_tab_and_reach_another_device(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    window.mark(2)
    window.says("Saved.")
    window.mark(5)
    window.page.close()
    again = open_window(site.link(), beside=window)
    assert again.ids() == ids
    assert again.marked() == [2, 5]
    again.says("Saved.") if again.status.inner_text() else again.settle()
    elsewhere = open_window(site.link())
    assert elsewhere.ids() == ids
    assert elsewhere.marked() == [2, 5]


def test_changes_made_offline_survive_a_closed_tab(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += [OFFLINE]
    ids = window.ids()
    window.mark(0)
    window.says("Saved.")
    window.page.context.set_offline(True)
    window.mark(1, 4)
    kept = "JSON.parse(Object.values(localStorage)[0]).marks.length"
    assert window.page.evaluate(kept) == 3
    window.page.close()
    window.page.context.set_offline(False)
    again = open_window(site.link(), beside=window)
    assert again.ids() == ids
    assert again.marked() == [0, 1, 4]
    again.says("Saved.")
    elsewhere = open_window(site.link())
    assert elsewhere.ids() == ids
    assert elsewhere.marked() == [0, 1, 4]


def test_changes_made_offline_are_saved_when_the_connection_is_back(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += [OFFLINE]
    ids = window.ids()
    window.page.context.set_offline(True)
    window.mark(1, 4)
    window.says("Offline: your answers are kept on this device")
    window.page.context.set_offline(False)
    window.says("Saved.")
    elsewhere = open_window(site.link())
    assert elsewhere.ids() == ids
    assert elsewhere.marked() == [1, 4]


def test_every_change_can_be_undone_by_button_and_by_key(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    window.mark(0, 1, 2, 1)
    assert window.marked() == [0, 2]
    window.page.get_by_role("button", name="Undo").click()
    assert window.marked() == [0, 1, 2]
    window.says("Undone: image 2 is marked.")
    window.page.keyboard.press("u")
    assert window.marked() == [0, 1]
    window.page.keyboard.press("Control+z")
    assert window.marked() == [0]
    window.page.keyboard.press("u")
    window.page.keyboard.press("u")
    assert window.marked() == []
    assert window.page.get_by_role("button", name="Undo").get_attribute("aria-disabled") == "true"
    window.mark(5)
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (5,))


# A task is sent once


def test_a_double_click_sends_once(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids, posts = window.ids(), posts_of(window.page)
    window.mark(0)
    window.send.dblclick()
    window.moved_on(ids)
    assert len(posts) == 1
    assert window.page.locator("#question").is_hidden()
    assert site.answers() == expected(ids, (0,))


def test_a_slow_server_gets_one_submission_however_often_one_clicks(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids, posts = window.ids(), posts_of(window.page)
    held: list[Any] = []
    in_turn(window.page, held.append)
    window.mark(3)
    window.send.click()
    window.says("Sending")
    for _ in range(3):
        window.page.locator("#submit").click(force=True)
        window.page.keyboard.press("Control+Enter")
    window.mark(1)
    assert window.marked() == [3]
    held[0].continue_()
    window.moved_on(ids)
    assert len(posts) == 1
    assert site.answers() == expected(ids, (3,))


def test_a_lost_response_is_asked_for_again_and_counts_once(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += ["net::ERR_FAILED"]
    ids, posts = window.ids(), posts_of(window.page)

    def reach_the_server_and_get_lost(route: Any) -> None:
        assert route.fetch().status == 200
        route.abort()

    in_turn(window.page, reach_the_server_and_get_lost)
    window.mark(2)
    window.send.click()
    window.says("nothing is counted twice")
    window.moved_on(ids)
    assert len(posts) == 2
    assert site.answers() == expected(ids, (2,))


def test_answers_sent_offline_arrive_once_when_the_connection_is_back(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += [OFFLINE]
    ids = window.ids()
    window.mark(0, 5)
    window.says("Saved.")
    window.page.context.set_offline(True)
    window.send.click()
    window.says("They are sent when the connection is back.")
    assert site.answers() == {}
    window.mark(1)
    assert window.marked() == [0, 5]
    window.page.context.set_offline(False)
    window.moved_on(ids)
    window.says("Sent.")
    assert site.answers() == expected(ids, (0, 5))


def test_answers_queued_offline_survive_a_closed_tab(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += [OFFLINE]
    ids = window.ids()
    window.mark(4)
    window.page.context.set_offline(True)
    window.send.click()
    window.says("They are sent when the connection is back.")
    window.page.close()
    window.page.context.set_offline(False)
    again = open_window(site.link(), beside=window)
    again.moved_on(ids)
    assert site.answers() == expected(ids, (4,))


def test_a_second_window_of_the_same_rater_follows_and_doubles_nothing(
    site: Any, open_window: Opener
) -> None:
    first = open_window(site.link())
    ids = first.ids()
    second = open_window(site.link(), beside=first)
    assert second.ids() == ids
    second.mark(1)
    first.page.wait_for_function("document.querySelectorAll('#grid input:checked').length === 1")
    first.mark(2)
    first.send.click()
    first.moved_on(ids)
    second.moved_on(ids)
    assert second.ids() == first.ids()
    assert site.answers() == expected(ids, (1, 2))


def test_another_device_that_sends_an_old_task_changes_nothing(site: Any, open_window: Opener) -> None:
    first, second = open_window(site.link()), open_window(site.link())
    ids = first.ids()
    assert second.ids() == ids
    first.mark(0)
    first.send.click()
    first.moved_on(ids)
    second.mark(5)
    if second.ids() == ids:
        second.send.click()
    second.moved_on(ids)
    assert second.ids() == first.ids()
    assert site.answers() == expected(ids, (0,))


@pytest.mark.parametrize("how", ["click", "key"])
def test_an_empty_task_is_asked_about_once_and_never_confirmed_by_accident(
    site: Any, open_window: Opener, how: str
) -> None:
    window = open_window(site.link())
    ids = window.ids()
    if how == "click":
        window.send.dblclick()
    else:
        window.page.keyboard.press("Control+Enter")
        window.page.keyboard.press("Control+Enter")
    window.page.get_by_text("None of these shows it?").wait_for()
    window.settle()
    assert site.answers() == {}
    assert window.focused() == ("confirm" if how == "key" else "go-back")
    window.page.get_by_role("button", name="Keep looking").click()
    assert window.page.locator("#question").is_hidden()
    window.send.click()
    window.settle()
    window.page.get_by_role("button", name="None, send").click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, ())


def test_the_previous_task_can_be_corrected(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    window.mark(0, 1)
    window.send.click()
    window.moved_on(ids)
    following = window.ids()
    window.mark(3)
    window.page.get_by_role("button", name="Correct the previous task").click()
    window.moved_on(following)
    assert window.ids() == ids
    assert window.marked() == [0, 1]
    assert window.page.get_by_text("You are correcting a task").is_visible()
    assert site.answers() == expected(ids, (0, 1))
    window.mark(1, 5)
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (0, 5))
    assert window.ids() == following
    assert window.marked() == [3]


# What can go wrong


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (422, "The server does not accept this answer. It says: nope"),
        (413, "The server says that this answer is too large."),
        (403, "The server refused (403). It says: nope"),
    ],
)
def test_a_refused_answer_is_explained_and_can_be_sent_again(
    site: Any, open_window: Opener, status: int, sentence: str
) -> None:
    window = open_window(site.link())
    window.expected += [FAILED]
    ids = window.ids()
    in_turn(window.page, says(status))
    window.mark(2)
    window.send.click()
    window.says(sentence)
    assert window.marked() == [2]
    window.mark(0)
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (0, 2))


def test_a_server_in_trouble_is_tried_again(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.expected += [FAILED]
    ids = window.ids()
    in_turn(window.page, says(500), says(503))
    window.mark(2)
    window.send.click()
    window.says("The server has a problem (500). It is tried again in 1 s")
    window.says("The server has a problem (503). It is tried again in 2 s")
    window.page.get_by_role("button", name="Try now").click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (2,))


def test_a_task_that_the_server_does_not_know_is_kept_and_need_not_block(
    site: Any, open_window: Opener
) -> None:
    window = open_window(site.link())
    window.expected += [FAILED]
    ids = window.ids()
    in_turn(window.page, says(404))
    window.mark(2)
    window.send.click()
    window.says("does not know this link or this task")
    window.page.get_by_role("button", name="Go on with the next task").click()
    assert window.ids() == ids
    assert window.marked() == [2]
    kept = window.page.evaluate("Object.keys(localStorage).filter((key) => key.includes('unsent:')).length")
    assert kept == 1


def test_a_link_that_leads_nowhere_says_so(site: Any, open_window: Opener) -> None:
    window = open_window(f"{site.url}/r/nobody")
    window.expected += [FAILED]
    assert window.page.get_by_role("heading").count() == 1
    assert "leads nowhere" in window.page.locator("main").inner_text()


def test_a_broken_image_can_be_tried_again_and_is_pointed_out(site: Any, open_window: Opener) -> None:
    window = open_window("about:blank")
    window.expected += ["net::ERR_FAILED"]
    broken = True

    def handle(route: Any) -> None:
        route.abort() if broken else route.continue_()

    window.page.route(re.compile(r"/images/"), handle)
    window.page.goto(site.link())
    ids = window.ids()
    assert window.page.get_by_text("Image did not load.").count() == 6
    window.boxes.nth(1).check()
    window.send.click()
    window.page.get_by_text("Images 1, 2, 3, 4, 5, 6 have not loaded").wait_for()
    window.settle()
    window.page.get_by_role("button", name="Keep looking").click()
    broken = False
    for _ in range(5):
        window.page.get_by_role("button", name="Try again").first.click()
        window.page.wait_for_timeout(100)
    window.page.wait_for_function("document.querySelectorAll('.cell.broken').length === 1")
    window.send.click()
    window.page.get_by_text("Image 6 has not loaded").wait_for()
    window.settle()
    window.page.get_by_role("button", name="Send as it is").click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (1,))


def test_a_description_that_is_a_script_is_shown_as_text(
    tmp_path: Path, open_window: Opener, serve: Any
) -> None:
    with serve(tmp_path / "script", [SCRIPT, "</script> & 'quotes'"], 6) as site:
        window = open_window(site.link())
        for text in (SCRIPT, "</script> & 'quotes'"):
            ids = window.ids()
            assert window.page.locator("#description").inner_text() == text
            assert window.page.title().endswith(text)
            window.mark(0)
            window.page.keyboard.press("z")
            assert window.page.locator("#zoom-description").inner_text() == text
            window.page.keyboard.press("Escape")
            window.send.click()
            window.page.wait_for_function(
                "first => document.querySelector('#rate').hidden"
                " || document.querySelector('#grid input').dataset.input !== first",
                arg=ids[0],
            )
            window.settle()
        assert set(site.exported()["description"]) == {SCRIPT, "</script> & 'quotes'"}
        assert window.page.title() == "All done. Thank you!"


# Zoom


def test_zoom_steps_marks_and_gives_the_focus_back(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    page = window.page
    page.get_by_role("button", name="Zoom image 2").click()
    dialog = page.get_by_role("dialog", name="Image 2 of 6")
    dialog.wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("dialog", name="Image 3 of 6").wait_for()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Previous").click()
    page.get_by_role("button", name="Previous").click()
    page.get_by_role("button", name="Previous").click()
    page.get_by_role("dialog", name="Image 6 of 6").wait_for()
    page.get_by_label("It shows").check()
    page.keyboard.press("Escape")
    page.locator("#zoom").wait_for(state="hidden")
    assert window.focused() == "box-5"
    assert window.marked() == [2, 5]
    page.keyboard.press("z")
    page.get_by_role("dialog", name="Image 6 of 6").wait_for()
    page.get_by_role("button", name="Close").click()
    window.send.click()
    window.moved_on(ids)
    assert site.answers() == expected(ids, (2, 5))


def test_the_zoomed_image_is_as_large_as_fits_and_keeps_its_shape(site: Any, open_window: Opener) -> None:
    window = open_window(site.link(), viewport={"width": 1280, "height": 900})
    window.ids()
    window.page.keyboard.press("z")
    window.page.wait_for_function("document.querySelector('#zoom-image').naturalWidth > 0")
    measured = window.page.evaluate(
        """() => {
          const image = document.querySelector("#zoom-image"), box = image.getBoundingClientRect();
          const frame = image.parentElement.getBoundingClientRect();
          return [box.width / box.height, image.naturalWidth / image.naturalHeight,
                  Math.max(box.width / frame.width, box.height / frame.height)];
        }"""
    )
    assert measured[0] == pytest.approx(measured[1], rel=0.01)
    assert measured[2] == pytest.approx(1, rel=0.01)


def test_a_question_mark_shows_the_keys(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.ids()
    window.page.keyboard.press("?")
    window.page.get_by_role("dialog", name="Keys").wait_for()
    window.page.keyboard.press("Escape")
    window.page.locator("#keys").wait_for(state="hidden")


def test_instructions_are_open_on_the_first_task_only(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    ids = window.ids()
    assert window.page.get_by_role("img", name="a red circle among other things").is_visible()
    window.mark(0)
    window.send.click()
    window.moved_on(ids)
    assert window.page.get_by_role("img", name="a red circle among other things").is_hidden()
