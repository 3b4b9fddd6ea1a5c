"""The figures of a sweep over vision-language models, by the name of their files."""

from collections.abc import Callable
from pathlib import Path

from pipeline.report.vlm_curves_figure import draw_synergy_curves
from pipeline.report.vlm_drawing import Tables
from pipeline.report.vlm_metrics_figure import draw_evaluation_collapse
from pipeline.report.vlm_ranking_figure import draw_ranking
from pipeline.report.vlm_sii_figure import draw_f_against_sii

Draw = Callable[[Tables, Path, Path], None]

FIGURES: dict[str, Draw] = {
    "ranking": draw_ranking,
    "f_against_sii": draw_f_against_sii,
    "evaluation_collapse": draw_evaluation_collapse,
    "synergy_curves": draw_synergy_curves,
}
"""Each takes the tables of the vlm_comparison stage and what statistics make of them, and two paths.

No figure has the name of a table: both are logged under their names.
"""
