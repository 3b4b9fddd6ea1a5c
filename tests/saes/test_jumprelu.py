import numpy as np
import pytest
import torch

from pipeline.saes import jumprelu
from pipeline.saes.training import Trained, fit_together
from pipeline.saes.weights import Stack
from tests.saes.examples import Rows, settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pair(train: Rows, validation: Rows) -> list[Trained]:
    return fit_together(
        train, validation, [settings("jumprelu", epochs=15, l0_coefficient=c) for c in (0.001, 0.01)]
    )


def test_ten_times_the_penalty_lowers_l0(pair: list[Trained]) -> None:
    weak, strong = (each.facts["validation"]["l0"] for each in pair)
    assert 0 < strong < 0.75 * weak


def test_thresholds_move_and_each_its_own_way(pair: list[Trained]) -> None:
    for each in pair:
        threshold = each.sae.activation.threshold.numpy()
        assert threshold.shape == (48,)
        assert np.abs(threshold - 0.5).max() > 0.1
        assert threshold.std() > 0.04
    weak, strong = (each.curves["threshold"].iloc[-1] for each in pair)
    assert strong > 1.3 * weak


def test_the_start_of_the_thresholds_hardly_matters(train: Rows, validation: Rows) -> None:
    chosen = [
        settings("jumprelu", epochs=25, l0_coefficient=0.01, initial_threshold=start) for start in (0.2, 1.5)
    ]
    low, high = (each.facts["validation"]["l0"] for each in fit_together(train, validation, chosen))
    assert low == pytest.approx(high, rel=0.35)


def test_the_loss_is_the_error_plus_the_coefficient_times_the_mean_l0() -> None:
    rule = jumprelu.rule(n_saes=1, n_latents=6, device=CPU, l0_coefficient=0.1, initial_threshold=0.4)
    stack = Stack([0], 5, 6, torch.zeros(5), CPU)
    inputs = torch.randn(1, 7, 5, generator=torch.Generator().manual_seed(0))
    pre = stack.pre(inputs)
    loss = rule.objective(inputs, pre, rule.codes(pre), stack).loss
    values = pre[0].detach().double().numpy()
    codes = np.where(values > 0.4, values, 0)
    error = np.mean((inputs[0].numpy() - codes @ stack.decoder[0].detach().double().numpy()) ** 2)
    assert loss.item() == pytest.approx(error + 0.1 * (codes > 0).sum(axis=1).mean(), rel=1e-5)


def test_the_thresholds_gradient_is_that_of_the_paper() -> None:
    """Equations 11 and 12 of arXiv 2407.14435, for one latent and a kernel of width 0.5."""
    threshold = torch.tensor([[1.0]], requires_grad=True)
    pre = torch.tensor([[[0.5], [0.8], [1.1], [1.24], [1.3]]], requires_grad=True)
    weights = torch.tensor([[[1.0], [2.0], [3.0], [4.0], [5.0]]])
    (jumprelu._Jump.apply(pre, threshold, 0.5) * weights).sum().backward()
    assert threshold.grad.item() == pytest.approx(-(1.0 / 0.5) * (2 + 3 + 4))
    assert pre.grad.ravel().tolist() == [0, 0, 3, 4, 5]
    threshold.grad = pre.grad = None
    (jumprelu._Count.apply(pre, threshold, 0.5) * weights).sum().backward()
    assert threshold.grad.item() == pytest.approx(-(1 / 0.5) * (2 + 3 + 4))
    assert pre.grad is None


def test_jumprelu_has_no_key_that_nothing_reads() -> None:
    from inspect import signature

    own = set(signature(jumprelu.rule).parameters) - {"n_saes", "n_latents", "device"}
    assert own == {"l0_coefficient", "bandwidth", "initial_threshold", "threshold_learning_rate"}
