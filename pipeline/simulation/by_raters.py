"""How wrong aggregated ratings are, by the number of raters and by where the error rate comes from."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from pipeline.crowd.aggregation.aggregating import aggregate
from pipeline.crowd.agreement import error_rate_from_disagreement, error_rates_from_gold
from pipeline.crowd.simulated import simulate
from pipeline.seeds import generator
from pipeline.simulation.raters import RATERS

N_RATERS = (1, 2, 3, 5, 10, 20, 50, 100)
AGGREGATIONS = ("avg", "majority", "bragg_uniform", "bragg_siglip", "bragg_em")
N_TEXTS, N_INPUTS = 20, 180


def inputs(seed: int, n_texts: int = N_TEXTS) -> pd.DataFrame:
    """Return image_id, description, truth, prior of 180 inputs a text; prior: a calibrated scorer's.

    A text's share of inputs that show it is uniform in [.05, .5]: what importance sampling gives people.
    """
    rng = generator(seed, "rated inputs")
    share = np.repeat(rng.uniform(0.05, 0.5, n_texts), N_INPUTS)
    truth = rng.random(len(share)) < share
    evidence = rng.normal(0, 1, len(share)) + 2.0 * truth
    return pd.DataFrame(
        {
            "image_id": [f"i{i % N_INPUTS}" for i in range(len(share))],
            "description": [f"text {i // N_INPUTS}" for i in range(len(share))],
            "truth": truth.astype(int),
            "prior": expit(2 * evidence - 2 + logit(share)),
        }
    )


def errors_by_raters(
    raters: str,
    n_raters: Sequence[int] = N_RATERS,
    aggregations: Sequence[str] = AGGREGATIONS,
    seed: int = 0,
) -> pd.DataFrame:
    """Return raters, n_raters, aggregation, brier, wrong: mean squared error, share on the wrong side of 1/2.

    A value of exactly 1/2 is half wrong. bragg_siglip and bragg_em are given the scorer's priors.
    """
    table = inputs(seed)
    prior = table[["image_id", "description", "prior"]]
    rows = []
    for m in n_raters:
        ratings = _ratings(table, raters, m, seed)
        for name in aggregations:
            given = prior if name in ("bragg_siglip", "bragg_em") else None
            found = aggregate(ratings, name, prior=given)
            rows.append({"raters": raters, "n_raters": m, "aggregation": name} | _errors(found, table))
    return pd.DataFrame(rows)


def errors_by_source(raters: str, n_raters: int = 3, seed: int = 0) -> pd.DataFrame:
    """Return raters, source, rates, brier, wrong of BRAgg with priors, by where the error rates come from.

    assumed: .23; disagreement; gold: counted on the true answers, as one rate; gold_apart and estimated:
    misses and false alarms apart (bragg_em), counted or by EM.
    """
    table = inputs(seed)
    ratings = _ratings(table, raters, n_raters, seed)
    return pd.DataFrame(
        [{"raters": raters, **row} for row in _by_source(ratings, table)],
        columns=["raters", "source", "rates", "brier", "wrong"],
    )


def _by_source(ratings: pd.DataFrame, table: pd.DataFrame) -> Iterator[dict[str, object]]:
    prior = table[["image_id", "description", "prior"]]
    gold = error_rates_from_gold(ratings, table.rename(columns={"truth": "answer"}))
    counts = gold.counts
    overall = (counts.n_missed + counts.n_alarmed) / (counts.n_present + counts.n_absent)
    sources: dict[str, tuple[str, float | tuple[float, float] | None]] = {
        "assumed": ("bragg_siglip", None),
        "disagreement": ("bragg_siglip", error_rate_from_disagreement(ratings)),
        "gold": ("bragg_siglip", overall),
        "gold_apart": ("bragg_em", (gold.miss, gold.false_alarm)),
        "estimated": ("bragg_em", None),
    }
    for source, (name, rate) in sources.items():
        found = aggregate(ratings, name, error_rate=rate, prior=prior)
        said = ", ".join(f"{value:.3f}" for value in np.atleast_1d(rate)) if rate is not None else ""
        said = said or (".230" if source == "assumed" else "by EM")
        yield {"source": source, "rates": said, **_errors(found, table)}


def _ratings(table: pd.DataFrame, raters: str, n_raters: int, seed: int) -> pd.DataFrame:
    who = RATERS[raters]
    return simulate(table, n_raters=n_raters, miss=who.miss, false_alarm=who.false_alarm, seed=seed)


def _errors(found: pd.DataFrame, table: pd.DataFrame) -> dict[str, float]:
    truth = found.merge(table, on=["image_id", "description"], validate="1:1")["truth"].to_numpy()
    value = found["value"].to_numpy(dtype=np.float64)
    wrong = np.where(value == 0.5, 0.5, (value > 0.5) != (truth == 1))
    return {"brier": float(np.mean((value - truth) ** 2)), "wrong": float(np.mean(wrong))}
