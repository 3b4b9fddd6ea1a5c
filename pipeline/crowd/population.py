"""What is known of all images of a unit and text, small enough to keep with a study."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import FloatArray
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
