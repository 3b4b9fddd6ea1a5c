"""The figures of a sweep over SAEs: the right points, missing values in words, the same bytes every time."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image

from pipeline.report.sae_coalition_figure import draw_coalition_sizes, size_shares
from pipeline.report.sae_drawing import contexts_of, series_of
from pipeline.report.sae_figures import FIGURES, Draw
from pipeline.report.sae_k_figure import at_headline, draw_k_curves
from pipeline.report.sae_match_figure import draw_match_tapa, marker_areas
from pipeline.report.sae_sanity_figure import draw_sanity
from pipeline.report.sae_size_figures import draw_dstay, draw_sizes
from pipeline.report.sae_training_figure import draw_sae_training

VARIANTS = ("topk", "batchtopk", "matryoshka", "jumprelu", "frozen", "random")
LEVELS = {
    "topk": 0.45,
    "batchtopk": 0.5,
    "matryoshka": 0.56,
    "jumprelu": 0.38,
    "frozen": 0.28,
    "random": 0.12,
}
METRICS = ("MATCHScore", "TAPAScore", "FMS", "MS", "CKNNA")
LAYER = {"dataset": "shapes", "model": "m", "layer": "blocks.6"}
Contexts = Sequence[dict[str, str]]


def sae_tables(
    *,
    contexts: Contexts = (LAYER,),
    variants: Sequence[str] = VARIANTS,
    sizes: Sequence[int] = (128, 256, 512),
    seeds: Sequence[int] = (0, 1),
    ks: Sequence[int] = (16,),
) -> dict[str, pd.DataFrame]:
    """Return saes, k_sweep, attributes, sanity and curves as the sae_comparison stage would give them."""
    rng = np.random.default_rng(0)
    rows = [
        _sae(rng, context, variant, size, float("nan") if variant == "jumprelu" else float(k), seed)
        for context in contexts
        for variant in variants
        for size in sizes
        for k in (ks if variant != "jumprelu" else ks[:1])
        for seed in seeds
    ]
    saes = pd.DataFrame(rows)
    return {
        "saes": saes,
        "k_sweep": _k_sweep(saes, len(contexts[0])),
        "attributes": _attributes(rng, saes, len(contexts[0])),
        "sanity": _sanity(variants),
        "curves": _curves(saes, len(contexts[0])),
    }


def _sae(
    rng: np.random.Generator, context: dict[str, str], variant: str, size: int, k: float, seed: int
) -> dict[str, object]:
    untrained = variant in ("frozen", "random")
    match = LEVELS.get(variant, 0.3) + 0.05 * np.log2(size / 128) + 0.02 * rng.standard_normal()
    frozen = LEVELS["frozen"] + 0.03 * np.log2(size / 128)
    tapa = 0.0 if variant == "random" else 2.1 * match - 0.35 + 0.05 * rng.standard_normal()
    return {
        **context,
        "variant": variant,
        "dictionary_size": size,
        "sae_k": k,
        "seed": seed,
        "match_score": match,
        "dmatch_score": np.nan if untrained else match - frozen,
        "frozen_spread": np.nan if untrained else 0.02,
        "tapa_score": tapa,
        "dstay": 0.1 + 0.1 * (variant == "random") + 0.02 * rng.standard_normal(),
    }


def _k_sweep(saes: pd.DataFrame, n_factors: int) -> pd.DataFrame:
    grid = pd.DataFrame([(beta, k) for beta in (0.25, 0.5, 1.0) for k in range(1, 21)], columns=["beta", "k"])
    names = [*saes.columns[: n_factors + 4], "match_score", "dmatch_score"]
    table = saes[names].merge(grid, how="cross")
    gain = 1 - np.exp(-table["k"] / 2.5) + 0.1 * (table["beta"] - 0.5)
    return table.assign(match_score=table["match_score"] * gain, dmatch_score=table["dmatch_score"] * gain)


def _attributes(rng: np.random.Generator, saes: pd.DataFrame, n_factors: int) -> pd.DataFrame:
    names = pd.DataFrame({"attribute": [f"attribute {i}" for i in range(12)]})
    table = saes.iloc[:, : n_factors + 4].merge(names, how="cross")
    rate = np.where(table["variant"] == "random", 0.7, 2.5)
    return table.assign(n_latents=rng.poisson(rate))


def _curves(saes: pd.DataFrame, n_factors: int) -> pd.DataFrame:
    """Return 3 epochs of every SAE, the second the best; untrained ones have one row without a loss."""
    told = saes.iloc[:, : n_factors + 4].assign(sae_key=[f"k{i}" for i in range(len(saes))])
    table = told.merge(pd.DataFrame({"epoch": [1, 2, 3], "best": [False, True, False]}), how="cross")
    untrained = table["variant"].isin(("frozen", "random"))
    loss = (1 / table["epoch"] + 0.4 * (table["epoch"] == 3)).mask(untrained)
    measures = {"explained_variance": 1 - 1 / table["epoch"], "l0": 16.0, "dead_share": 0.1}
    return table.assign(validation_loss=loss, **measures)[~untrained | (table["epoch"] == 2)]


def _sanity(variants: Sequence[str]) -> pd.DataFrame:
    names = [name for name in variants if name not in ("frozen", "random")]
    rows = []
    for number, metric in enumerate(METRICS):
        for place, group in enumerate(["all trained", *names] if len(names) > 1 else names):
            middle = 0.25 - 0.07 * number + 0.01 * place
            row: dict[str, object] = {"metric": metric, "variant": group, "n_saes": 6, "trained": 0.5}
            for kind, more in (("frozen", 0.0), ("random", 0.12)):
                ends = (np.nan, np.nan) if metric == "CKNNA" else (middle + more - 0.06, middle + more + 0.06)
                row |= {kind: 0.3, f"over_{kind}": middle + more}
                row |= {f"over_{kind}_low": ends[0], f"over_{kind}_high": ends[1]}
            verdict = "unknown" if metric == "CKNNA" else "pass" if middle > 0.06 else "fail"
            rows.append(
                row
                | {"n_items": 1 if metric == "CKNNA" else 51, "resampled": "attributes"}
                | {"verdict": verdict}
            )
    return pd.DataFrame(rows)


SMALL: dict[str, tuple[object, ...]] = {"variants": ("topk", "jumprelu", "frozen"), "sizes": (128, 256)}
Show = Callable[[Draw, dict[str, pd.DataFrame]], Figure]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Show:
    """Return what draws a figure without laying it out, to look at what is on it."""
    kept: list[Figure] = []

    def keep(figure: Figure, path: Path, **_: object) -> None:
        kept.append(figure)
        path.touch()

    def draw_it(draw: Draw, tables: dict[str, pd.DataFrame]) -> Figure:
        monkeypatch.setattr(Figure, "savefig", keep)
        draw(tables, tmp_path / "kept.png", tmp_path / "kept.svg")
        return kept[-1]

    return draw_it


def words(axes: Axes) -> str:
    return "\n".join(text.get_text() for text in axes.texts)


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for box in figure.legends for text in box.get_texts()]


def caption(figure: Figure) -> str:
    return figure.get_supxlabel()


def bytes_of(draw: Draw, tables: dict[str, pd.DataFrame], folder: Path) -> tuple[bytes, bytes]:
    png, svg = folder / "figure.png", folder / "figure.svg"
    draw(tables, png, svg)
    assert sorted(path.name for path in folder.iterdir()) == ["figure.png", "figure.svg"]
    return png.read_bytes(), svg.read_bytes()


def without_values(tables: dict[str, pd.DataFrame], value: object) -> dict[str, pd.DataFrame]:
    """Return tables of a sweep without pairs and without untrained SAEs, as None or as NaN."""
    nothing = dict.fromkeys(("dmatch_score", "frozen_spread", "tapa_score", "dstay"), value)
    ends = [f"over_{kind}{end}" for kind in ("frozen", "random") for end in ("", "_low", "_high")]
    return {
        "saes": tables["saes"].assign(**nothing),
        "k_sweep": tables["k_sweep"].assign(dmatch_score=value),
        "attributes": tables["attributes"].assign(n_latents=0),
        "curves": tables["curves"].assign(validation_loss=value),
        "sanity": tables["sanity"].assign(**dict.fromkeys(ends, np.nan), verdict="unknown", n_items=0),
    }


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_tables_give_the_same_bytes_whatever_the_users_style(name: str, tmp_path: Path) -> None:
    tables = sae_tables(variants=("topk", "frozen"), sizes=(128, 256))
    tables["sanity"] = tables["sanity"].head(2)
    tables["curves"] = tables["curves"][tables["curves"]["dictionary_size"] == 128]
    one = bytes_of(FIGURES[name], tables, tmp_path)
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.hashsalt": "other"}):
        other = bytes_of(FIGURES[name], tables, tmp_path)
        assert matplotlib.rcParams["font.size"] == 23
    assert one == other
    colours = {
        colour for _, colour in Image.open(tmp_path / "figure.png").convert("RGB").getcolors(1 << 20) or []
    }
    assert (0x00, 0x72, 0xB2) in colours


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_one_sae_without_pairs_and_without_baselines_is_drawn(name: str, tmp_path: Path) -> None:
    tables = sae_tables(variants=("topk",), sizes=(256,), seeds=(0,))
    value = None if name in ("sizes", "match_tapa") else np.nan
    assert all(bytes_of(FIGURES[name], without_values(tables, value), tmp_path))


def test_no_figure_has_the_name_of_a_table() -> None:
    assert not FIGURES.keys() & sae_tables(**SMALL).keys()


def test_a_line_joins_the_means_of_the_seeds_and_points_are_saes(show: Show) -> None:
    tables = sae_tables(**SMALL)
    top, _ = show(draw_sizes, tables).axes
    topk = tables["saes"][tables["saes"]["variant"] == "topk"]
    line = top.lines[1]  # after the one at 0
    means = topk.groupby("dictionary_size")["dmatch_score"].mean()
    assert np.asarray(line.get_ydata()) == pytest.approx(means.to_numpy())
    assert np.abs(np.log2(np.asarray(line.get_xdata(), float) / means.index)).max() < 0.2
    dots = next(found for found in top.collections if isinstance(found, PathCollection))
    assert sorted(dots.get_offsets()[:, 1]) == pytest.approx(sorted(topk["dmatch_score"]))


def test_frozen_saes_have_a_tapascore_and_are_the_zero_of_dmatchscore(show: Show) -> None:
    tables = sae_tables(**SMALL)
    figure = show(draw_sizes, tables)
    top, bottom = figure.axes
    assert len(top.lines) == 1 + 2
    assert len(bottom.lines) == 1 + 3
    assert "1 sd of frozen seeds" in legend(figure)
    spans = [found.get_datalim(top.transData).get_points()[:, 1] for found in top.collections[:2]]
    assert np.ravel(spans) == pytest.approx([-0.02, 0.02] * 2)


def test_a_context_is_a_column_titled_by_what_differs(show: Show) -> None:
    layers = [{**LAYER, "layer": f"blocks.{i}"} for i in range(2)]
    titles = [
        axes.get_title(loc="left") for axes in show(draw_sizes, sae_tables(contexts=layers, **SMALL)).axes
    ]
    assert titles == ["blocks.0", "blocks.1", "", ""]
    factors = [{**LAYER, "matching.k": str(k)} for k in (1, 3)]
    assert [c.title for c in contexts_of(sae_tables(contexts=factors, **SMALL)["saes"])] == [
        "matching.k 1",
        "matching.k 3",
    ]


@pytest.mark.parametrize("draw", [draw_sizes, draw_k_curves, draw_match_tapa, draw_dstay])
def test_contexts_without_a_column_are_counted(show: Show, draw: Draw) -> None:
    layers = [{**LAYER, "layer": f"blocks.{i}"} for i in range(6)]
    figure = show(draw, sae_tables(contexts=layers, variants=("topk",), sizes=(128,)))
    assert "\n2 more combinations of dataset, model and layer are in the table" in caption(figure)


def test_saes_without_a_value_are_named_and_counted(show: Show) -> None:
    tables = sae_tables(**SMALL)
    lacking = (tables["saes"]["variant"] == "jumprelu") & (tables["saes"]["dictionary_size"] == 256)
    tables["saes"].loc[lacking, "tapa_score"] = np.nan
    assert "not computed:\njumprelu (2 of 4 SAEs)" in words(show(draw_sizes, tables).axes[1])
    assert "not computed:\njumprelu (2 of 4 SAEs)" in words(show(draw_match_tapa, tables).axes[0])
    assert "not computed" not in words(show(draw_dstay, tables).axes[0])


def test_an_empty_panel_says_why_and_has_no_scale(show: Show) -> None:
    tables = without_values(sae_tables(**SMALL), None)
    top, bottom = show(draw_sizes, tables).axes
    assert "no frozen SAE" in words(top)
    assert "no pairs" in words(bottom)
    assert not any(axes.yaxis.get_tick_params()["labelleft"] for axes in (top, bottom))
    assert "no frozen SAE" in words(show(draw_k_curves, tables).axes[1])
    assert "no pairs" in words(show(draw_match_tapa, tables).axes[0])


def test_a_panel_with_values_keeps_its_scale_beside_an_empty_one(show: Show) -> None:
    layers = [{**LAYER, "layer": f"blocks.{i}"} for i in range(2)]
    tables = sae_tables(contexts=layers, **SMALL)
    tables["saes"].loc[tables["saes"]["layer"] == "blocks.0", "tapa_score"] = np.nan
    first, second = show(draw_sizes, tables).axes[2:]
    assert "no pairs" in words(first)
    assert len(second.lines) == 1 + 3
    assert first.yaxis.get_tick_params()["labelleft"]


def test_saes_of_one_variant_with_several_k_are_lines_of_their_own() -> None:
    series = series_of(sae_tables(ks=(16, 32), variants=("random", "jumprelu", "topk", "zoo"))["saes"])
    labels = [each.label for each in series]
    assert labels == [
        "topk K=16",
        "topk K=32",
        "jumprelu",
        "random K=16",
        "random K=32",
        "zoo K=16",
        "zoo K=32",
    ]
    assert series[0].dashes != series[1].dashes
    assert [each.look.hollow for each in series] == [False, False, False, True, True, False, False]


def betas_of(k_sweep: pd.DataFrame, saes: pd.DataFrame) -> tuple[list[float], str]:
    rows, told = at_headline(k_sweep, saes)
    assert len(rows) == 20 * len(saes)
    return sorted(rows["beta"].unique()), told


def test_the_headlines_beta_is_drawn() -> None:
    tables = sae_tables(**SMALL)
    k_sweep, saes = tables["k_sweep"], tables["saes"]
    assert betas_of(k_sweep, saes) == ([0.5], "beta = 0.5")
    assert betas_of(k_sweep, saes.assign(beta=1.0)) == ([1.0], "beta = 1")
    assert betas_of(k_sweep[k_sweep["beta"] != 0.5], saes.assign(beta=0.625)) == ([0.25], "beta = 0.25")
    factor = [{**LAYER, "matching.beta": beta} for beta in ("0.25", "1")]
    both = sae_tables(contexts=factor, **SMALL)
    assert betas_of(both["k_sweep"], both["saes"]) == ([0.25, 1.0], "beta = 0.25 or 1")


def test_a_matcher_that_knows_no_beta_is_drawn_whole() -> None:
    tables = sae_tables(**SMALL)
    one = tables["k_sweep"][tables["k_sweep"]["beta"] == 0.5].assign(beta=np.nan)
    rows, told = at_headline(one, tables["saes"])
    assert len(rows) == len(one)
    assert told == "the matcher knows no beta"


def test_a_k_curve_is_the_mean_over_sizes_and_seeds_in_the_band_of_their_range(show: Show) -> None:
    tables = sae_tables(**SMALL)
    top = show(draw_k_curves, tables).axes[0]
    rows = tables["k_sweep"]
    rows = rows[(rows["variant"] == "topk") & (rows["beta"] == 0.5)].groupby("k")["match_score"]
    assert np.asarray(top.lines[1].get_ydata()) == pytest.approx(rows.mean().to_numpy())
    ends = top.collections[0].get_datalim(top.transData).get_points()[:, 1]
    assert ends == pytest.approx([rows.min().min(), rows.max().max()])


def test_size_shares_count_empty_coalitions() -> None:
    assert size_shares(pd.Series([0, 1, 1, 3]), 4).tolist() == [0.25, 0.5, 0, 0.25, 0]
    assert size_shares(pd.Series([], dtype=np.int64), 1).tolist() == [0, 0]


def test_coalition_sizes_are_shares_of_a_variants_attributes(show: Show) -> None:
    tables = sae_tables(**SMALL)
    rows = tables["attributes"]
    tables["attributes"] = rows.assign(n_latents=np.where(rows["variant"] == "topk", 2, 0))
    topk, jumprelu, _ = show(draw_coalition_sizes, tables).axes
    heights = {round(patch.get_x() + patch.get_width() / 2): patch.get_height() for patch in topk.patches}
    assert heights == {0: 0, 1: 0, 2: 1}
    assert "4 SAEs\nempty 0%\nmedian of the others 2" in words(topk)
    assert "4 SAEs\nempty 100%\nnone matched" in words(jumprelu)


def test_larger_dictionaries_have_larger_markers_and_untrained_saes_are_hollow(show: Show) -> None:
    areas = marker_areas(pd.Series([512, 128, 4096, 128]))
    assert list(areas) == [128, 512, 4096]
    assert areas[128] < areas[512] < areas[4096]
    figure = show(draw_match_tapa, sae_tables(**SMALL))
    topk, _, frozen = (found for found in figure.axes[0].collections if isinstance(found, PathCollection))
    assert len(topk.get_facecolors())
    assert not len(frozen.get_facecolors())
    assert legend(figure)[-2:] == ["128 latents", "256 latents"]


def test_every_metric_has_a_panel_with_intervals_and_a_verdict_in_words(show: Show) -> None:
    tables = sae_tables(variants=("batchtopk", "topk", "frozen", "random"))
    figure = show(draw_sanity, tables)
    match, _, _, monosemantic, cknna = (axes for axes in figure.axes if axes.get_visible())
    assert match.get_title(loc="left") == "MATCHScore (51 attributes)"
    assert [label.get_text() for label in match.get_yticklabels()] == ["all trained", "topk", "batchtopk"]
    assert words(match) == "pass\npass\npass"
    assert words(monosemantic) == "FAIL\nFAIL\nFAIL"
    assert words(cknna) == "unknown\nunknown\nunknown"
    first = match.collections[0].get_segments()[0]
    row = tables["sanity"].iloc[0]
    assert first[:, 0] == pytest.approx([row["over_frozen_low"], row["over_frozen_high"]])
    low, high = match.get_xlim()
    assert low < 0 and high > row["over_random_high"]


def test_a_difference_without_an_interval_is_hollow_and_a_missing_one_is_said(show: Show) -> None:
    tables = sae_tables(variants=("topk", "frozen"))
    alone = [f"over_random{end}" for end in ("", "_low", "_high")]
    tables["sanity"] = tables["sanity"].assign(**dict.fromkeys(alone, np.nan), verdict="unknown")
    *_, cknna = (axes for axes in show(draw_sanity, tables).axes if axes.get_visible())
    assert cknna.get_title(loc="left") == "CKNNA (1 attribute)"
    assert words(cknna) == "unknown\nnot computed: random"
    assert [line.get_markerfacecolor() for line in cknna.lines[1:]] == ["white"]
    assert not cknna.collections


def test_a_sweep_without_a_trained_sae_says_that_there_is_nothing_to_check(show: Show) -> None:
    tables = sae_tables(variants=("frozen", "random"))
    assert tables["sanity"].empty
    assert "no trained SAE" in words(show(draw_sanity, tables).axes[0])


def test_training_is_a_line_an_sae_with_the_epoch_that_is_kept(show: Show) -> None:
    figure = show(draw_sae_training, sae_tables(**SMALL))
    first, *_ = figure.axes
    assert first.get_title(loc="left") == "128 latents"
    line, dot = first.lines[:2]
    assert np.asarray(line.get_ydata()) == pytest.approx([1, 1 / 2, 1 / 3 + 0.4])
    assert (list(dot.get_xdata()), list(dot.get_ydata())) == ([2], [0.5])
    assert len(first.lines) == 2 * 4  # topk and jumprelu, 2 seeds each; frozen SAEs are not trained
    assert legend(figure) == ["topk", "jumprelu"]


def test_training_says_what_was_not_recorded_and_that_nothing_was_trained(show: Show) -> None:
    tables = sae_tables(**SMALL)
    figure = show(draw_sae_training, without_values(tables, None))
    assert words(figure.axes[0]) == "not recorded"
    assert words(figure.axes[2]) == ""
    untrained = show(draw_sae_training, sae_tables(variants=("frozen", "random")))
    assert {words(axes) for axes in untrained.axes} == {"no SAE was trained"}


def test_sizes_without_a_column_of_training_are_counted(show: Show) -> None:
    sizes = tuple(2**i for i in range(5, 13))
    figure = show(draw_sae_training, sae_tables(variants=("topk",), sizes=sizes, seeds=(0,)))
    assert [axes.get_title(loc="left") for axes in figure.axes[:6]] == [
        f"{size:,} latents" for size in sizes[:6]
    ]
    assert "2 larger sizes are in the table" in caption(figure)
