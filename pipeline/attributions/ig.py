"""ig: gradients integrated from a blank to the clean input (Sundararajan et al. 2017, arXiv 1703.01365)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from pipeline.attributions.answer_score import answer_score, embedded, gradients, numbers
from pipeline.attributions.attribution import Attribution, Floats, Game, of_positions
from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.states import BLUR_RADIUS, blurred_canvas, padded_ids
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"gradients"})


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    target: str = "log_probability",
    n_steps: int = 32,
    max_steps: int = 256,
    tolerance: float = 0.05,
    batch_size: int = 8,
    blur_radius: float = BLUR_RADIUS,
) -> Attribution:
    """Score a position by (embedding - blank) times the mean gradient on the straight line between them.

    Blank is the game's zero state: the blurred image, encoded, and pad tokens for the question; template and
    answer stay, so that the scores of patches and tokens sum to the score gained (completeness). `n_steps`
    nodes of `line` are doubled up to `max_steps` until the sum misses the gain by at most `tolerance` of the
    sum of absolute scores; a map that never gets there carries the note `incomplete`. `batch_size` nodes run
    together, which changes speed alone. Raises AssayError for an empty answer, gradients of exactly 0, and
    settings out of range.
    """
    if not 1 <= n_steps <= max_steps or batch_size < 1 or tolerance < 0:
        raise AssayError(
            f"attribution.n_steps={n_steps}, max_steps={max_steps}, batch_size={batch_size}, tolerance="
            f"{tolerance}: use 1 step or more, no more than max_steps, 1 a batch or more, and 0 or more"
        )
    prompt = padded_ids(prepared, np.zeros(prepared.n_tokens, dtype=bool), vlm.pad_id)
    clean = embedded(vlm, prepared, answer)
    blank = embedded(vlm, prepared, answer, canvas=blurred_canvas(prepared, blur_radius), prompt=prompt)

    def score(inputs: Tensor) -> Tensor:
        return answer_score(vlm, prepared, answer, inputs, target)[0]

    with torch.no_grad():
        gained = float(score(clean) - score(blank))
    place = f"the input embedding of {vlm.name}"
    while True:
        scores = integrated(score, blank, clean, n_steps, batch_size, place)
        is_complete = abs(scores.sum() - gained) <= tolerance * np.abs(scores).sum()
        if is_complete or 2 * n_steps > max_steps:
            break
        n_steps *= 2
    found = of_positions("ig", prepared, scores)
    return found if is_complete else replace(found, notes=("incomplete",))


def integrated(
    score: Callable[[Tensor], Tensor], blank: Tensor, clean: Tensor, n_steps: int, batch_size: int, place: str
) -> Floats:
    """Return the integrated gradient (L,) of `score` from embeddings `blank` to `clean`, both (1, L, d).

    A position where the two agree gets 0. `place` names them in errors.
    """
    shares, weights = line(n_steps)
    total = torch.zeros(clean.shape[1:], dtype=torch.float64, device=clean.device)
    for start in range(0, n_steps, batch_size):
        part = slice(start, start + batch_size)
        with torch.enable_grad():
            share = torch.from_numpy(shares[part]).to(clean)[:, None, None]
            inputs = (blank + share * (clean - blank)).requires_grad_()
            (gradient,) = gradients(score(inputs), [inputs], place)
        total += torch.einsum("s,sld->ld", torch.from_numpy(weights[part]).to(total), gradient.double())
    return numbers(((clean - blank)[0].double() * total).sum(-1))


def line(n_steps: int) -> tuple[Floats, Floats]:
    """Return nodes and weights (n_steps,) of an integral over [0, 1]: Gauss-Legendre in a share's root.

    Nodes gather near 0: a pad embedding is often 0, and there the first norm turns within a short way.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    roots = (nodes + 1) / 2
    return roots**2, weights * roots
