"""A task as MTurk wants it: an HTMLQuestion."""

import re
from collections.abc import Mapping

from pipeline.errors import AssayError
from pipeline.study.pages import fill

SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
MOST_BYTES = 65_535
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def task_question(page: str, row: Mapping[str, str], place: str) -> str:
    """Return the HTMLQuestion of one row of tasks.csv, filled into the study's page.

    Raises AssayError where the page asks for a column that tasks.csv lacks, where an image has no
    address or one that a browser does not load at `place`, and where MTurk would refuse the question.
    """
    _require_addresses(row, place)
    try:
        return html_question(fill(page, row))
    except KeyError as error:
        raise AssayError(
            f"the study's page has ${{{error.args[0]}}}, which tasks.csv lacks; it has {', '.join(row)}"
        ) from None
    except AssayError as error:
        raise AssayError(f"task {row['task_id']} ({row['description']!r}): {error}") from None


def html_question(body: str) -> str:
    """Return XML that holds a page's body as a whole document, shown at the window's own height.

    Raises AssayError for characters that XML cannot hold, and above 65,535 bytes.
    """
    if illegal := NOT_XML.search(body):
        raise AssayError(f"the character {illegal[0]!r} cannot be sent to MTurk; take it out")
    document = f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>{body}</body></html>'
    content = document.replace("]]>", "]]]]><![CDATA[>")
    question = (
        f'<?xml version="1.0" encoding="UTF-8"?><HTMLQuestion xmlns="{SCHEMA}">'
        f"<HTMLContent><![CDATA[{content}]]></HTMLContent><FrameHeight>0</FrameHeight></HTMLQuestion>"
    )
    if (size := len(question.encode())) > MOST_BYTES:
        raise AssayError(
            f"the page has {size:,} bytes, and MTurk takes {MOST_BYTES:,}: "
            "use shorter image addresses, or fewer inputs a task"
        )
    return question


def _require_addresses(row: Mapping[str, str], place: str) -> None:
    slots = [column.removeprefix("input_id") for column in row if re.fullmatch(r"input_id\d+", column)]
    for slot in (slot for slot in slots if row[f"input_id{slot}"]):
        url = row[f"image_url{slot}"]
        where = f"task {row['task_id']}, image_url{slot}"
        if not url:
            raise AssayError(
                f"{where} is blank: raters would see no image. Put the images on the web, then "
                f"`assay host --study {row['study']} --base-url https://...`"
            )
        if not re.match(r"https?://", url):
            raise AssayError(f"{where}={url!r} is no web address; see `assay host`")
        if place == "production" and not url.startswith("https://"):
            raise AssayError(
                f"{where}={url!r}: MTurk's pages are https, and browsers load no http image in them "
                "(mixed content). Serve the images by https; see `assay host`"
            )
