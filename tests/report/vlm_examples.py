"""Tables of the VLM track as its stages give them, made up; and what statistics make of them, simply."""

from collections.abc import Sequence
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pipeline.statistics.vlm_agreement import agreement_table
from pipeline.statistics.vlm_metrics import rankings_table, tau_table

Tables = dict[str, pd.DataFrame]

LEVELS = {
    "rollout": 0.5,
    "occlusion": 0.45,
    "attnlrp": 0.4,
    "ig": 0.3,
    "random": 0.15,
    "inverted_occlusion": 0.02,
}
"""The share of D that each explainer's F is, but for noise."""
CELL = {"vlm": "tiny_llava", "questions": "shapes_vqa"}
TOKENS = ["is", "there", "a", "red", "circle", "?"]
K = 11


def vlm_tables(
    *,
    cells: Sequence[dict[str, str]] = (CELL,),
    explainers: Sequence[str] = tuple(LEVELS),
    n_samples: int = 6,
    answers: Sequence[str] = ("yes", "no"),
    n_sii: int = 3,
    grid: tuple[int, int] = (4, 4),
    tokens: Sequence[str] = tuple(TOKENS),
) -> Tables:
    """Return samples, scores, curves, sii and maps, and all that is made of them."""
    rng = np.random.default_rng(0)
    samples, scores, curves, sii, maps = [], [], [], [], []
    for cell in cells:
        for i in range(n_samples):
            sample = {**cell, "sample_id": f"test-{i:03d}"}
            answer = answers[i % len(answers)]
            dividend = 0.0 if answer == "no" else 0.9 + 0.02 * i
            samples.append(_sample(sample, i, answer, grid, tokens))
            for name in explainers:
                key = {**cell, "explainer": name, "sample_id": sample["sample_id"]}
                share = LEVELS.get(name.split(" (")[0], 0.25)
                f = share * dividend + 0.02 * rng.standard_normal()
                scores.append(_score(rng, key, answer, f, dividend))
                curves += [_point(key, p, f, dividend) for p in range(K)]
                signed = rng.standard_normal(grid[0] * grid[1])
                patches = signed if name in ("ig", "occlusion") else np.abs(signed)
                own = rng.standard_normal(len(tokens)).tolist()
                maps.append({**key, "patches": patches.tolist(), "tokens": own})
                if i < n_sii:
                    told = {
                        "sii_top": 0.5 * f * share,
                        "n_states": 1024,
                        "patch_groups": 5,
                        "token_groups": 5,
                    }
                    sii.append({**key, "sii": 0.8 * dividend * (0.5 + share), **told})
    columns = [
        *cells[0],
        "explainer",
        "sample_id",
        "sii",
        "sii_top",
        "n_states",
        "patch_groups",
        "token_groups",
    ]
    made = {
        "samples": pd.DataFrame(samples),
        "scores": pd.DataFrame(scores),
        "curves": pd.DataFrame(curves),
        "sii": pd.DataFrame(sii, columns=columns),
        "maps": pd.DataFrame(maps),
    }
    return made | derived(made)


