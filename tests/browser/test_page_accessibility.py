"""The rating page and the dashboard for keyboards, screen readers and eyes of all kinds."""

from collections.abc import Callable
from typing import Any

import pytest

Opener = Callable[..., Any]
LEAST_CONTRAST = 4.5
CONTRAST = """() => {
  const parsed = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (each) => {
    const layers = [];
    for (let at = each; at; at = at.parentElement) layers.push(parsed(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), each = walker.currentNode.parentElement;
    if (!text || !each.checkVisibility() || each.closest("[aria-disabled=true], .unseen, script")) continue;
    const below = ground(each), ink = over(parsed(getComputedStyle(each).color), below);
    const [dim, bright] = [light(ink), light(below)].sort((a, b) => a - b);
    found.push([text, (bright + 0.05) / (dim + 0.05)]);
  }
  return found;
}"""


def tree(page: Any) -> list[tuple[str, str]]:
    """Role and name of everything that a screen reader finds."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]


def named(nodes: list[tuple[str, str]], role: str) -> list[str]:
    return [name for found, name in nodes if found == role]


def test_every_checkbox_button_and_image_has_a_name_that_tells_no_file(
    site: Any, open_window: Opener
) -> None:
    window = open_window(site.link())
    window.ids()
    nodes = tree(window.page)
    assert named(nodes, "checkbox") == [f"Image {i} of 6" for i in range(1, 7)]
    assert set(named(nodes, "button")) >= {f"Zoom image {i}" for i in range(1, 7)} | {"Undo", "Send answers"}
    assert all(named(nodes, "button"))
    assert all(named(nodes, "image"))
    assert not any("png" in name for _, name in nodes)
    assert "Images that show: a red circle" in named(nodes, "group")
    assert named(nodes, "heading") == ["Mark every image that shows: a red circle"]
    assert len(named(nodes, "banner")) == len(named(nodes, "main")) == len(named(nodes, "status")) == 1
    assert len(named(nodes, "progressbar")) == 1
    assert "left" in named(nodes, "progressbar")[0]


def test_tab_goes_through_the_page_as_it_reads_and_out_of_it(site: Any, open_window: Opener) -> None:
    window = open_window(site.link(), viewport={"width": 1280, "height": 900})
    window.ids()
    name = """(({ id, ariaLabel, className, localName }) => id || ariaLabel || className || localName)
        (document.activeElement)"""
    seen = []
    while "body" not in seen and len(seen) < 30:
        window.page.keyboard.press("Tab")
        seen.append(window.page.evaluate(name))
    cells = [name for i in range(6) for name in (f"box-{i}", f"Zoom image {i + 1}")]
    assert seen == ["skip", "show-keys", "summary", *cells, "undo", "submit", "body"]


def test_what_has_the_focus_is_never_hidden_by_the_bars(site: Any, open_window: Opener, phone: Any) -> None:
    window = open_window(site.link(), **phone)
    window.ids()
    for i in range(6):
        window.boxes.nth(i).focus()
        window.page.wait_for_timeout(50)
        seen = window.page.evaluate(
            """() => {
              const box = document.activeElement.getBoundingClientRect();
              return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).id;
            }"""
        )
        assert seen == f"box-{i}"


def test_the_focus_is_visible(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.ids()
    window.page.keyboard.press("ArrowRight")
    outlined = "getComputedStyle(document.activeElement.closest('.cell')).outlineStyle"
    assert window.page.evaluate(outlined) == "solid"


def test_a_mark_shows_by_more_than_colour(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.ids()
    assert window.page.get_by_text("Marked", exact=True).count() == 0
    window.mark(2)
    assert window.page.locator(".cell").nth(2).get_by_text("Marked", exact=True).is_visible()
    assert window.boxes.nth(2).is_checked()


def test_dialogs_have_names_and_hold_the_focus(site: Any, open_window: Opener) -> None:
    window = open_window(site.link())
    window.ids()
    window.page.keyboard.press("z")
    window.page.get_by_role("dialog", name="Image 1 of 6").wait_for()
    for _ in range(8):
        window.page.keyboard.press("Tab")
        held = "document.activeElement === document.body || !!document.activeElement.closest('#zoom')"
        assert window.page.evaluate(held)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(site: Any, open_window: Opener, scheme: str) -> None:
    site.rate(0, 2)
    site.rate(1, 1)
    window = open_window(site.link(), color_scheme=scheme, reduced_motion="reduce")
    window.ids()
    window.mark(1)
    window.says("Saved.")
    window.page.locator("summary").click()
    rating = window.page.evaluate(CONTRAST)
    window.page.goto(site.dashboard)
    window.page.get_by_text("Updated").wait_for()
    dashboard = window.page.evaluate(CONTRAST)
    assert {"a red circle", "Marked", "Saved.", "Send answers", "How to rate"} <= {text for text, _ in rating}
    assert {"Krippendorff's alpha", "Copy link", "rater-1"} <= {text for text, _ in dashboard}
    assert [pair for pair in rating + dashboard if pair[1] < LEAST_CONTRAST] == []


def test_nothing_moves_for_who_asks_for_less_motion(site: Any, open_window: Opener) -> None:
    window = open_window(site.link(), reduced_motion="reduce")
    window.ids()
    moving = """() => [...document.querySelectorAll("*")].filter((each) => {
      const style = getComputedStyle(each);
      return style.transitionDuration !== "0s" || style.animationName !== "none";
    }).length"""
    assert window.page.evaluate(moving) == 0


def test_without_scripts_the_page_says_what_is_missing(site: Any, open_window: Opener) -> None:
    window = open_window(site.link(), java_script_enabled=False)
    assert window.page.get_by_text("it needs JavaScript and a current browser").is_visible()
    assert open_window(site.link()).page.get_by_text("it needs JavaScript").is_hidden()
