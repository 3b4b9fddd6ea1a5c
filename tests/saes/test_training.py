from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tqdm import tqdm

from pipeline.errors import AssayError
from pipeline.saes import numerics, topk
from pipeline.saes.encoding import encode_csr
from pipeline.saes.fitting import Fit, Schedule
from pipeline.saes.inputs import Inputs
from pipeline.saes.measures import measure
from pipeline.saes.normalisation import normalise
from pipeline.saes.registry import sae_module
from pipeline.saes.sae import Sae, load
from pipeline.saes.training import Trained, fit_together
from tests.saes.examples import Rows, settings

CPU = torch.device("cpu")
VARIANTS = ("topk", "batchtopk", "matryoshka", "jumprelu")
every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture(scope="module")
def trained(train: Rows, validation: Rows) -> dict[str, Trained]:
    found = fit_together(train, validation, [settings(name, epochs=10) for name in VARIANTS])
    return dict(zip(VARIANTS, found, strict=True))


def standardised_loss(sae: Any, rows: Rows) -> float:
    """Return the MSE in the normalised space, from the finished SAE alone."""
    inputs = normalise(torch.from_numpy(rows), "standardise").values
    return float((inputs - sae.decode(sae.encode(rows))).square().mean())


@every_variant
def test_training_explains_most_of_the_variance_that_an_untrained_sae_does_not(
    name: str, trained: dict[str, Trained], train: Rows, validation: Rows
) -> None:
    frozen = fit_together(train, validation, [settings("frozen")])[0]
    assert trained[name].facts["validation"]["explained_variance"] > 0.65
    assert frozen.facts["validation"]["explained_variance"] < 0.2


@every_variant
def test_decoder_rows_have_length_1_after_the_last_step_and_in_the_file(
    name: str, trained: dict[str, Trained], train: Rows, tmp_path: Path
) -> None:
    trained[name].sae.save(tmp_path / "sae.safetensors")
    kept = load(tmp_path / "sae.safetensors").decoder.double().norm(dim=1)
    assert kept.numpy() == pytest.approx(np.ones(48), abs=1e-6)
    fit = fit_of(name, train)
    fit.run()
    after = fit.stack.decoder[0].detach().double().norm(dim=1)
    assert after.numpy() == pytest.approx(np.ones(48), abs=1e-6)


def fit_of(
    name: str, rows: Rows, held_out: Rows | None = None, kind: type[Fit] = Fit, **schedule: Any
) -> Fit:
    rule = sae_module(name).rule(n_saes=1, n_latents=48, device=CPU)
    chosen = Schedule(**{"dictionary_size": 48, "epochs": 1, "batch_size": 128, **schedule})
    other = rows if held_out is None else held_out
    splits = Inputs(rows, "train", CPU), Inputs(other, "validation", CPU)
    return kind(name, rule, [0], chosen, *splits, progress=tqdm(disable=True))