def write_images(
    tables: Tables, folder: Path, size: tuple[int, int] = (64, 64)
) -> dict[tuple[str, ...], Path]:
    """Write a canvas of noise a sample; return them by cell and sample."""
    rng = np.random.default_rng(1)
    samples = tables["samples"]
    names = factors_of(samples)
    found = {}
    for number, key in enumerate(samples[[*names, "sample_id"]].itertuples(index=False, name=None)):
        path = folder / f"canvas-{number}.png"
        coarse = Image.fromarray(rng.integers(60, 200, (8, 8, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(path)
        found[key] = path
    return found


def factors_of(samples: pd.DataFrame) -> list[str]:
    return list(samples.columns[: list(samples.columns).index("sample_id")])


def derived(tables: Tables) -> Tables:
    """Return explainers and strata, whose intervals are 1.96 standard errors, rankings, taus, agreement."""
    scores, sii = tables["scores"], tables["sii"]
    factors = factors_of(tables["samples"])
    cells = list(scores.groupby(factors, sort=False))
    explainers = [_explainers(rows).assign(**dict(zip(factors, key, strict=True))) for key, rows in cells]
    if len(cells) > 1:
        overall = pd.concat(explainers).groupby("explainer", as_index=False).mean(numeric_only=True)
        overall["rank"] = overall["mean_f"].rank(ascending=False)
        explainers.append(overall.assign(level="overall", **dict.fromkeys(factors, "")))
    strata = [
        _explainers(rows).assign(**dict(zip([*factors, "answer"], key, strict=True)))
        for key, rows in scores.groupby([*factors, "answer"], sort=False)
    ]
    return {
        "explainers": _ordered(pd.concat(explainers), ["level", *factors, "rank"]),
        "strata": _ordered(pd.concat(strata), ["level", *factors, "answer"]),
        "rankings": rankings_table(scores, sii, factors),
        "taus": tau_table(scores, sii, factors),
        "agreement": agreement_table(scores, sii, factors, n_bootstrap=20),
    }


def _sample(
    sample: dict[str, str], i: int, answer: str, grid: tuple[int, int], tokens: Sequence[str]
) -> dict[str, object]:
    expected = answer if i % 3 else "yes"
    return {
        **sample,
        "category": "object",
        "question": " ".join(tokens),
        "expected": expected,
        "answer": answer,
        "correct": answer == expected,
        "log_probability": -0.01 * (i + 1),
        "n_patches": grid[0] * grid[1],
        "n_tokens": len(tokens),
        "rows": grid[0],
        "columns": grid[1],
        "tokens": list(tokens),
        "flag": "",
    }


def _score(
    rng: np.random.Generator, key: dict[str, str], answer: str, f: float, dividend: float
) -> dict[str, object]:
    unimodal = {name: float(rng.uniform(0.2, 0.9)) for name in ("image_auc_del", "text_auc_del")}
    srg = {name: float(rng.uniform(-0.2, 0.5)) for name in ("image_srg", "text_srg")}
    return {
        **key,
        "answer": answer,
        "f": f,
        "auc_ins": f + 0.1,
        "auc_del": f - 0.1,
        "dividend": dividend,
        "ratio": f / dividend if dividend else nan,
        "f_sd": 0.01,
        "n_orders": 5,
        "patch_tie_share": 0.25,
        "token_tie_share": 0.0,
        "n_states": 50,
        **unimodal,
        **srg,
        "pointing": float(rng.integers(0, 2)),
        "pointing_chance": 0.2,
        "iou": float(rng.uniform(0, 1)),
        "flags": "",
    }


def _point(key: dict[str, str], p: int, f: float, dividend: float) -> dict[str, object]:
    share = p / (K - 1)
    bend = 1 - f / dividend if dividend else 0.5
    return {
        **key,
        "point": p,
        "share": share,
        "ins": dividend * share**bend,
        "del": dividend * share ** (2 * bend),
        "image_del": 1 - share,
        "text_del": 1 - share,
        "image_ins": share,
        "text_ins": share,
    }


def _explainers(scores: pd.DataFrame) -> pd.DataFrame:
    groups = scores.groupby("explainer")
    mean, n = groups["f"].mean(), groups["f"].count()
    error = 1.96 * groups["f"].std().fillna(0) / np.sqrt(n)
    table = pd.DataFrame({
        "level": "cell",
        "rank": mean.rank(ascending=False),
        "n_samples": n,
        "n_missing": groups.size() - n,
        "mean_f": mean,
        "low": mean - error,
        "high": mean + error,
        "p_random": np.where(mean.index.isin(["random", "inverted_occlusion"]), nan, 0.001),
        "mean_dividend": groups["dividend"].mean(),
    })  # fmt: skip
    return table.reset_index()


def _ordered(table: pd.DataFrame, first: Sequence[str]) -> pd.DataFrame:
    return table[[*first, *(name for name in table.columns if name not in first)]].reset_index(drop=True)
