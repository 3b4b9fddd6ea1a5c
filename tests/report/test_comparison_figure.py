"""The comparison's figure: the same bytes every time, the right places, no global state."""

from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from pipeline.report import comparison_figure
from pipeline.report.comparison_figure import draw_comparison
from pipeline.statistics.comparison import compare

FACTORS = ("model", "layer", "scoring")


def scores(layers: list[str], scorings: list[str], n_units: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "model": "m",
            "layer": layer,
            "scoring": scoring,
            "method": method,
            "unit": unit,
            "description": f"text {unit}",
        }
        | {"estimate": 0.2 * k + 0.1 * rng.standard_normal(), "n_images": 9, "n_ratings": 27, "flags": ""}
        for layer, scoring, (k, method), unit in product(
            layers, scorings, enumerate(["random", "csv", "dissect"]), range(n_units)
        )
    ]
    return pd.DataFrame(rows)


def drawn(folder: Path, table: pd.DataFrame, factors: tuple[str, ...] = FACTORS) -> tuple[bytes, bytes]:
    paths = folder / "figure.png", folder / "figure.svg"
    draw_comparison(compare(table, factors=factors, n_bootstrap=10), table, *paths)
    assert sorted(path.name for path in folder.iterdir()) == ["figure.png", "figure.svg"]
    return paths[0].read_bytes(), paths[1].read_bytes()


def test_the_same_scores_give_the_same_bytes_whatever_the_users_style(tmp_path: Path) -> None:
    table = scores(["l1", "l2"], ["crowd", "oracle"])
    one = drawn(tmp_path, table)
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.hashsalt": "other"}):
        other = drawn(tmp_path, table.sample(frac=1, random_state=1))
        assert matplotlib.rcParams["font.size"] == 23
    assert one == other


def test_the_picture_is_as_wide_as_a_readme_and_has_ink(tmp_path: Path) -> None:
    drawn(tmp_path, scores(["l1"], ["crowd"]))
    picture = Image.open(tmp_path / "figure.png").convert("RGB")
    assert picture.width == 1440
    colours = {colour for _, colour in picture.getcolors(1 << 20) or []}
    assert (0x00, 0x72, 0xB2) in colours


def test_methods_stand_in_the_order_of_their_rank_and_facets_are_the_cells() -> None:
    plan = comparison_figure._plan(compare(scores(["l1", "l2"], ["oracle", "crowd"]), factors=FACTORS))
    assert plan.methods == ("dissect", "csv", "random")
    assert [plan.title(facet) for facet in plan.facets] == ["all cells", "l1", "l2"]
    assert [plan.label(series) for series in plan.series] == ["crowd", "oracle"]
    places = [plan.place(method, series) for method in plan.methods for series in plan.series]
    assert places == sorted(places)


def test_many_cells_are_left_to_the_table() -> None:
    table = scores([f"l{i}" for i in range(12)], ["crowd"])
    plan = comparison_figure._plan(compare(table, factors=FACTORS))
    assert [plan.title(facet) for facet in plan.facets] == ["all units"]


def test_a_value_that_is_a_number_is_named_by_its_factor() -> None:
    table = scores(["l1", "l2"], ["crowd"]).rename(columns={"layer": "sampler.n_inputs"})
    table["sampler.n_inputs"] = table["sampler.n_inputs"].map({"l1": "20", "l2": "180"})
    factors = ("model", "sampler.n_inputs", "scoring")
    plan = comparison_figure._plan(compare(table, factors=factors))
    assert [plan.label(series) for series in plan.series] == ["sampler.n_inputs 180", "sampler.n_inputs 20"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "estimate", [np.nan, 0.0, [np.nan, 0.5] * 9], ids=["no score at all", "all the same", "half missing"]
)
def test_degenerate_scores_are_drawn_without_a_warning(tmp_path: Path, estimate: float | list[float]) -> None:
    table = scores(["l1"], ["crowd"]).assign(estimate=estimate)
    assert all(drawn(tmp_path, table))


@pytest.mark.filterwarnings("error")
def test_errors_far_apart_more_series_than_colours_and_one_unit_are_drawn(tmp_path: Path) -> None:
    table = scores(["l1"], [f"s{i}" for i in range(9)] + ["oracle"], n_units=1)
    table.loc[table["scoring"] == "oracle", "estimate"] = [1e-6, 0.5, 0.9]
    assert all(drawn(tmp_path, table))


def test_many_units_stay_a_small_file(tmp_path: Path) -> None:
    _, svg = drawn(tmp_path, scores(["l1"], ["crowd"], n_units=4000))
    assert len(svg) < 500_000


def caption(table: pd.DataFrame, factors: tuple[str, ...] = FACTORS) -> str:
    found = compare(table, factors=factors, n_bootstrap=10, confidence=0.9)
    return comparison_figure._caption(comparison_figure._plan(found), found, table)


def test_the_caption_says_what_the_interval_is_not() -> None:
    found = caption(scores(["l1"], ["crowd"]))
    assert "90% interval over units, for these images and raters; not the error against the truth" in found
    assert "a dot is a unit\n" in found


def test_a_caption_calls_dots_that_were_thinned_out_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    table = scores(["l1"], ["crowd"])
    monkeypatch.setattr(comparison_figure, "MAX_DOTS", 18)
    assert "sample" not in caption(table)
    monkeypatch.setattr(comparison_figure, "MAX_DOTS", 17)
    assert "a sample of units" in caption(table)


def test_the_dots_of_every_seed_are_drawn_in_the_series_of_their_protocol() -> None:
    table = pd.concat([scores(["l1"], ["crowd", "oracle"]).assign(**{"crowd.seed": s}) for s in "01"])
    factors = (*FACTORS, "crowd.seed")
    plan = comparison_figure._plan(compare(table, factors=factors, n_bootstrap=10))
    assert [plan.label(series) for series in plan.series] == ["crowd", "oracle"]
    assert [plan.title(facet) for facet in plan.facets] == ["all cells", "crowd.seed 0", "crowd.seed 1"]
    assert comparison_figure._matches(table, plan.protocols, plan.series[0]).sum() == 36
    assert "several by crowd.seed" in caption(table, factors)


def test_errors_stand_on_a_linear_axis_from_zero_at_their_mean_absolute_error() -> None:
    table = scores(["l1"], ["crowd", "oracle"])
    found = compare(table, factors=FACTORS, n_bootstrap=10)
    axes = Figure().subplots()
    errors = found.errors[found.errors["level"] == "overall"]
    comparison_figure._draw_errors(axes, comparison_figure._plan(found), errors)
    assert (axes.get_xscale(), axes.get_xlim()[0]) == ("linear", 0)
    drawn_at = np.sort(np.concatenate([np.asarray(c.get_offsets())[:, 0] for c in axes.collections]))
    by_method = errors[errors["method"] != "all"]["mae"]
    np.testing.assert_allclose(drawn_at, np.sort(by_method))
