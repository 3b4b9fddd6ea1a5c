"""What an estimator sees: the draws of a unit and text, and what is known of all images."""

from dataclasses import dataclass

from pipeline.crowd.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Sample:
    """n draws of one pair of unit and text, or of a batch of pairs (..., n).

    activation: standardised over all N images. weight: p/q, so that the mean over the draws of weight *
    x estimates the mean of x over the images. presence: the aggregated rating, in [0, 1]. prediction: the
    scorer's probability, recalibrated or not. stratum (n,): codes of strata drawn from separately. Draws
    without replacement have q = inclusion probability / n, so that the same mean is Horvitz and
    Thompson's estimate.
    """

    activation: FloatArray
    weight: FloatArray
    presence: FloatArray
    prediction: FloatArray | None = None
    stratum: IntArray | None = None


@dataclass(frozen=True)
class Population:
    """Means over all N images (...,), s the prediction and r its reliability.

    mean: of s. product: of abar s. square: of s^2. spread: of s (1 - s). reliable: of r s (1 - s), where r
    = E[posterior | present] - E[posterior | absent] for prior s and the study's raters: how far their
    votes move a prior towards the truth. blind: the share of the presence that the recalibration gives to
    images whatever their probability: what the scorer does not see.
    """

    mean: FloatArray
    product: FloatArray
    square: FloatArray
    spread: FloatArray
    reliable: FloatArray
    blind: FloatArray
