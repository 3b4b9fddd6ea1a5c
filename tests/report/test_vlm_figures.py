"""The figures of the VLM track: the right points, missing values in words, the same bytes every time."""

from collections.abc import Callable
from math import nan, sqrt
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from pipeline.report.vlm_curves_figure import draw_synergy_curves, errors_within
from pipeline.report.vlm_drawing import cells_of, drawn_of, number
from pipeline.report.vlm_figures import FIGURES, Draw
from pipeline.report.vlm_metrics_figure import draw_evaluation_collapse, rank_shares
from pipeline.report.vlm_ranking_figure import draw_ranking
from pipeline.report.vlm_sii_figure import draw_f_against_sii
from tests.report.vlm_examples import CELL, LEVELS, K, Tables, derived, vlm_tables

FEW = ("rollout", "occlusion", "random")
TABLES = {"samples", "scores", "curves", "sii", "maps", "explainers", "strata", "rankings", "taus"}
TABLES |= {"agreement", "states", "mixed"}
Show = Callable[[Draw, Tables], Figure]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Show:
    """Return what draws a figure without laying it out."""

    def draw_it(draw: Draw, tables: Tables) -> Figure:
        drawn: list[Figure] = []
        with monkeypatch.context() as patched:
            patched.setattr(Figure, "savefig", lambda figure, path, **_: drawn.append(figure) or path.touch())
            draw(tables, tmp_path / "a.png", tmp_path / "a.svg")
        return drawn[-1]

    return draw_it


def cells(n: int) -> list[dict[str, str]]:
    return [CELL | {"vlm": f"model {i}"} for i in range(n)]


def words(axes: Axes) -> str:
    return "\n".join(text.get_text() for text in axes.texts)


def title(axes: Axes) -> str:
    return axes.get_title(loc="left")


