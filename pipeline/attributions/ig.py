"""ig: gradients integrated from a blank to the clean input (Sundararajan et al. 2017, arXiv 1703.01365)."""

import numpy as np
import torch

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
    batch_size: int = 8,
    blur_radius: float = BLUR_RADIUS,
) -> Attribution:
    """Score a position by (embedding - blank) times the mean gradient on the straight line between them.

    Blank is the game's zero state: the blurred image, encoded, and pad tokens for the question; template and
    answer stay, so that the scores of patches and tokens sum to the score gained (completeness). `n_steps`
    nodes of `line`; `batch_size` of them a pass, which changes speed alone. Raises AssayError for an
    empty answer, gradients of exactly 0, and fewer than 1 step.
    """
    if n_steps < 1 or batch_size < 1:
        raise AssayError(f"attribution.n_steps={n_steps} and batch_size={batch_size}: use 1 or more of each")
    scores = relevance(vlm, prepared, answer, target, n_steps, batch_size, blur_radius)
    return of_positions("ig", prepared, scores)


def relevance(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    target: str,
    n_steps: int,
    batch_size: int,
    blur_radius: float,
) -> Floats:
    """Return the integrated gradient of every position (L + k - 1,); 0 where the blank input is the clean."""
    clean = embedded(vlm, prepared, answer)
    prompt = padded_ids(prepared, np.zeros(prepared.n_tokens, dtype=bool), vlm.pad_id)
    canvas = blurred_canvas(prepared, blur_radius)
    blank = embedded(vlm, prepared, answer, canvas=canvas, prompt=prompt)
    shares, weights = line(n_steps)
    total = torch.zeros(clean.shape[1:], dtype=torch.float64, device=clean.device)
    for start in range(0, n_steps, batch_size):
        part = slice(start, start + batch_size)
        with torch.enable_grad():
            share = torch.from_numpy(shares[part]).to(clean)[:, None, None]
            inputs = (blank + share * (clean - blank)).requires_grad_()
            score, _ = answer_score(vlm, prepared, answer, inputs, target)
            (gradient,) = gradients(score, [inputs], f"the input embedding of {vlm.name}")
        total += torch.einsum("s,sld->ld", torch.from_numpy(weights[part]).to(total), gradient.double())
    return numbers(((clean - blank)[0].double() * total).sum(-1))


def line(n_steps: int) -> tuple[Floats, Floats]:
    """Return nodes and weights (n_steps,) of an integral over [0, 1]: Gauss-Legendre in a share's root.

    Nodes gather near 0: a pad embedding is often 0, and there the first norm turns within a short way.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    roots = (nodes + 1) / 2
    return roots**2, weights * roots
