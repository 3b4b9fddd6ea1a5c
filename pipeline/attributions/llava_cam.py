"""llava_cam: positive gradients, averaged, times activation (Zhang et al. 2024, arXiv 2406.06579)."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from pipeline.attributions.attribution import Attribution, Floats, Game, attribution
from pipeline.attributions.hidden_gradients import hidden_gradients
from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"gradients"})


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    layer: int = -1,
    target: str = "logit",
    threshold: float = 0.5,
    n_smooth: int = 0,
    noise: float = 0.1,
) -> Attribution:
    """Score a position by the heat of `heat` where decoder layer `layer` begins.

    The weights are averaged over the visual tokens for patches and over the query tokens for tokens.
    `n_smooth` above 0 averages that many maps of images with Gaussian noise of standard deviation `noise`
    (full range 1), and scales to maximum 1 (SmoothGrad). Raises AssayError for a layer that the model lacks
    or that has no gradient, and for a threshold outside [0, 1].
    """
    if not 0 <= threshold <= 1 or n_smooth < 0 or noise < 0:
        raise AssayError(
            f"attribution.threshold={threshold}, n_smooth={n_smooth}, noise={noise}: the threshold lies in "
            "0 to 1, the others are 0 or more"
        )
    maps = []
    for canvas in _canvases(prepared, n_smooth, noise, seed):
        found = hidden_gradients(vlm, prepared, answer, layer=layer, target=target, canvas=canvas)
        patches = heat(found.patches, found.patch_gradients, threshold)
        maps.append((patches, heat(found.tokens, found.token_gradients, threshold)))
    patches, tokens = (scaled(np.mean(each, axis=0)) for each in zip(*maps, strict=True))
    return attribution("llava_cam", prepared, patches, tokens)


def heat(activation: Floats, gradient: Floats, threshold: float) -> Floats:
    """Return the map (P,) of activations and gradients (P, d), in [0, 1].

    The mean over channels of activation times the mean positive gradient, clipped at 0, scaled to maximum 1;
    what lies under `threshold` becomes 0. A map that is nowhere positive is 0 throughout.
    """
    weights = np.maximum(gradient, 0).mean(axis=0)
    values = scaled(np.maximum((activation * weights).mean(axis=1), 0))
    return np.where(values < threshold, 0, values)


def scaled(values: Floats) -> Floats:
    """Return values of 0 or more with maximum 1; zeros stay."""
    largest = values.max()
    return values / largest if largest > 0 else values


def _canvases(prepared: Prepared, n_smooth: int, noise: float, seed: int) -> Sequence[Image.Image]:
    if n_smooth == 0:
        return [prepared.canvas]
    rng = generator(seed, "attribution", "llava_cam")
    pixels = np.asarray(prepared.canvas, dtype=np.float64)
    noisy = (pixels + 255 * noise * rng.standard_normal(pixels.shape) for _ in range(n_smooth))
    return [Image.fromarray(np.rint(np.clip(each, 0, 255)).astype(np.uint8)) for each in noisy]
