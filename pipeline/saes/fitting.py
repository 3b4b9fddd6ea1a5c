"""The training loop of one stack of SAEs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes.activation import Activation
from pipeline.saes.auxiliary import Silence, auxiliary_loss
from pipeline.saes.inputs import Inputs
from pipeline.saes.normalisation import Normalised
from pipeline.saes.optimiser import MemberwiseAdam
from pipeline.saes.rule import Rule
from pipeline.saes.weights import Stack
from pipeline.seeds import generator

if TYPE_CHECKING:
    from tqdm import tqdm


@dataclass(frozen=True)
class Schedule:
    """The settings that every trained variant has; see the files in conf/sae/."""

    dictionary_size: int
    learning_rate: float = 5e-4
    epochs: int = 50
    batch_size: int = 1024
    patience: int | None = 5
    dead_after: int = 20
    seed: int = 0


@dataclass(frozen=True)
class Best:
    """Copies of what a member held after the epoch that was best on validation."""

    epoch: int
    loss: float
    weights: dict[str, Tensor]
    activation: Activation


class Fit:
    """S SAEs that differ in their seed alone, trained in step; each member stops on its own.

    After an epoch each member's validation loss is its variant's objective with the codes of the finished
    SAE. The weights of the lowest one are kept as copies; `patience` epochs without a lower one stop the
    member: what the stack does to it afterwards is not looked at.
    """

    def __init__(
        self,
        name: str,
        rule: Rule,
        seeds: Sequence[int],
        schedule: Schedule,
        train: Inputs,
        validation: Inputs,
        progress: "tqdm[Any]",
    ) -> None:
        self.name, self.rule, self.seeds, self.schedule = name, rule, seeds, schedule
        self.train, self.validation, self.progress = train, validation, progress
        self.stack = Stack(seeds, train.d, schedule.dictionary_size, train.centre, train.device)
        weights = {"params": self.stack.parameters(), "lr": schedule.learning_rate}
        self.adam = MemberwiseAdam([weights, *rule.learned()])
        self.silence = Silence(len(seeds), schedule.dictionary_size, train.device)
        self.orders = [generator(seed, "sae", "order") for seed in seeds]
        self.best: list[Best] = []
        self.curves: list[list[dict[str, Any]]] = [[] for _ in seeds]
        self.stopped = np.zeros(len(seeds), dtype=bool)

    def run(self) -> None:
        """Train until the last epoch, or until every member has stopped."""
        n_batches = -(-len(self.train) // self.schedule.batch_size)
        work = len(self.seeds) * self.schedule.dictionary_size
        for epoch in range(1, self.schedule.epochs + 1):
            orders = np.stack([order.permutation(len(self.train)) for order in self.orders])
            totals = torch.zeros(2, len(self.seeds), dtype=torch.float64, device=self.train.device)
            for which in np.array_split(orders, n_batches, axis=1):
                totals += self.step(self.train.batch(which)) * which.shape[1]
            self._record(epoch, totals / len(self.train))
            self.progress.update(work)
            if self.stopped.all():
                self.progress.update(work * (self.schedule.epochs - epoch))
                return

    def step(self, inputs: Tensor) -> Tensor:
        """One gradient step on normalised rows (S, B, d); return the loss and its auxiliary part (2, S)."""
        pre = self.stack.pre(inputs)
        codes = self.rule.codes(pre)
        loss, reconstruction = self.rule.objective(inputs, pre, codes, self.stack)
        auxiliary = self._auxiliary(inputs - reconstruction, pre)
        total = loss + auxiliary
        self.adam.zero_grad()
        torch.autograd.backward(total.sum())
        self.stack.drop_parallel_gradient()
        self.adam.step()
        self.stack.renormalise()
        with torch.no_grad():
            self.silence.observe(codes)
        return torch.stack([total, auxiliary]).detach().double()

    def _auxiliary(self, residual: Tensor, pre: Tensor) -> Tensor:
        coefficient, dead = self.rule.aux_coefficient, self.silence.dead(self.schedule.dead_after)
        if not coefficient or not self.rule.aux_k:
            return residual.new_zeros(len(residual))
        return coefficient * auxiliary_loss(residual, pre, dead, self.stack.decoder, self.rule.aux_k)

    def _record(self, epoch: int, means: Tensor) -> None:
        """Add one row to the curves of each member that has not stopped, and keep what is best."""
        validation = self._validate()
        silent = self.silence.dead(self.schedule.dead_after).double().mean(dim=1).cpu()
        threshold = self.rule.threshold(len(self.seeds))
        for member in np.flatnonzero(~self.stopped):
            row = {
                "epoch": epoch,
                "train_loss": float(means[0, member]),
                "auxiliary_loss": float(means[1, member]),
                **{name: float(values[member]) for name, values in validation.items()},
                "silent_share": float(silent[member]),
                "threshold": float(threshold[member]),
            }
            self._check(row, int(member))
            self.curves[member].append(row)
            self._keep(row, int(member))

    def _check(self, row: dict[str, Any], member: int) -> None:
        for loss in ("train_loss", "validation_loss"):
            if not np.isfinite(row[loss]):
                raise AssayError(
                    f"sae.name={self.name}, sae.seed={self.seeds[member]}: {loss} is {row[loss]} after epoch "
                    f"{row['epoch']}; lower sae.learning_rate={self.schedule.learning_rate:g}"
                )

    def _keep(self, row: dict[str, Any], member: int) -> None:
        if len(self.best) == member:
            self.best.append(self._best(row, member))
        elif row["validation_loss"] < self.best[member].loss:
            self.best[member] = self._best(row, member)
        waited = row["epoch"] - self.best[member].epoch
        self.stopped[member] = self.schedule.patience is not None and waited >= self.schedule.patience

    def _best(self, row: dict[str, Any], member: int) -> Best:
        return Best(
            row["epoch"], row["validation_loss"], self.stack.member(member), self.rule.activation(member)
        )

    def _members(self, block: Normalised) -> Tensor:
        """Return normalised rows (n, d) for every member, (S, n, d)."""
        return block.values.expand(len(self.seeds), *block.values.shape)

    @torch.no_grad()
    def _validate(self) -> dict[str, Tensor]:
        n_saes, n_latents = self.stack.encoder_bias.shape
        self.rule.calibrate(self.stack.pre(self._members(block)) for block in self.validation.blocks())
        sums = torch.zeros(3, n_saes, dtype=torch.float64, device=self.train.device)
        fired = torch.zeros(n_saes, n_latents, dtype=torch.bool, device=self.train.device)
        for block in self.validation.blocks():
            inputs = self._members(block)
            pre = self.stack.pre(inputs)
            codes = self.rule.evaluate(pre)
            loss, reconstruction = self.rule.objective(inputs, pre, codes, self.stack)
            residual = (inputs - reconstruction) * block.scale
            sums[0] += loss.double() * len(block.values)
            sums[1] += residual.double().square().sum(dim=2).sum(dim=1)
            sums[2] += (codes > 0).sum(dim=(1, 2))
            fired |= (codes > 0).any(dim=1)
        n, spread = len(self.validation), self.validation.spread
        return {
            "validation_loss": sums[0] / n,
            "explained_variance": 1 - sums[1] / spread if spread > 0 else torch.full((n_saes,), torch.nan),
            "l0": sums[2] / n,
            "dead_share": 1 - fired.double().mean(dim=1),
        }