def names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def dots(axes: Axes) -> list[tuple[float, float, bool]]:
    """Return x, y and whether it is filled, of all single markers."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 1 and line.get_marker() != "None"]
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]), line.get_markerfacecolor() != "white")
        for line in lines
    ]


def spans(axes: Axes) -> list[list[float]]:
    """Return the ends of all intervals that are drawn as lines of two points at one height."""
    ends = [(line.get_xdata(), line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2]
    return [[float(x) for x in xs] for xs, ys in ends if ys[0] == ys[1] and xs[0] != xs[1]]


def without(tables: Tables) -> Tables:
    """Return the tables of a sweep in which no explainer was asked."""
    asked = {name: table.iloc[:0] for name, table in tables.items() if name != "samples"}
    return asked | {"samples": tables["samples"].assign(flag="empty_answer")}


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_tables_give_the_same_bytes_whatever_the_users_style(name: str, tmp_path: Path) -> None:
    tables = vlm_tables(explainers=FEW, n_samples=4)
    paths = tmp_path / "a.png", tmp_path / "a.svg"
    FIGURES[name](tables, *paths)
    one = [path.read_bytes() for path in paths]
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.hashsalt": "other"}):
        FIGURES[name](tables, *paths)
        assert matplotlib.rcParams["font.size"] == 23
    assert one == [path.read_bytes() for path in paths]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_a_sweep_without_an_explainer_is_told_in_words(name: str, show: Show) -> None:
    figure = show(FIGURES[name], without(vlm_tables(explainers=FEW, n_samples=2)))
    assert len(figure.axes) == 1
    assert words(figure.axes[0]).startswith("no ")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_one_sample_of_one_explainer_is_drawn(name: str, show: Show) -> None:
    assert show(FIGURES[name], vlm_tables(explainers=("ig",), n_samples=1, n_sii=1)).axes


@pytest.mark.parametrize(
    ("name", "answers"), [*((name, ("yes", "no")) for name in FIGURES), ("ranking", ("yes",))]
)
def test_nothing_is_cut_off(
    name: str, answers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    def lay_out(figure: Figure, path: Path, **_: object) -> None:
        drawn.append(figure)
        figure.draw_without_rendering()
        path.touch()

    monkeypatch.setattr(Figure, "savefig", lay_out)
    tables = vlm_tables(explainers=FEW, answers=answers, n_sii=2)
    FIGURES[name](tables, tmp_path / "a.png", tmp_path / "a.svg")
    box, (width, height) = drawn[0].get_tightbbox(), drawn[0].get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0


def test_no_figure_has_the_name_of_a_table() -> None:
    assert not FIGURES.keys() & TABLES


@pytest.mark.parametrize("draw", [draw_ranking, draw_evaluation_collapse, draw_synergy_curves])
def test_cells_without_a_panel_are_counted(show: Show, draw: Draw) -> None:
    figure = show(draw, vlm_tables(cells=cells(5), explainers=FEW[:2], n_samples=2, n_sii=0))
    assert figure.get_supxlabel().endswith("\n1 more cell is in the tables")
    assert sum(title(axes).startswith("model") for axes in figure.axes) == 4


def test_a_cell_is_titled_by_the_factors_that_differ() -> None:
    samples = vlm_tables(cells=cells(2), explainers=FEW, n_samples=1)["samples"]
    assert [cell.title for cell in cells_of(samples)] == ["model 0", "model 1"]
    assert [cell.title for cell in cells_of(samples.head(1))] == ["model 0, shapes_vqa"]
    assert [cell.title for cell in cells_of(samples.assign(vlm=["a", "a"], questions=["1", "2"]))] == [
        "questions 1",
        "questions 2",
    ]


def test_settings_of_one_explainer_share_its_colour_and_no_two_explainers_their_marker() -> None:
    known = [*LEVELS, "ig (n_steps=64)", "lime", "shap"]
    drawn = {each.name: each for each in drawn_of(vlm_tables(explainers=known, n_samples=2)["explainers"])}
    assert drawn["ig"].look.colour == drawn["ig (n_steps=64)"].look.colour
    assert drawn["ig"].dashes != drawn["ig (n_steps=64)"].dashes
    looks = {(each.look.colour, each.look.marker) for each in drawn.values()}
    assert len(looks) == len(known)


def test_an_explainer_looks_the_same_where_others_are_missing() -> None:
    table = vlm_tables(explainers=["lime", "shap"], n_samples=2)["explainers"]
    both, one = drawn_of(table), drawn_of(table, table[table["explainer"] == "shap"])
    assert [each for each in both if each.name == "shap"] == one


@pytest.mark.parametrize(
    ("value", "said"), [(-0.001, "0.00"), (-0.126, "\N{MINUS SIGN}0.13"), (nan, "-"), (2.0, "2.00")]
)
def test_numbers_have_a_true_minus_and_no_minus_zero(value: float, said: str) -> None:
    assert number(value) == said


# ranking


def test_a_dot_is_a_mean_with_its_interval_and_the_highest_is_on_top(show: Show) -> None:
    tables = vlm_tables()
    axes = show(draw_ranking, tables).axes[0]
    rows = tables["explainers"].sort_values("mean_f", ascending=False)
    assert [x for x, _, _ in dots(axes)] == pytest.approx(rows["mean_f"].tolist())
    assert [y for _, y, _ in dots(axes)] == list(range(len(rows)))
    assert spans(axes) == [pytest.approx(ends) for ends in rows[["low", "high"]].to_numpy().tolist()]
    assert [name.split(" (")[0] for name in names(axes)] == rows["explainer"].tolist()
    top, bottom = sorted(axes.get_ylim(), reverse=True)
    assert axes.get_ylim() == (top, bottom)


def test_random_and_the_two_occlusions_stand_apart(show: Show) -> None:
    tables = vlm_tables()
    axes = show(draw_ranking, tables).axes[0]
    italics = {label.get_text() for label in axes.get_yticklabels() if label.get_style() == "italic"}
    assert italics == {"random", "occlusion (upper bound)", "inverted_occlusion (lower bound)"}
    means = tables["explainers"].set_index("explainer")["mean_f"]
    span = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    assert [span.x0, span.x1] == pytest.approx([means["inverted_occlusion"], means["occlusion"]])
    dotted = [line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) == [0, 1]]
    assert means["random"] in dotted


def test_a_mean_that_is_not_told_apart_from_random_is_hollow(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    table = tables["explainers"]
    tables["explainers"] = table.assign(p_random=table["explainer"].map({"rollout": 0.04, "occlusion": 0.05}))
    assert [filled for _, _, filled in dots(show(draw_ranking, tables).axes[0])] == [True, False, False]


def test_samples_without_f_are_counted_beside_the_mean_and_no_f_is_said(show: Show) -> None:
    tables = vlm_tables(explainers=FEW, n_samples=4)
    scores = tables["scores"]
    lacking = (scores["explainer"] == "rollout") | (
        (scores["explainer"] == "random") & (scores["sample_id"] == "test-000")
    )
    tables["scores"] = scores.assign(f=scores["f"].mask(lacking))
    axes = show(draw_ranking, tables | derived(tables)).axes[0]
    assert names(axes)[-1] == "rollout"
    assert "no F: 4 of 4 missing" in words(axes)
    assert "(1 of 4 missing)" in words(axes)
    assert len(dots(axes)) == 2


def test_f_is_shown_by_answer_with_the_answers_d(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    figure = show(draw_ranking, tables)
    axes = figure.axes[1]
    rows = tables["strata"]
    markers = [line for line in axes.lines if len(line.get_xdata()) == len(FEW)]
    legend = axes.get_legend()
    assert legend is not None
    said = [text.get_text().split("\n")[0].strip("“”") for text in legend.get_texts()]
    assert sorted(said) == ["no", "yes"]
    order = [name.split(" (")[0] for name in names(figure.axes[0])]
    for answer, line in zip(said, markers, strict=True):
        own = rows[rows["answer"] == answer].set_index("explainer").loc[order]
        assert list(line.get_xdata()) == pytest.approx(own["mean_f"].tolist())
    dashed = sorted(line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) == [0, 1])
    assert dashed[-1] == pytest.approx(rows[rows["answer"] == "yes"]["mean_dividend"].mean())
    assert any("3 samples, D 0.00" in text.get_text() for text in legend.get_texts())


def test_one_answer_has_no_panel_of_its_own(show: Show) -> None:
    assert len(show(draw_ranking, vlm_tables(explainers=FEW, answers=("yes",))).axes) == 1


def test_the_mean_over_cells_comes_first(show: Show) -> None:
    tables = vlm_tables(cells=cells(2), explainers=FEW)
    figure = show(draw_ranking, tables)
    assert [title(axes) for axes in figure.axes[::2]] == ["mean over 2 cells", "model 0", "model 1"]
    rows = tables["explainers"]
    overall = rows[rows["level"] == "overall"].sort_values("mean_f", ascending=False)
    assert [x for x, _, _ in dots(figure.axes[0])] == pytest.approx(overall["mean_f"].tolist())


def test_samples_that_were_not_asked_are_counted(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    tables["samples"].loc[0, "flag"] = "empty_answer"
    assert "1 sample of 6 left out" in show(draw_ranking, tables).get_supxlabel()


# f_against_sii


@pytest.mark.parametrize(("panel", "measure"), [(0, "sii"), (1, "sii_top")])
def test_a_point_is_f_against_sii_of_one_sample_under_one_explainer(
    show: Show, panel: int, measure: str
) -> None:
    tables = vlm_tables(explainers=FEW)
    axes = show(draw_f_against_sii, tables).axes[panel]
    points = sorted(tuple(at) for found in axes.collections for at in found.get_offsets())
    scores = tables["scores"].set_index(["explainer", "sample_id"])["f"]
    exact = tables["sii"].set_index(["explainer", "sample_id"])[measure]
    assert np.array(points) == pytest.approx(np.array(sorted((exact[at], scores[at]) for at in exact.index)))
    shares = tables["agreement"][lambda t: t["measure"] == "share_within"].set_index("left")["value"]
    assert words(axes) == (
        "3 samples, 3 explainers\n"
        f"of its variance {shares[measure]:.0%} is within samples (F {shares['f']:.0%})"
    )


def test_agreement_with_the_sum_and_the_top_pair_is_written_and_d_ranks_no_explainers(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    axes = show(draw_f_against_sii, tables).axes[2]
    rows = tables["agreement"]
    rows = rows[
        (rows["measure"] == "spearman") & rows["right"].isin(["sii", "sii_top"]) & rows["value"].notna()
    ]
    rows = rows[rows["left"].isin(["f", "dividend"])]
    assert len(rows) == len(dots(axes)) == 10
    drawn = [(round(y), x) for x, y, _ in dots(axes)]
    levels = ["pooled", "across", "within"]
    for row in rows.itertuples():
        place = 3 * levels.index(row.level) + ["sii", "sii_top"].index(row.right) + 1
        assert any(at == place and x == pytest.approx(row.value) for at, x in drawn)
        assert f"{number(row.value)} [{number(row.low)}, {number(row.high)}]" in words(axes)
    assert names(axes) == ["sum", "top pair"] * 3
    assert "(D ranks none)" in words(axes)


def test_the_caption_says_why_the_sum_is_near_d(show: Show) -> None:
    caption = show(draw_f_against_sii, vlm_tables(explainers=FEW)).get_supxlabel()
    assert "whatever the explainer, so it is near D: it tells samples apart, not explainers" in caption


def test_points_without_f_are_counted(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    lacking = (tables["scores"]["explainer"] == "random") & (tables["scores"]["sample_id"] == "test-001")
    tables["scores"] = tables["scores"].assign(f=tables["scores"]["f"].mask(lacking))
    axes = show(draw_f_against_sii, tables | derived(tables)).axes[0]
    assert words(axes).startswith("3 samples, 3 explainers; 1 point without F or SII\n")
    assert sum(len(found.get_offsets()) for found in axes.collections) == 8


def test_a_sweep_without_sii_says_so(show: Show) -> None:
    figure = show(draw_f_against_sii, vlm_tables(explainers=FEW, n_sii=0))
    assert words(figure.axes[0]) == "no sample has an exact SII, so F cannot be compared with it"


def test_a_cell_without_sii_has_no_panel(show: Show) -> None:
    tables = vlm_tables(cells=cells(2), explainers=FEW)
    for name in ("sii", "agreement"):
        tables[name] = tables[name][tables[name]["vlm"] == "model 1"]
    figure = show(draw_f_against_sii, tables)
    assert [title(axes) for axes in figure.axes] == [
        "model 1",
        "",
        "agreement of F and D with SII (Spearman)",
    ]


# evaluation_collapse


def test_every_rank_stands_in_its_metrics_column(show: Show) -> None:
    tables = vlm_tables(n_sii=2)
    tables["sii"] = tables["sii"][tables["sii"]["explainer"] != "ig"]
    tables |= derived(tables)
    top, bottom = show(draw_evaluation_collapse, tables).axes
    columns = [label.get_text().replace("\n", " ") for label in bottom.get_xticklabels()]
    assert columns[:5] == [
        "F", "SII sum (5 of 6)", "SII top pair (5 of 6)", "image deletion", "text deletion",
    ]  # fmt: skip
    written = {text.get_position(): text.get_text() for text in bottom.texts}
    ranks = tables["rankings"].set_index(["metric", "explainer"])["rank"]
    for row, name in enumerate(names(bottom)):
        assert written[0, row] == f"{row + 1}"
        assert written[3, row] == f"{ranks['image_auc_del', name]:g}"
    assert written[1, names(bottom).index("ig")] == written[2, names(bottom).index("ig")] == "none"
    assert title(top) == "tiny_llava, shapes_vqa"


def test_a_bar_is_kendalls_tau_of_a_metric_with_f(show: Show) -> None:
    tables = vlm_tables()
    taus = tables["taus"]
    top, _ = show(draw_evaluation_collapse, tables).axes
    own = taus[taus["left"] == "f"].set_index("right")["tau"]
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in top.patches}
    assert heights[3] == pytest.approx(own["image_auc_del"])
    assert len(heights) == len(own)
    turned = taus.rename(columns={"left": "right", "right": "left"})
    again, _ = show(draw_evaluation_collapse, tables | {"taus": turned}).axes
    assert [bar.get_height() for bar in again.patches] == [bar.get_height() for bar in top.patches]


def test_a_tau_that_is_not_told_from_none_is_a_hatched_bar(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    taus = tables["taus"]
    tables["taus"] = taus.assign(tau=-1.0, p=np.where(taus["right"] == "image_auc_del", 0.049, 0.05))
    top, _ = show(draw_evaluation_collapse, tables).axes
    hatched = {round(bar.get_x() + bar.get_width() / 2): bar.get_hatch() for bar in top.patches}
    assert hatched.pop(3) is None
    assert set(hatched.values()) == {"////"}


def test_a_metric_that_fewer_explainers_have_than_f_is_grey(show: Show) -> None:
    tables = vlm_tables(n_sii=2)
    tables["sii"] = tables["sii"][tables["sii"]["explainer"] != "ig"]
    _, bottom = show(draw_evaluation_collapse, tables | derived(tables)).axes
    coloured, grey = bottom.images
    seen = [~np.ma.getmaskarray(image.get_array()).all(axis=0) for image in (coloured, grey)]
    assert list(seen[0]) == [True, False, False, *[True] * 6]
    assert (seen[1] == ~seen[0]).all()
    red, green, blue, alpha = grey.to_rgba(grey.get_array())[names(bottom).index("rollout"), 1]
    assert red == green == blue
    assert alpha == 1


def test_a_tau_that_is_not_defined_is_told(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    tables["taus"] = tables["taus"].assign(tau=np.nan, p=np.nan)
    assert words(show(draw_evaluation_collapse, tables).axes[0]).count("no τ") == 8


def test_rank_shares_run_from_0_to_1_in_each_column() -> None:
    found = rank_shares(np.array([[1, 2.0], [3, nan], [2, 1]]))
    assert found[:, 0].tolist() == [0, 1, 0.5]
    assert found[[0, 2], 1].tolist() == [1, 0]
    assert np.isnan(found[1, 1])


# synergy_curves


def test_a_curve_is_the_mean_over_samples_in_its_panel(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    left, right = show(draw_synergy_curves, tables).axes
    first = drawn_of(tables["explainers"])[0].name
    means = tables["curves"][tables["curves"]["explainer"] == first].groupby("point")[["ins", "del"]].mean()
    for axes, column in ((left, "ins"), (right, "del")):
        lines = [line for line in axes.lines if len(line.get_xdata()) == K]
        assert len(lines) == len(FEW)
        assert list(lines[0].get_ydata()) == pytest.approx(means[column].tolist())
    assert [title(axes) for axes in (left, right)] == ["tiny_llava, shapes_vqa: insertion", "deletion"]


def test_an_explainer_without_a_curve_on_a_sample_is_named(show: Show) -> None:
    tables = vlm_tables(explainers=FEW)
    curves = tables["curves"]
    lacking = (curves["explainer"] == "random") & (curves["sample_id"] == "test-001")
    tables["curves"] = curves.assign(ins=curves["ins"].mask(lacking))
    assert "not computed:\nrandom (1 of 6 samples)" in words(show(draw_synergy_curves, tables).axes[0])


def test_bands_leave_out_what_all_explainers_of_a_sample_share() -> None:
    samples, explainers = range(5), ("a", "b", "c")
    shared, own = [10.0, -3.0, 4.0, 0.0, 7.0], {"a": 1.0, "b": 2.0, "c": -1.0}
    rows = [(e, i, 0.5, shared[i] + own[e]) for i in samples for e in explainers]
    curves = pd.DataFrame(rows, columns=["explainer", "sample_id", "share", "ins"])
    assert errors_within(curves, "ins").tolist() == pytest.approx([0, 0, 0])


def test_the_band_of_one_explainer_is_the_plain_standard_error() -> None:
    values = [1.0, 4.0, 2.0, 9.0]
    curves = pd.DataFrame({"explainer": "a", "sample_id": range(4), "share": 0.5, "ins": values})
    assert errors_within(curves, "ins").tolist() == pytest.approx([np.std(values, ddof=1) / 2])


def test_the_band_within_samples_has_the_size_of_independent_noise() -> None:
    noise = np.random.default_rng(0).standard_normal((4000, 3))
    rows = [(e, i, 0.5, value + 50 * i) for i, row in enumerate(noise) for e, value in enumerate(row)]
    curves = pd.DataFrame(rows, columns=["explainer", "sample_id", "share", "ins"])
    assert errors_within(curves, "ins").to_numpy() == pytest.approx(1 / sqrt(4000), rel=0.05)


def test_bands_vanish_where_all_curves_end_at_d(show: Show) -> None:
    axes = show(draw_synergy_curves, vlm_tables(explainers=FEW)).axes[0]
    bands = [found for found in axes.collections if not isinstance(found, PathCollection)]
    for band in bands:
        ends = [y for x, y in band.get_paths()[0].vertices if x == 1]
        assert max(ends) - min(ends) == pytest.approx(0, abs=1e-12)
        middle = [y for x, y in band.get_paths()[0].vertices if x == 0.5]
        assert max(middle) > min(middle)
