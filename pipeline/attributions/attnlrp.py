"""attnlrp: layer-wise relevance propagation through attention (Achtibat et al. 2024, arXiv 2402.05602).

Written as gradient times input: each rule changes how a gradient passes a module, and relevance is the input
embedding times the gradient that arrives. Linear layers, residuals, rotary positions and the sum over values
need no rule of their own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.attributions.attribution import Attribution, Game, of_positions
from pipeline.attributions.input_x_gradient import relevance
from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"gradients"})
# Softmax and the two products of attention: each product halves the gradient of both its factors.
SHARES = {
    "attnlrp": {"q_proj": 0.25, "k_proj": 0.25, "v_proj": 0.5},
    "detached": {"q_proj": 0.0, "k_proj": 0.0, "v_proj": 1.0},
}
GATED = ("gate_proj", "up_proj", "down_proj", "act_fn")
PLAIN = (nn.Linear, nn.Dropout, nn.Identity, nn.Embedding)


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    attention: str = "attnlrp",
) -> Attribution:
    """Score a position by the relevance of its embedding for the sum of the answer's logits.

    attention=detached holds the attention weights fixed (CP-LRP, Ali et al. 2022, arXiv 2202.07304): then the
    relevance of all positions sums to the logits where the model has no biases. Raises AssayError for a
    decoder whose modules have no rule here, and for an empty answer.
    """
    if attention not in SHARES:
        raise AssayError(f"attribution.attention={attention!r} is not one of {', '.join(SHARES)}")
    with rules(vlm, attention):
        scores = relevance(vlm, prepared, answer, "logit")
    return of_positions("attnlrp", prepared, scores)


@contextmanager
def rules(vlm: Vlm, attention: str) -> Iterator[None]:
    """Let gradients pass by the rules while the context lasts; outputs change by rounding alone."""
    layers = [
        _checked(layer, f"decoder layer {number} of {vlm.name}")
        for number, layer in enumerate(vlm.decoder_layers)
    ]
    handles = [each.register_forward_hook(_identity) for each in vlm.module.modules() if _is_rms(each)]
    for module in chain(*layers):
        handles += _hooks(module, SHARES[attention])
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hooks(module: nn.Module, shares: dict[str, float]) -> list[Any]:
    """Return the handles of the rules of one module, none where it is neither attention nor a gated MLP."""
    parts = dict(module.named_children())
    if set(shares) <= set(parts):
        return [parts[name].register_forward_hook(_scale(share)) for name, share in shares.items()]
    if set(GATED) <= set(parts):
        halved = parts["down_proj"].register_forward_pre_hook(_halve)
        return [parts["act_fn"].register_forward_hook(_identity), halved]
    return []


def _identity(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """Let all relevance of an elementwise map x -> c x pass, c held fixed: an activation, or an RMS norm."""
    x = inputs[0]
    # The norm computes in float32 at least; so does the ratio. At x = 0 there is no relevance to pass.
    ratio = (output / torch.where(x == 0, torch.ones_like(x), x)).detach()
    return (x * ratio).to(output.dtype)


def _scale(share: float) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    """Return a forward hook that leaves the output as it is and multiplies its gradient by `share`."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            _multiply_gradient(output, share)

    return hook


def _halve(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Halve the gradient of a product: each of the two factors gets half the relevance."""
    if inputs[0].requires_grad:
        _multiply_gradient(inputs[0], 0.5)


def _multiply_gradient(tensor: Any, share: float) -> None:
    tensor.register_hook(lambda gradient: gradient * share)


def _is_rms(module: nn.Module) -> bool:
    return type(module).__name__.endswith("RMSNorm")


def _checked(layer: nn.Module, place: str) -> list[nn.Module]:
    """Return a layer's modules; AssayError where one has no rule, for relevance would be lost in silence."""
    modules = list(layer.modules())
    names = [{name for name, _ in module.named_children()} for module in modules]
    if not any(set(SHARES["attnlrp"]) <= each for each in names) or not any(
        set(GATED) <= each for each in names
    ):
        raise AssayError(
            f"{place} ({type(layer).__name__}) has no attention with q_proj, k_proj, v_proj or no gated MLP "
            f"with {', '.join(GATED)}; attnlrp has no rules for it, choose another attribution.name"
        )
    activations = [module.act_fn for module in modules if hasattr(module, "act_fn")]
    for module in modules:
        is_leaf = not any(module.children())
        if is_leaf and not (isinstance(module, PLAIN) or _is_rms(module) or module in activations):
            raise AssayError(
                f"{place}: attnlrp has no rule for {type(module).__name__}; choose another attribution.name"
            )
    return modules
