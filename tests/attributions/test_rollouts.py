"""Rollouts against explicit matrix products over all rows and heads."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.attributions import grad_rollout, rollout
from pipeline.attributions.answer_score import answer_score, embedded
from tests.attributions.examples import answer, prepared, vlm

TWO = answer(7, 15)


def attentions_of(inputs: torch.Tensor) -> list[np.ndarray]:
    found = vlm().decode(inputs, prepared(), attentions=True).attentions
    assert found is not None
    return [each[0].detach().numpy() for each in found]


def test_rollout_is_the_last_prompt_row_of_the_product() -> None:
    sample = prepared()
    inputs = embedded(vlm(), sample, TWO)[:, : len(sample.input_ids)]
    product = np.eye(len(sample.input_ids))
    for attention in attentions_of(inputs):
        mixed = 0.5 * sum(attention) / len(attention) + 0.5 * np.eye(len(product))
        product = (mixed / mixed.sum(axis=1, keepdims=True)) @ product
    found = rollout.attribute(vlm(), sample, TWO)
    np.testing.assert_allclose(found.patches, product[-1, 2:14], rtol=1e-6)
    np.testing.assert_allclose(found.tokens, product[-1, 14:19], rtol=1e-6)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_shares_of_a_rollout_sum_to_one(n_layers: int, n_heads: int, length: int, seed: int) -> None:
    values = torch.randn(n_layers, n_heads, length, length, generator=torch.Generator().manual_seed(seed))
    row = rollout.rolled(list(values.softmax(-1)))
    assert float(row.sum()) == float(torch.tensor(1.0)) or abs(float(row.sum()) - 1) < 1e-6
    assert (row >= 0).all()


def test_gradient_rollout_is_the_prompt_row_of_the_recursion() -> None:
    sample = prepared()
    inputs = embedded(vlm(), sample, TWO).requires_grad_()
    score, decoded = answer_score(vlm(), sample, TWO, inputs, "log_probability", attentions=True)
    assert decoded.attentions is not None
    for each in decoded.attentions:
        each.retain_grad()
    score.sum().backward()
    relevance = np.eye(inputs.shape[1])
    for each in decoded.attentions:
        assert each.grad is not None
        weighted = np.maximum((each.grad[0] * each[0]).detach().numpy(), 0)
        relevance = relevance + (sum(weighted) / len(weighted)) @ relevance
    found = grad_rollout.attribute(vlm(), sample, TWO)
    last = len(sample.input_ids) - 1
    np.testing.assert_allclose(found.patches, relevance[last, 2:14], rtol=1e-6)
    np.testing.assert_allclose(found.tokens, relevance[last, 14:19], rtol=1e-6)


def test_gradients_of_attentions_are_those_of_finite_differences() -> None:
    attention = torch.rand(2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slope = torch.zeros_like(attention)
    slope[0, 3, 1] = -2.0
    slope[1, 3, 2] = 1.0
    row = grad_rollout.rolled([(attention, slope)], 3)
    assert row.tolist() == [0, 0, float(attention[1, 3, 2]) / 2, 1]
