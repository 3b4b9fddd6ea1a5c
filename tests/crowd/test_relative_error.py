"""Which sampler and aggregation come closer to the true correlation, by simulation."""

import numpy as np
import pandas as pd

from pipeline.crowd import aggregate, importance_correlation
from pipeline.crowd.correlation import correlation
from pipeline.crowd.samplers.registry import sampler
from pipeline.crowd.simulated import simulate
from pipeline.seeds import generator

N_IMAGES, N_INPUTS, N_REPEATS, FREQUENCY = 2000, 60, 25, 0.03


def population(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Activation, truth and calibrated probability of a rare concept and a unit that detects it."""
    rng = generator(seed, "population")
    logit = 3 * rng.normal(size=N_IMAGES) + np.log(FREQUENCY / (1 - FREQUENCY)) - 2
    probability = 1 / (1 + np.exp(-logit))
    truth = (rng.random(N_IMAGES) < probability).astype(float)
    return np.maximum(0, rng.normal(size=N_IMAGES) + 3 * truth - 0.5), truth, probability


def relative_errors(sampler_name: str, method: str, error_rate: float) -> list[float]:
    errors = []
    for seed in range(N_REPEATS):
        activation, truth, probability = population(seed)
        drawn = sampler(sampler_name)(activation, probability, generator(seed, "draws"), n_inputs=N_INPUTS)
        rows = drawn.indices
        rated = pd.DataFrame({"image_id": rows.astype(str), "truth": truth[rows], "prior": probability[rows]})
        rated["description"] = "rare"
        ratings = simulate(rated, n_raters=3, miss=error_rate, false_alarm=error_rate, seed=seed)
        values = aggregate(ratings, method, prior=rated if method == "bragg_siglip" else None)
        concept = values.set_index("image_id")["value"].loc[rated["image_id"]]
        true = correlation(activation, truth)
        estimate = importance_correlation(activation, drawn.q, rows, concept)
        errors.append(abs(estimate - true) / abs(true))
    return errors


def test_both_ideas_of_the_paper_lower_the_relative_error():
    ways = [("uniform", "majority"), ("uniform", "bragg_siglip"), ("mgis", "bragg_siglip")]
    neither, aggregation, both = (np.mean(relative_errors(*way, error_rate=0.23)) for way in ways)
    assert both < aggregation < neither
    assert both < 0.5 * neither


def test_with_perfect_raters_sampling_alone_lowers_the_relative_error():
    # A uniform sample without a positive image has no estimate; leaving it out favours uniform.
    uniform, mgis = (np.nanmean(relative_errors(name, "majority", 0)) for name in ("uniform", "mgis"))
    assert mgis < 0.7 * uniform
