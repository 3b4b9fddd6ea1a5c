"""The mixed models of the crowd and SAE tracks: differences of means; what is one unit, and one run."""

import numpy as np
import pandas as pd
import pytest

from pipeline.statistics import crowd_mixed, fit, sae_mixed
from pipeline.statistics.mixed.table import ASIDE, COLUMNS, SIGNS, model_table

METHODS = {"random": 0.0, "clip": 0.2, "by_hand": 0.5}


def units(
    layers: int = 2, n: int = 20, methods: tuple[str, ...] = tuple(METHODS), **more: str
) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "dataset": "shapes",
            "model": "m",
            "layer": f"l{layer}",
            "method": method,
            "unit": unit,
            "estimate": METHODS[method] + level + 0.01 * rng.normal(),
            **more,
        }
        for layer in range(layers)
        for unit, level in enumerate(rng.normal(size=n))
        for method in methods
    ]
    return pd.DataFrame(rows)


FACTORS = ["dataset", "model", "layer"]


def test_estimates_are_differences_from_random_and_units_are_of_their_layer() -> None:
    table = units()
    found = crowd_mixed.mixed_table(table, FACTORS)
    first = found[found["model"] == "default"].set_index("method")
    means = table.groupby("method")["estimate"].mean()
    for name in ("clip", "by_hand"):
        assert first.loc[name, "estimate"] == pytest.approx(means[name] - means["random"])
        assert first.loc[name, "p_holm"] < 1e-6
    assert list(found.columns) == ["model", "method", "reference", *COLUMNS, *SIGNS, *ASIDE]
    assert "(1|place)" in first["formula"].iloc[0] and "(1|place:method)" in first["formula"].iloc[0]
    # Units of two layers with one number are two units: within units nothing but noise is left.
    assert first["std_error"].max() < 0.01


def test_without_random_the_best_is_what_others_are_compared_with() -> None:
    found = crowd_mixed.mixed_table(units(methods=("clip", "by_hand")), FACTORS)
    assert set(found["reference"]) == {"by_hand"}
    assert found["estimate"].max() < 0


def test_samplers_stay_apart_and_seeds_are_averaged() -> None:
    one, two = units(**{"sampler": "mgis"}), units(**{"sampler": "top"})
    both = pd.concat([one, two.assign(estimate=two["estimate"] * 2)])
    found = crowd_mixed.mixed_table(both, [*FACTORS, "sampler"])
    by = found[(found["model"] == "default") & (found["method"] == "by_hand")].set_index("sampler")[
        "estimate"
    ]
    assert by["top"] == pytest.approx(2 * by["mgis"])
    seeds = [
        one.assign(**{"crowd.seed": s, "estimate": one["estimate"] + d}) for s, d in (("0", 1.0), ("1", 3.0))
    ]
    twice = crowd_mixed.mixed_table(pd.concat(seeds), [*FACTORS, "sampler", "crowd.seed"])
    alone = crowd_mixed.mixed_table(one, [*FACTORS, "sampler"])
    pd.testing.assert_frame_equal(twice, alone)


def test_one_method_alone_has_no_row_and_null_scores_are_counted() -> None:
    assert len(crowd_mixed.mixed_table(units(methods=("clip",)), FACTORS)) == 0
    table = units()
    table.loc[0, "estimate"] = np.nan
    assert "1 of " in crowd_mixed.mixed_table(table, FACTORS)["notes"].iloc[0]


