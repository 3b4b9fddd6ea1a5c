"""What every sampler returns."""

from dataclasses import dataclass

from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.errors import AssayError


@dataclass(frozen=True)
class Draws:
    """Images drawn for one unit and text.

    q (N,) is each image's chance in one draw; indices (n,) are the drawn images, repeats included,
    in the order of drawing; flags are words for the scoring table. stratum (n,): the stratum of each
    draw, None for one. inclusion (n,): the chance of each drawn image to be in the sample, None with
    replacement; q is then inclusion / n.
    """

    q: FloatArray
    indices: IntArray
    flags: tuple[str, ...] = ()
    stratum: IntArray | None = None
    inclusion: FloatArray | None = None


def check_n_inputs(n_inputs: int) -> None:
    """Raise AssayError unless at least one image is to be drawn."""
    if n_inputs < 1:
        raise AssayError(f"n_inputs is {n_inputs}; draw at least 1 image (sampler.n_inputs)")
