"""The report of a sweep: one page that opens with the claim, and needs no other file and no network."""

from functools import cache
from typing import TYPE_CHECKING

from pipeline.report.interactive import script_bundle
from pipeline.report.report_inputs import Point, ReportInputs
from pipeline.report.sections.registry import sections_of
from pipeline.report.sections.section import Chart, Samples, Section
from pipeline.report.sections.wording import counted
from pipeline.report.templating import TEMPLATES, environment
from pipeline.report.vlm_page import script_policy, sheets_part

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Point", "ReportInputs", "sweep_report"]

SCRIPT = TEMPLATES / "report.js"
LONG = 32
"""Letters of a cell from which on its lines break."""


def sweep_report(inputs: ReportInputs) -> str:
    """Return the report: HTML of one file, all text escaped; without scripts everything is there to read.

    Raises AssayError for an unknown track.
    """
    track = sections_of(inputs.track)
    sections: list[Section] = track.sections(inputs)
    blocks = [block for section in sections for block in section.blocks]
    bundle = script_bundle() if any(isinstance(block, Chart) for block in blocks) else ""
    samples = [block for block in blocks if isinstance(block, Samples)]
    script = SCRIPT.read_text(encoding="utf-8")
    scripts = [text for text in (bundle, script) if text]
    return (
        _environment()
        .get_template("report.html")
        .render(
            inputs=inputs,
            claim=track.claim(inputs),
            measured=track.MEASURED,
            sections=sections,
            long=LONG,
            sheets=sheets_part(samples[0].sheets) if samples else "",
            bundle=bundle,
            script=script,
            policy=" ".join(map(script_policy, scripts)),
        )
    )


def _in_script(text: str) -> str:
    """Return JSON that no markup of its texts can end."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _capitalized(words: str) -> str:
    return words[:1].upper() + words[1:]


@cache
def _environment() -> "Environment":
    found = environment()
    found.filters |= {
        "counted": counted,
        "in_script": _in_script,
        "capitalized": _capitalized,
    }
    return found
