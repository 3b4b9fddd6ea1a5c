import html
import re

import pytest
from defusedxml import ElementTree
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.mturk.question import MOST_BYTES, NOT_XML, html_question, task_question

SPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd}"
PAGE = '<p>${description_html}</p><img src="${image_url0}"><img src="${image_url1}">'


def content(question):
    return ElementTree.fromstring(question.encode()).findtext(f"{SPACE}HTMLContent")


def task(**cells):
    row = {
        "task_id": "t0123456789ab",
        "study": "pilot",
        "description": "a < b",
        "description_html": "a &lt; b",
        "image_url0": 'https://x.example/a"b.png',
        "input_id0": "i0123456789ab",
        "image_url1": "",
        "input_id1": "",
    }
    return row | cells


@given(st.text())
def test_any_body_arrives_at_mturk_as_it_was(body):
    assume(not NOT_XML.search(body))
    # XML itself reads every line end as a line feed.
    wanted = body.replace("\r\n", "\n").replace("\r", "\n")
    assert f"<body>{wanted}</body>" in content(html_question(body))


@pytest.mark.parametrize("body", ["]]>", "]]]]>>", "<![CDATA[ ]]>]]>", "a]]>b]]>c"])
def test_the_end_of_cdata_in_a_text_does_not_end_the_question(body):
    assert f"<body>{body}</body>" in content(html_question(body))


def test_the_frame_takes_the_window_and_the_page_its_charset():
    question = html_question("x")
    assert ElementTree.fromstring(question.encode()).findtext(f"{SPACE}FrameHeight") == "0"
    assert content(question).startswith('<!DOCTYPE html><html><head><meta charset="utf-8">')


def test_cells_are_escaped_once():
    page = content(task_question(PAGE, task(), "production"))
    assert "<p>a &lt; b</p>" in page
    assert html.escape('https://x.example/a"b.png') in page


def test_a_script_in_a_description_is_text_for_the_rater(make_study):
    study = make_study(n_tasks=2)
    row = study.tasks.iloc[1].to_dict()
    assert row["description"].startswith("<script>")
    page = content(task_question((study.folder / "task.html").read_text(), row, "production"))
    assert "<em>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;</em>" in page
    assert "${" not in page


def test_a_character_that_xml_cannot_hold_is_refused_with_the_task():
    with pytest.raises(AssayError, match=r"t0123456789ab.*\\x0b"):
        task_question(PAGE, task(description_html="a \x0b b"), "sandbox")


def test_the_limit_counts_bytes_of_the_whole_question():
    empty = len(html_question("").encode())
    fits = "é" * ((MOST_BYTES - empty) // 2)
    assert len(html_question(fits).encode()) <= MOST_BYTES
    with pytest.raises(AssayError, match=r"65,53[67] bytes.*65,535"):
        html_question(fits + "é")


def test_a_blank_address_is_refused_with_the_command_that_mends_it():
    with pytest.raises(AssayError, match=r"image_url0 is blank.*assay host --study pilot --base-url"):
        task_question(PAGE, task(image_url0=""), "sandbox")


def test_a_blank_address_in_an_empty_slot_is_fine():
    assert content(task_question(PAGE, task(), "sandbox"))


def test_http_images_are_for_the_sandbox_only():
    row = task(image_url0="http://x.example/a.png")
    assert "http://x.example/a.png" in content(task_question(PAGE, row, "sandbox"))
    with pytest.raises(AssayError, match="mixed content"):
        task_question(PAGE, row, "production")


@pytest.mark.parametrize("url", ["images/a.png", "file:///a.png", "javascript:alert(1)", "ftp://x/a.png"])
def test_what_is_no_web_address_is_refused(url):
    with pytest.raises(AssayError, match=re.escape(url)):
        task_question(PAGE, task(image_url0=url), "sandbox")


def test_a_placeholder_without_a_column_is_named():
    with pytest.raises(AssayError, match=r"\$\{colour\}.*tasks.csv lacks"):
        task_question(PAGE + "${colour}", task(), "sandbox")
