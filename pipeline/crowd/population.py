"""What is known of all images of a unit and text, small enough to keep with a study."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.sample import Population
from pipeline.crowd.presence import N_BINS, logit_bins


def population_bins(activation: FloatArray, probability: FloatArray) -> pd.DataFrame:
    """Return bin, n_images, probability, activation, product, square: a row a bin that has images.

    activation (N,) is standardised, probability (N,) the scorer's. Bins are of equal width in its logit,
    held to [1e-6, 1 - 1e-6]; the columns are means over a bin's images, product of activation *
    probability and square of probability^2. Sums over bins of n_images * mean are the sums over images;
    those of a recalibrated probability are so but for the width of a bin.
    """
    return pd.DataFrame(population_columns(activation, probability))


def population_columns(activation: FloatArray, probability: FloatArray) -> dict[str, NDArray[np.generic]]:
    """Return the columns (B,) of `population_bins`, for a caller that joins many."""
    bins = logit_bins(probability)
    counts = np.bincount(bins, minlength=N_BINS)
    used = np.flatnonzero(counts)

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(bins, values, N_BINS)[used] / counts[used]

    return {
        "bin": used,
        "n_images": counts[used],
        "probability": mean(probability),
        "activation": mean(activation),
        "product": mean(activation * probability),
        "square": mean(probability**2),
    }


def one_bin(activation: FloatArray, prediction: FloatArray) -> dict[str, NDArray[np.generic]]:
    """Return the columns (1,) of `population_bins` for a prediction (N,) that is no probability: bin -1."""
    means = {
        "probability": prediction,
        "activation": activation,
        "product": activation * prediction,
        "square": prediction**2,
    }
    counts = {"bin": np.array([-1]), "n_images": np.array([len(prediction)])}
    return counts | {name: np.array([values.mean()]) for name, values in means.items()}


def as_given(bins: pd.DataFrame) -> Population:
    """Return the means over all images of a prediction that is taken as it is: for differences alone."""
    share = bins["n_images"].to_numpy(np.float64)
    share = share / share.sum()
    mean, product, square = (
        np.asarray(share @ bins[name].to_numpy(np.float64)) for name in ("probability", "product", "square")
    )
    nothing = np.asarray(0.0)
    return Population(mean, product, square, spread=nothing, reliable=nothing, blind=nothing)
