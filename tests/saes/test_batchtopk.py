from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.saes import batchtopk, matryoshka
from pipeline.saes.encoding import encode_csr
from pipeline.saes.matryoshka import prefix_ends
from pipeline.saes.measures import l0
from pipeline.saes.sae import load
from pipeline.saes.training import fit_together
from pipeline.saes.weights import Stack
from tests.saes.examples import Rows, settings, sparse_rows

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["batchtopk", "matryoshka"])
@pytest.mark.parametrize("batch_size", [64, 1024])
def test_l0_is_near_k_at_every_checkpoint_and_after_reload(
    name: str, batch_size: int, train: Rows, validation: Rows, tmp_path: Path
) -> None:
    one = fit_together(train, validation, [settings(name, batch_size=batch_size, epochs=10)])[0]
    assert one.curves["l0"].to_numpy() == pytest.approx(np.full(10, 6), rel=0.05)
    one.sae.save(tmp_path / "sae.safetensors")
    kept = one.curves.loc[one.curves["best"], "l0"].item()
    held_out = sparse_rows(500, seed=3)
    assert l0(encode_csr(load(tmp_path / "sae.safetensors"), validation)) == pytest.approx(kept, rel=1e-3)
    assert l0(encode_csr(load(tmp_path / "sae.safetensors"), held_out)) == pytest.approx(6, rel=0.1)


def test_training_keeps_the_k_x_b_largest_of_the_batch() -> None:
    rule = batchtopk.rule(n_saes=2, n_latents=5, device=CPU, k=2)
    pre = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    codes = rule.codes(pre)
    for member in range(2):
        kept = np.sort(codes[member][codes[member] > 0].numpy())
        largest = np.sort(pre[member].numpy().ravel())[::-1][:8]
        assert kept.tolist() == np.sort(largest[largest > 0]).tolist()


def test_the_threshold_is_the_mean_over_rows_of_the_smallest_code_that_is_kept() -> None:
    rule = batchtopk.rule(n_saes=1, n_latents=3, device=CPU, k=1)
    three_rows = torch.tensor([[[5.0, 4.0, 1.0], [3.0, 2.0, -1.0], [0.5, 0.2, 0.1]]])
    one_row = torch.tensor([[[-1.0, 0.4, 0.8]]])
    rule.calibrate([three_rows, one_row])
    assert rule.threshold(1).tolist() == pytest.approx([(3 * 3.0 + 1 * 0.8) / 4])
    kept = rule.activation(0)
    assert kept.threshold.tolist() == rule.threshold(1).tolist()
    rule.calibrate([one_row])
    assert kept.threshold.tolist() == pytest.approx([2.45])


def test_a_block_in_which_nothing_fires_does_not_count_and_without_any_the_threshold_is_0() -> None:
    rule = batchtopk.rule(n_saes=2, n_latents=2, device=CPU, k=1)
    silent, one_fires = -torch.ones(2, 3, 2), -torch.ones(2, 3, 2)
    one_fires[1, 0, 0] = 4
    rule.calibrate([silent])
    assert rule.threshold(2).tolist() == [0, 0]
    rule.calibrate([silent, one_fires, silent])
    assert rule.threshold(2).tolist() == [0, 4]


def test_l0_is_near_k_on_rows_that_were_not_trained_on_though_the_dictionary_knows_the_others_by_heart() -> (
    None
):
    chosen = settings("batchtopk", dictionary_size=256, epochs=30, batch_size=64)
    one = fit_together(sparse_rows(200, seed=1), sparse_rows(300, seed=2), [chosen])[0]
    held_out = l0(encode_csr(one.sae, sparse_rows(1000, seed=3)))
    assert held_out == pytest.approx(6, rel=0.1)
    assert l0(encode_csr(one.sae, sparse_rows(200, seed=1))) < 0.9 * held_out


def test_a_matryoshka_dictionary_has_its_size_in_total() -> None:
    assert prefix_ends(4096, 6) == (128, 256, 512, 1024, 2048, 4096)
    assert prefix_ends(4, 6) == (1, 2, 4)
    assert prefix_ends(100, 3) == (25, 50, 100)
    assert prefix_ends(7, 1) == (7,)


def test_the_saved_matryoshka_has_as_many_latents_as_were_asked_for(train: Rows, validation: Rows) -> None:
    one = fit_together(train[:200], validation, [settings("matryoshka", dictionary_size=64, epochs=1)])[0]
    assert one.sae.dictionary_size == one.facts["dictionary_size"] == 64
    assert one.sae.encode(validation).shape == (400, 64)


def test_the_matryoshka_loss_is_the_mean_of_the_errors_of_its_prefixes() -> None:
    rule = matryoshka.rule(n_saes=1, n_latents=8, device=CPU, k=3, n_prefixes=3)
    stack = Stack([0], 5, 8, torch.linspace(-1, 1, 5), CPU)
    inputs = torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(0))
    codes = rule.codes(stack.pre(inputs))
    loss, reconstruction = rule.objective(inputs, stack.pre(inputs), codes, stack)
    z, decoder, bias = (v[0].detach().double().numpy() for v in (codes, stack.decoder, stack.decoder_bias))
    rows = inputs[0].double().numpy()
    errors = [np.mean((rows - z[:, :end] @ decoder[:end] - bias) ** 2) for end in (2, 4, 8)]
    assert loss.item() == pytest.approx(np.mean(errors), rel=1e-5)
    assert reconstruction[0].detach().numpy() == pytest.approx(z @ decoder + bias, abs=1e-5)
