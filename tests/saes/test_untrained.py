import numpy as np
import pytest
import torch

from pipeline.saes import frozen, random
from pipeline.saes.encoding import encode_csr
from pipeline.saes.training import fit_together
from pipeline.saes.weights import first_weights
from tests.saes.examples import Rows, settings


def test_a_frozen_sae_has_the_same_weights_wherever_it_is_built(train: Rows, validation: Rows) -> None:
    one = frozen.build(24, dictionary_size=48, k=6, seed=5)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002  a global state that must not matter
    again = fit_together(train, validation, [settings("frozen", seed=5)])[0].sae
    other = fit_together(validation, train, [settings("topk"), settings("frozen", seed=5)])[1].sae
    for sae in (again, other):
        assert torch.equal(sae.encoder, one.encoder)
        assert torch.equal(sae.decoder, one.decoder)
    assert not torch.equal(frozen.build(24, dictionary_size=48, k=6, seed=6).encoder, one.encoder)


def test_k_does_not_change_the_weights_of_a_frozen_sae() -> None:
    few, many = (frozen.build(24, dictionary_size=48, k=k, seed=5) for k in (1, 48))
    assert torch.equal(few.encoder, many.encoder)


def test_the_first_weights_are_kaiming_uniform_and_the_decoder_is_the_encoder_at_unit_norm() -> None:
    encoder, decoder = first_weights(0, 200, 300)
    assert encoder.abs().max() <= (6 / 200) ** 0.5
    assert float(encoder.std()) == pytest.approx((2 / 200) ** 0.5, rel=0.01)
    assert decoder.double().norm(dim=1) == pytest.approx(np.ones(300), abs=1e-6)
    assert (encoder.T / encoder.T.norm(dim=1, keepdim=True)).numpy() == pytest.approx(
        decoder.numpy(), abs=1e-6
    )


@pytest.mark.parametrize("build", [frozen.build, random.build])
def test_untrained_codes_have_the_density_k_over_d(build: object, train: Rows) -> None:
    codes = encode_csr(build(24, dictionary_size=256, k=8), train)  # type: ignore[operator]
    assert codes.nnz / np.prod(codes.shape) == pytest.approx(8 / 256, rel=0.01)


def test_k_beyond_the_dictionary_keeps_every_latent_and_says_so(train: Rows, validation: Rows) -> None:
    built = fit_together(train, validation, [settings("random", dictionary_size=4, k=9)])[0]
    assert built.facts["validation"]["l0"] == 4
    assert built.facts["notes"] == ["k=9 of 4 latents: all are kept"]


def test_an_untrained_sae_has_one_row_of_curves(train: Rows, validation: Rows) -> None:
    built = fit_together(train, validation, [settings("frozen")])[0]
    assert built.curves["epoch"].tolist() == [0]
    assert built.curves["l0"].item() == built.facts["validation"]["l0"] == pytest.approx(6, abs=0.1)
    assert np.isnan(built.curves["train_loss"].item())
