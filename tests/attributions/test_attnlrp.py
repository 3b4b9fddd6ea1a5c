"""AttnLRP: conservation, and the rules of the paper written with relevances instead of gradients."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pipeline.attributions import attnlrp
from pipeline.attributions.answer_score import answer_score, embedded
from pipeline.attributions.input_x_gradient import relevance
from pipeline.errors import AssayError
from tests.attributions.examples import PatchVlm, answer, prepared, vlm

ONE, TWO = answer(7), answer(7, 15)


def hooks(model: PatchVlm) -> list[Any]:
    """The rules that hang on the model (transformers leaves hooks of its own)."""
    parts = [
        (*each._forward_hooks.values(), *each._forward_pre_hooks.values()) for each in model.module.modules()
    ]
    return [hook for part in parts for hook in part if hook.__module__.startswith("pipeline")]


def logits(model: PatchVlm, ids: Any) -> float:
    value, _ = answer_score(model, prepared(), ids, embedded(model, prepared(), ids), "logit")
    return float(value)


@pytest.mark.parametrize("ids", [ONE, TWO])
@pytest.mark.parametrize("family", ["llava", "internvl"])
def test_with_attention_held_fixed_the_relevance_sums_to_the_logit(family: str, ids: Any) -> None:
    model = vlm(family)
    with attnlrp.rules(model, "detached"):
        total = relevance(model, prepared(), ids, "logit").sum()
    assert total == pytest.approx(logits(model, ids), rel=1e-5)
    plain = relevance(model, prepared(), ids, "logit").sum()
    assert plain != pytest.approx(logits(model, ids), rel=0.05)


def test_biases_keep_what_conservation_lacks() -> None:
    model = vlm("qwen")
    with attnlrp.rules(model, "detached"):
        assert relevance(model, prepared(), ONE, "logit").sum() == pytest.approx(logits(model, ONE), rel=1e-5)
    projections = [layer.self_attn.v_proj for layer in model.decoder_layers]
    for each in projections:
        each.bias.data += 1
    with attnlrp.rules(model, "detached"):
        total = relevance(model, prepared(), ONE, "logit").sum()
    assert total != pytest.approx(logits(model, ONE), rel=1e-2)
    for each in projections:
        each.bias.data -= 1


@pytest.mark.parametrize("attention", ["attnlrp", "detached"])
@pytest.mark.parametrize("family", ["llava", "qwen", "internvl"])
def test_the_rules_leave_the_output_alone_and_are_gone_afterwards(family: str, attention: str) -> None:
    model = vlm(family)
    inputs = embedded(model, prepared(), TWO)
    before = model.decode(inputs, prepared()).logits
    with attnlrp.rules(model, attention):
        during = model.decode(inputs, prepared()).logits
        assert hooks(model)
    torch.testing.assert_close(during, before, rtol=1e-6, atol=1e-6)
    assert torch.equal(model.decode(inputs, prepared()).logits, before)
    with pytest.raises(RuntimeError), attnlrp.rules(model, attention):
        raise RuntimeError
    assert not hooks(model)


def linear_rule(weight: Tensor, x: Tensor, r: Tensor) -> Tensor:
    """R_i = sum_j x_i W_ji / z_j R_j (the epsilon rule at epsilon 0, equation 8)."""
    z = x @ weight.T
    return torch.einsum("li,ji,lj->li", x, weight, r / z)


def product_rule(a: Tensor, b: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """R(a_ji) = sum_p a_ji b_ip R_jp / (2 O_jp), and R(b_ip) likewise (proposition 3.3)."""
    share = r / (2 * (a @ b))
    return torch.einsum("ji,ip,jp->ji", a, b, share), torch.einsum("ji,ip,jp->ip", a, b, share)


def softmax_rule(x: Tensor, s: Tensor, r: Tensor) -> Tensor:
    """R_i = x_i (R_i - s_i sum_j R_j) (proposition 3.1)."""
    return x * (r - s * r.sum(-1, keepdim=True))


def layer_relevance(layer: Any, h: Tensor, r: Tensor) -> Tensor:
    """Relevance (L, d) of a decoder layer's input from its output's; positions all 0, so no rotation."""
    attention, mlp = layer.self_attn, layer.mlp
    n_heads, size, groups = 4, 4, attention.num_key_value_groups
    x = layer.input_layernorm(h)
    q, k, v = attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)
    causal = torch.ones(len(h), len(h)).tril().bool()
    mixed, kept = torch.zeros_like(h), []
    for head in range(n_heads):
        own, shared = (
            slice(head * size, head * size + size),
            slice(head // groups * size, head // groups * size + size),
        )
        scores = q[:, own] @ k[:, shared].T * size**-0.5
        weights = scores.masked_fill(~causal, -torch.inf).softmax(-1)
        mixed[:, own] = weights @ v[:, shared]
        kept.append((own, shared, scores, weights))
    middle = h + attention.o_proj(mixed)
    y = layer.post_attention_layernorm(middle)
    gate, up = mlp.gate_proj(y), mlp.up_proj(y)
    gated = nn.functional.silu(gate) * up
    out = middle + mlp.down_proj(gated)

    r_mlp, r_middle = r * mlp.down_proj(gated) / out, r * middle / out
    half = linear_rule(mlp.down_proj.weight, gated, r_mlp) / 2
    r_middle = (
        r_middle + linear_rule(mlp.gate_proj.weight, y, half) + linear_rule(mlp.up_proj.weight, y, half)
    )

    r_heads = linear_rule(attention.o_proj.weight, mixed, r_middle * attention.o_proj(mixed) / middle)
    r_q, r_k, r_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for own, shared, scores, weights in kept:
        r_weights, to_values = product_rule(weights, v[:, shared], r_heads[:, own])
        r_v[:, shared] += to_values
        r_scores = softmax_rule(scores, weights, r_weights).masked_fill(~causal, 0)
        to_queries, to_keys = product_rule(q[:, own] * size**-0.5, k[:, shared].T, r_scores)
        r_q[:, own] += to_queries
        r_k[:, shared] += to_keys.T
    r_x = sum(
        linear_rule(part.weight, x, each)
        for part, each in ((attention.q_proj, r_q), (attention.k_proj, r_k), (attention.v_proj, r_v))
    )
    return r_middle * h / middle + r_x


def test_the_gradient_form_is_the_relevance_form_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    model = vlm(n_layers=2)
    monkeypatch.setattr(
        model, "position_ids", lambda prepared, rows, length: torch.zeros(rows, length).long()
    )
    inputs = embedded(model, prepared(), ONE)
    hidden = model.decode(inputs, prepared(), hidden=True).hidden
    assert hidden is not None
    head: Any = model.module
    before_norm: list[Tensor] = []
    handle = head.model.language_model.norm.register_forward_pre_hook(lambda _, x: before_norm.append(x[0]))
    model.decode(inputs, prepared())
    handle.remove()
    last = head.model.language_model.norm(before_norm[0])[0]
    r = torch.zeros_like(last)
    r[-1] = last[-1] * head.lm_head.weight[7]
    for layer, h in reversed(list(zip(model.decoder_layers, hidden[:2], strict=True))):
        r = layer_relevance(layer, h[0], r)
    found = attnlrp.attribute(model, prepared(), ONE)
    expected = r.sum(-1).detach().numpy()
    np.testing.assert_allclose(found.patches, expected[2:14], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.tokens, expected[14:19], rtol=1e-4, atol=1e-5)


def test_a_decoder_without_rules_is_refused() -> None:
    class Other(PatchVlm):
        @property
        def decoder_layers(self) -> list[nn.Module]:
            return layers

    model = Other("other", vlm().module, "eager")
    layers: list[nn.Module] = [nn.TransformerEncoderLayer(8, 2)]
    with pytest.raises(
        AssayError, match=r"decoder layer 0 of other \(TransformerEncoderLayer\) has no attention"
    ):
        attnlrp.attribute(model, prepared(), ONE)
    layers = [nn.ModuleList([*vlm().decoder_layers, nn.LayerNorm(16)])]
    with pytest.raises(AssayError, match="no rule for LayerNorm"):
        attnlrp.attribute(model, prepared(), ONE)
    assert not hooks(model)
    with pytest.raises(AssayError, match=r"attribution\.attention='sdpa'"):
        attnlrp.attribute(vlm(), prepared(), ONE, attention="sdpa")
