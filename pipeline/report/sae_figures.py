"""The figures of a sweep over SAEs, by the name of their files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from pipeline.report.sae_coalition_figure import draw_coalition_sizes
from pipeline.report.sae_k_figure import draw_k_curves
from pipeline.report.sae_match_figure import draw_match_tapa
from pipeline.report.sae_sanity_figure import draw_sanity
from pipeline.report.sae_size_figures import draw_dstay, draw_sizes
from pipeline.report.sae_training_figure import draw_sae_training

Draw = Callable[[Mapping[str, pd.DataFrame], Path, Path], None]

FIGURES: dict[str, Draw] = {
    "sizes": draw_sizes,
    "match_tapa": draw_match_tapa,
    "k_curves": draw_k_curves,
    "coalition_sizes": draw_coalition_sizes,
    "dstay": draw_dstay,
    "sanity_forest": draw_sanity,
    "training": draw_sae_training,
}
"""Each takes the tables of the sae_comparison stage (saes, k_sweep, attributes, sanity, curves), two paths.

No figure has the name of a table: both are logged under their names.
"""