def attributes(n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    gain, of_attribute = {"frozen": 0.3, "topk": 0.5, "random": 0.1}, rng.normal(scale=0.1, size=n)
    rows = []
    for variant, level in gain.items():
        for size in (128, 256):
            for seed in (0, 1):
                of_run = 0.02 * rng.normal()
                rows += [
                    {
                        "dataset": "shapes", "model": "m", "layer": "l", "variant": variant,
                        "dictionary_size": size, "sae_k": 16.0, "seed": seed, "attribute": f"a{a}",
                        "f1": level + of_run + of_attribute[a] + 0.01 * rng.normal(),
                    }
                    for a in range(n)
                ]  # fmt: skip
    return pd.DataFrame(rows)


def test_an_sae_is_one_training_however_many_attributes_it_is_asked() -> None:
    """Attributes of four SAEs a variant are four SAEs: the default knows it, the paper's model does not."""
    table = attributes()
    found = sae_mixed.mixed_table(table, FACTORS).set_index(["model", "variant"])
    means = table.groupby("variant")["f1"].mean()
    assert set(found["reference"]) == {"frozen"}
    assert found.loc[("default", "topk"), "estimate"] == pytest.approx(means["topk"] - means["frozen"])
    of_sae = (
        table.groupby(["variant", "dictionary_size", "seed"])["f1"].mean().groupby("variant").var().mean()
    )
    default, paper = (found.loc[(model, "topk"), "std_error"] for model in ("default", "paper"))
    assert default == pytest.approx(np.sqrt(2 * of_sae / 4), rel=0.35)
    assert paper < default / 1.5


def test_an_sae_from_a_file_has_no_seed_and_is_a_training_all_the_same() -> None:
    table = attributes()
    file = table[table["variant"] == "topk"].assign(variant="file", seed=np.nan)
    found = sae_mixed.mixed_table(pd.concat([table, file], ignore_index=True), FACTORS)
    assert "file" in set(found["variant"])


def test_the_sign_test_counts_cells_and_only_those_that_differ() -> None:
    """Six SAEs a variant: better than frozen in all six is p = 2 / 2^6, in five of six 2 x 7 / 2^6."""
    cells = pd.DataFrame(
        [
            {"sample": f"s{s}", "run": f"r{run}", "method": name, "f": level + run + s}
            for run in range(6)
            for s in range(3)
            for name, level in (
                ("frozen", 0.0),
                ("all", 0.1),
                ("most", -0.1 if run == 0 else 0.1),
                ("equal", 0.0),
            )
        ]
    )
    found = model_table(
        cells, score="f", method="method", sample="sample", groups={"run": "run"}, references=("frozen",)
    ).drop_duplicates("method")
    signs = found.set_index("method")[list(SIGNS)]
    assert found["notes"].str.contains("nothing is left to test with").any()  # the scores have no noise
    assert tuple(signs.loc["all"]) == (6, 6, pytest.approx(2 / 64))
    assert tuple(signs.loc["most"]) == (6, 5, pytest.approx(14 / 64))
    assert tuple(signs.loc["equal"])[:2] == (0, 0) and np.isnan(signs.loc["equal", "p_sign"])


def test_a_variant_that_is_unknown_is_refused() -> None:
    with pytest.raises(Exception, match="variant 'other' is unknown"):
        model_table(units(), score="estimate", method="method", sample="unit", groups={}, variant="other")


def test_where_the_scores_choose_the_reference_holm_counts_every_pair() -> None:
    """The best of equal methods is chosen to be far from the worst: of 11, in 16% of tables otherwise."""
    rng = np.random.default_rng(4)
    rows = [
        {"sample": f"s{s}", "method": f"m{m}", "score": rng.normal()} for s in range(30) for m in range(6)
    ]
    table = pd.DataFrame(rows)
    asked = {"score": "score", "method": "method", "sample": "sample", "groups": {}}
    chosen = model_table(table, **asked).set_index("method")
    pairs = fit(table, "score ~ method + (1|sample)").contrasts()
    for name, row in chosen.iterrows():
        pair = pairs[
            [{a, b} == {name, row["reference"]} for a, b in zip(pairs["left"], pairs["right"], strict=True)]
        ]
        assert row["p_holm"] == pytest.approx(pair["p_adjusted"].iloc[0])
        assert row["estimate"] <= 0
    named = model_table(table, **asked, references=["m0"]).set_index("method")
    small = named["p"].idxmin()
    assert named.loc[small, "p_holm"] == pytest.approx(min(1, 5 * named.loc[small, "p"]))
    assert named["converged"].all()


def test_an_attribute_that_a_kind_of_sae_finds_better_is_one_attribute_however_many_saes_find_it() -> None:
    """The error of a difference is that of 30 attributes' mean gains (paired t), not of 30 x 12 of them."""
    n_attributes, n_seeds = 30, 12
    rng = np.random.default_rng(6)
    gain, noise = 0.1 * rng.normal(size=(2, n_attributes)), 0.02 * rng.normal(size=(2, n_attributes, n_seeds))
    rows = [
        {"dataset": "shapes", "variant": variant, "dictionary_size": 8, "seed": seed, "attribute": f"a{a}"}
        | {"f1": 0.5 + gain[v, a] + noise[v, a, seed]}
        for v, variant in enumerate(("frozen", "topk"))
        for a in range(n_attributes)
        for seed in range(n_seeds)
    ]
    found = sae_mixed.mixed_table(pd.DataFrame(rows), ["dataset"]).iloc[0]
    means = (gain + noise.mean(axis=2))[1] - (gain + noise.mean(axis=2))[0]
    assert found["estimate"] == pytest.approx(means.mean())
    assert found["std_error"] == pytest.approx(means.std(ddof=1) / np.sqrt(n_attributes), rel=0.05)
    assert found["df"] < 60