def test_the_gradient_along_a_decoder_row_is_dropped(train: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    along = []
    for drop in (False, True):
        fit = fit_of("topk", train)
        if not drop:
            monkeypatch.setattr(fit.stack, "drop_parallel_gradient", lambda: None)
        before = fit.stack.decoder.detach().clone()
        fit.step(fit.train.batch(np.arange(64)[None]))
        gradient = fit.stack.decoder.grad
        assert gradient is not None
        assert gradient.abs().max() > 1e-4
        along.append((gradient * before).sum(dim=-1).abs().max().item())
    assert along[0] > 1e-4
    assert along[1] < 1e-6


@every_variant
def test_curves_and_facts_say_what_the_kept_sae_measures(
    name: str, trained: dict[str, Trained], validation: Rows
) -> None:
    one = trained[name]
    best = one.curves[one.curves["best"]]
    assert len(best) == 1
    assert best["epoch"].item() == one.facts["best_epoch"]
    measured = measure(one.sae, validation)
    assert measured.facts() == one.facts["validation"]
    # A threshold that was set on these rows may equal a code of theirs: a last bit says whether it fires.
    rel = 1e-4 if name in ("batchtopk", "matryoshka") else 1e-5
    assert best["explained_variance"].item() == pytest.approx(measured.explained_variance, rel=rel)
    assert best["l0"].item() == pytest.approx(measured.l0, rel=1e-3)
    assert best["dead_share"].item() == measured.dead_share
    assert one.curves["validation_loss"].idxmin() == best.index[0]


class Spoiled(Fit):
    """Training that goes wrong after three epochs."""

    def step(self, inputs: torch.Tensor) -> torch.Tensor:
        result = super().step(inputs)
        if len(self.curves[0]) >= 3:
            with torch.no_grad():
                self.stack.encoder.mul_(-1)
                self.stack.decoder_bias.add_(0.1)
        return result


@every_variant
def test_the_best_weights_are_kept_though_training_went_on_and_got_worse(
    name: str, train: Rows, validation: Rows
) -> None:
    fit = fit_of(name, train, validation, Spoiled, epochs=6, learning_rate=5e-3, patience=None)
    fit.run()
    losses = [row["validation_loss"] for row in fit.curves[0]]
    best = fit.best[0]
    assert best.epoch == int(np.argmin(losses)) + 1 <= 3
    assert len(losses) == 6
    assert losses[-1] > 1.2 * min(losses)
    weights = best.weights
    sae = Sae(
        name,
        best.activation,
        weights["decoder"],
        weights["decoder_bias"],
        weights["encoder"],
        weights["encoder_bias"],
    )
    measured = measure(sae, validation)
    row = fit.curves[0][best.epoch - 1]
    assert row["explained_variance"] == pytest.approx(measured.explained_variance, rel=1e-5)
    assert row["l0"] == pytest.approx(measured.l0, rel=1e-3)
    if name in ("topk", "batchtopk"):
        assert row["validation_loss"] == pytest.approx(standardised_loss(sae, validation), rel=1e-4)


@every_variant
def test_the_kept_weights_are_copies_that_further_steps_leave_alone(name: str, train: Rows) -> None:
    fit = fit_of(name, train)
    fit.run()
    best = fit.best[0]
    kept = {key: value.clone() for key, value in best.weights.items()}
    codes = best.activation.codes(torch.linspace(-1, 3, 48)[None])
    for _ in range(3):
        fit.step(fit.train.batch(np.arange(64)[None]))
    assert all(torch.equal(best.weights[key], value) for key, value in kept.items())
    assert torch.equal(best.activation.codes(torch.linspace(-1, 3, 48)[None]), codes)


def test_patience_stops_after_that_many_epochs_without_a_better_one(train: Rows, validation: Rows) -> None:
    fit = fit_of("topk", train, validation, Spoiled, epochs=20, learning_rate=5e-3, patience=2)
    fit.run()
    assert fit.stopped.all()
    assert len(fit.curves[0]) == fit.best[0].epoch + 2 < 20


@pytest.mark.parametrize(
    ("name", "threads", "n_rows"), [*((name, 1, 500) for name in VARIANTS), ("matryoshka", 2, 70)]
)
def test_training_together_gives_each_sae_what_training_it_alone_gives(
    name: str, threads: int, n_rows: int, train: Rows, validation: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics, "THREADED", 0)
    own = {"epochs": max(1, n_rows // 170), "patience": 1, "dead_after": 2, "dictionary_size": 45}
    chosen = [settings(name, seed=seed, **own) for seed in (3, 1, 7)]
    splits = train[:n_rows], validation[:100]
    together = fit_together(*splits, chosen, threads=threads)
    for one, each in zip(chosen, together, strict=True):
        alone = fit_together(*splits, [one], threads=threads)[0]
        assert torch.equal(alone.sae.encoder, each.sae.encoder)
        assert torch.equal(alone.sae.decoder, each.sae.decoder)
        assert alone.facts == each.facts
        assert alone.curves.equals(each.curves)


def test_results_come_in_the_order_of_the_settings(train: Rows, validation: Rows) -> None:
    names = ["topk", "frozen", "topk", "jumprelu", "topk"]
    chosen = [settings(name, seed=i) | {"epochs": 1} for i, name in enumerate(names)]
    chosen[1] = settings("frozen", seed=1)
    found = fit_together(train[:200], validation, chosen)
    assert [each.facts["variant"] for each in found] == names
    assert [each.facts["seed"] for each in found] == [0, 1, 2, 3, 4]


def test_a_small_sae_takes_one_thread_and_a_large_one_all_that_are_given(
    train: Rows, validation: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    run = Fit.run

    def counted(fit: Fit) -> None:
        used.append(torch.get_num_threads())
        run(fit)

    monkeypatch.setattr(Fit, "run", counted)
    for limit in (128 * 48 + 1, 128 * 48):
        monkeypatch.setattr(numerics, "THREADED", limit)
        fit_together(train[:130], validation[:50], [settings("topk", epochs=1)], threads=2)
    assert used == [1, 2]


def test_the_progress_bar_is_full_at_the_end_though_training_stopped_early(
    train: Rows, validation: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [settings("topk", epochs=6, learning_rate=1.0, patience=1), settings("frozen")]
    trained = fit_together(train[:200], validation, chosen, progress=True)
    assert trained[0].facts["stopped_early"]
    assert "SAE training: 100%" in capsys.readouterr().err


def test_seeds_give_different_saes_and_the_same_seed_the_same(train: Rows, validation: Rows) -> None:
    found = fit_together(train[:200], validation, [settings("topk", seed=s, epochs=1) for s in (0, 1, 0)])
    assert torch.equal(found[0].sae.encoder, found[2].sae.encoder)
    assert not torch.equal(found[0].sae.encoder, found[1].sae.encoder)


def test_rows_of_a_file_too_large_to_keep_train_as_rows_in_memory(train: Rows, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", train)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r", allow_pickle=False)
    kept, read = Inputs(train, "train", CPU), Inputs(mapped, "train", CPU, cached=0)
    which = np.random.default_rng(0).permutation(len(train))[:240].reshape(3, 80)
    assert read.kept is None
    assert torch.equal(kept.batch(which), read.batch(which))
    assert torch.equal(kept.centre, read.centre)
    for ours, theirs in zip(kept.blocks(), read.blocks(), strict=True):
        assert torch.equal(ours.values, theirs.values)


@pytest.mark.parametrize("name", ["topk", "batchtopk", "matryoshka"])
def test_the_l1_term_is_l1_times_the_mean_absolute_code(name: str, train: Rows) -> None:
    losses = []
    for l1 in (0.0, 0.7):
        fit = fit_of(name, train)
        fit.rule.l1 = l1
        inputs = fit.train.batch(np.arange(64)[None])
        pre = fit.stack.pre(inputs)
        codes = fit.rule.codes(pre)
        losses.append(fit.rule.objective(inputs, pre, codes, fit.stack).loss.item())
    assert losses[1] - losses[0] == pytest.approx(0.7 * codes.abs().mean().item(), rel=1e-4)


def test_a_signed_code_never_leaves_an_sae(trained: dict[str, Trained], validation: Rows) -> None:
    for each in trained.values():
        codes = each.sae.encode(validation)
        assert (codes >= 0).all()
        assert encode_csr(each.sae, validation).nnz == int((codes > 0).sum())


def test_mistakes_in_settings_and_rows_are_errors_that_name_them(train: Rows, validation: Rows) -> None:
    def fails(message: str, *arguments: Any) -> None:
        with pytest.raises(AssayError, match=message):
            fit_together(*arguments)

    fails("sae.name='vanilla' is not known", train, validation, [{**settings("topk"), "name": "vanilla"}])
    fails(r"jumprelu has no key \['l1'\]", train, validation, [settings("jumprelu", l1=0.1)])
    fails(
        r"validation activations are \(0, 24\).*dataset.splits.validation",
        train,
        validation[:0],
        [settings("topk")],
    )
    fails("24 features in train, 20 in validation", train, validation[:, :20], [settings("topk")])
    broken = train.copy()
    broken[1100, 5] = np.nan
    fails("row 1100 holds NaN", broken, validation, [settings("topk")])


def test_a_loss_that_is_not_finite_is_an_error_that_names_the_rate(train: Rows) -> None:
    fit = fit_of("topk", train, learning_rate=0.5)
    with torch.no_grad():
        fit.stack.encoder[0, 0, 0] = torch.inf
    with pytest.raises(AssayError, match=r"sae.seed=0: train_loss is nan.*lower sae.learning_rate=0.5"):
        fit.run()


def test_a_stack_holds_no_more_codes_than_stacking_pays_for() -> None:
    from pipeline.saes.training import STACKED, _groups

    chosen = [settings("topk", seed=seed, dictionary_size=512) for seed in range(9)]
    chosen.insert(4, settings("topk", dictionary_size=256))
    groups = _groups(chosen, n_rows=10_000)
    assert sorted(i for group in groups for i in group) == list(range(10))
    assert [len(group) for group in groups] == [2, 2, 2, 2, 1, 1]
    assert 2 * 128 * 512 <= STACKED < 3 * 128 * 512


def test_lower_precision_changes_the_numbers_but_not_the_result(train: Rows, validation: Rows) -> None:
    full, half = (
        fit_together(train, validation, [settings("topk")], precision=precision)[0]
        for precision in ("float32", "bfloat16")
    )
    assert not torch.equal(full.sae.encoder, half.sae.encoder)
    assert half.sae.encoder.dtype == torch.float32
    assert half.facts["validation"]["explained_variance"] == pytest.approx(
        full.facts["validation"]["explained_variance"], abs=0.05
    )


def test_topk_has_k_latents_at_every_checkpoint(trained: dict[str, Trained]) -> None:
    assert trained["topk"].curves["l0"].to_numpy() == pytest.approx(np.full(10, 6), abs=0.05)
    assert topk.rule(n_saes=1, n_latents=9, device=CPU, k=4).activation(0).k == 4
