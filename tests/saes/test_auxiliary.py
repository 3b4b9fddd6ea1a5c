import numpy as np
import pytest
import torch
from tqdm import tqdm

from pipeline.saes import topk
from pipeline.saes.auxiliary import Silence, auxiliary_loss
from pipeline.saes.fitting import Fit, Schedule
from pipeline.saes.inputs import Inputs
from pipeline.saes.training import fit_together
from tests.saes.examples import Rows, settings

CPU = torch.device("cpu")


def fit_of(rows: Rows, n_latents: int, **own: object) -> Fit:
    rule = topk.rule(n_saes=1, n_latents=n_latents, device=CPU, **own)  # type: ignore[arg-type]
    schedule = Schedule(dictionary_size=n_latents, dead_after=20)
    splits = Inputs(rows, "train", CPU), Inputs(rows, "validation", CPU)
    return Fit("topk", rule, [0], schedule, *splits, progress=tqdm(disable=True))


def test_with_all_latents_dead_it_equals_the_value_by_hand_with_the_decoder_bias_once(train: Rows) -> None:
    fit = fit_of(train, 12, k=2, aux_k=5, aux_coefficient=1 / 32)
    fit.silence.batches[:] = 20
    with torch.no_grad():
        fit.stack.decoder_bias += torch.linspace(-2, 3, 24)
    encoder, bias, decoder, centre = (
        getattr(fit.stack, name)[0].detach().double().numpy().copy()
        for name in ("encoder", "encoder_bias", "decoder", "decoder_bias")
    )
    inputs = fit.train.batch(np.arange(30)[None])
    total, auxiliary = fit.step(inputs)[:, 0].tolist()

    rows = inputs[0].double().numpy()
    pre = (rows - centre) @ encoder + bias
    kept, revived = np.zeros_like(pre), np.zeros_like(pre)
    for row, values in enumerate(pre):
        order = np.argsort(-values)
        kept[row, order[:2]] = np.maximum(values[order[:2]], 0)
        revived[row, order[:5]] = np.maximum(values[order[:5]], 0)
    residual = rows - (kept @ decoder + centre)
    expected = np.mean((residual - revived @ decoder) ** 2) / 32
    assert auxiliary == pytest.approx(expected, rel=1e-5)
    assert total == pytest.approx(np.mean(residual**2) + expected, rel=1e-5)


def test_only_dead_latents_get_its_gradient_and_the_residual_none() -> None:
    random = torch.Generator().manual_seed(0)
    residual, pre, decoder = (
        torch.randn(shape, generator=random, requires_grad=True)
        for shape in ((1, 8, 5), (1, 8, 6), (1, 6, 5))
    )
    dead = torch.tensor([[True, False, True, False, False, False]])
    auxiliary_loss(residual, pre, dead, decoder, aux_k=4).sum().backward()
    assert residual.grad is None
    assert pre.grad is not None and decoder.grad is not None
    for gradient in (pre.grad[0].abs().sum(dim=0), decoder.grad[0].abs().sum(dim=1)):
        assert ((gradient > 0) == dead[0]).all()


def test_no_dead_latent_or_aux_k_0_gives_exactly_0() -> None:
    residual, pre, decoder = torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)
    alive, dead = torch.zeros(2, 4, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)
    assert auxiliary_loss(residual, pre, alive, decoder, aux_k=512).tolist() == [0, 0]
    assert auxiliary_loss(residual, pre, dead, decoder, aux_k=0).tolist() == [0, 0]
    some = torch.tensor([[True, False, False, False], [False] * 4])
    assert auxiliary_loss(residual, pre, some, decoder, aux_k=2).tolist() == [0, 0]


def test_fewer_dead_latents_than_aux_k_and_members_with_different_numbers_of_them() -> None:
    random = torch.Generator().manual_seed(1)
    residual, pre, decoder = (
        torch.randn(shape, generator=random) for shape in ((2, 8, 5), (2, 8, 6), (2, 6, 5))
    )
    dead = torch.tensor([[True] * 6, [True, False, False, False, False, True]])
    together = auxiliary_loss(residual, pre, dead, decoder, aux_k=4)
    for member in range(2):
        alone = slice(member, member + 1)
        single = auxiliary_loss(residual[alone], pre[alone], dead[alone], decoder[alone], aux_k=4)
        assert torch.equal(together[alone], single)


def test_a_latent_is_dead_after_that_many_silent_batches_and_alive_once_it_fires() -> None:
    silence = Silence(1, 2, CPU)
    firing = torch.tensor([[[1.0, 0.0]]])
    for batch in range(1, 21):
        silence.observe(firing)
        assert silence.dead(20).tolist() == [[False, batch >= 20]]
    silence.observe(torch.tensor([[[0.0, 0.5]]]))
    assert silence.dead(20).tolist() == [[False, False]]


@pytest.mark.parametrize("name", ["topk", "batchtopk", "matryoshka"])
@pytest.mark.parametrize(
    "changes", [{"aux_k": 0}, {"k": 48}, {"k": 500}, {"dictionary_size": 4, "k": 6}, {"dictionary_size": 1}]
)
def test_degenerate_sizes_train(name: str, changes: dict[str, int], train: Rows, validation: Rows) -> None:
    chosen = settings(name, epochs=2, dead_after=1, **changes)
    trained = fit_together(train[:300], validation, [chosen])[0]
    assert np.isfinite(trained.curves["validation_loss"]).all()
    assert trained.sae.dictionary_size == chosen["dictionary_size"]
    if not chosen["aux_k"]:
        assert (trained.curves["auxiliary_loss"] == 0).all()


def test_the_auxiliary_loss_revives_latents_that_started_dead(train: Rows) -> None:
    dead = []
    for aux_k in (0, 16):
        rule = topk.rule(n_saes=1, n_latents=48, device=CPU, k=6, aux_k=aux_k)
        schedule = Schedule(48, learning_rate=5e-3, epochs=6, batch_size=64, patience=None, dead_after=5)
        splits = Inputs(train, "train", CPU), Inputs(train, "validation", CPU)
        fit = Fit("topk", rule, [0], schedule, *splits, progress=tqdm(disable=True))
        with torch.no_grad():
            fit.stack.encoder_bias[0, ::2] -= 3
        fit.run()
        dead.append(fit.curves[0][-1]["dead_share"])
    assert dead[1] < 0.7 * dead[0]
