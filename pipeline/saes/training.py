"""One trainer for every variant: many settings that share activations, in one process."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from tqdm import tqdm

from pipeline.errors import AssayError
from pipeline.files import canonical
from pipeline.models.device import threads_of
from pipeline.saes.fitting import Fit, Schedule
from pipeline.saes.inputs import Inputs
from pipeline.saes.measures import measure
from pipeline.saes.numerics import computing, threads_for
from pipeline.saes.registry import UNTRAINED, sae_module
from pipeline.saes.sae import Sae

STACKED = 1 << 17
"""The most codes (SAEs x batch x latents) that a stack works on at once; beyond it stacking saves nothing."""


@dataclass(frozen=True)
class Trained:
    """An SAE with its best weights, its curves and its facts.

    `curves`: one row an epoch: epoch (from 1), train_loss, auxiliary_loss, validation_loss,
    explained_variance, l0 and dead_share (on the validation rows), silent_share (latents that did not fire
    in the last `dead_after` training batches), threshold (mean; NaN without one), best (bool). `facts`
    goes into JSON: what was trained, best_epoch, stopped_early, and the measures on the validation rows.
    """

    sae: Sae
    curves: pd.DataFrame
    facts: dict[str, Any]


def fit_together(
    train: ArrayLike,
    validation: ArrayLike,
    settings: Sequence[dict[str, Any]],
    *,
    device: str = "cpu",
    precision: str = "float32",
    tf32: bool = False,
    threads: int | None = None,
    progress: bool = False,
) -> list[Trained]:
    """Train an SAE for each of `settings` on rows (n, d), keeping the weights that are best on (v, d).

    Both arrays may be memory-mapped; they are read and normalised once. Settings that differ in their
    seed alone train as one stack, where a stack is faster; nothing is shared but the rows, and each SAE
    is what training it alone gives, on a CPU to the bit. Large ones use all `threads` (`threads_for`). An
    untrained variant is built and measured. Raises AssayError for an unknown variant or key, no rows,
    different d, activations that are not finite, and a loss that is not.
    """
    results: dict[int, Trained] = {}
    threads = threads or torch.get_num_threads()
    with computing(device, precision=precision, tf32=tf32, threads=1) as target:
        splits = Inputs(train, "train", target), Inputs(validation, "validation", target)
        if splits[0].d != splits[1].d:
            raise AssayError(f"SAE training: {splits[0].d} features in train, {splits[1].d} in validation")
        groups = _groups(settings, len(splits[0]))
        with _bar(settings, not progress) as bar:
            for group in groups:
                chosen = [settings[i] for i in group]
                if chosen[0]["name"] in UNTRAINED:
                    results |= {i: _built(settings[i], splits[1]) for i in group}
                    continue
                fit = _fit(chosen, splits, progress=bar)
                with threads_of(threads_for(_n_codes(chosen[0], len(splits[0])), threads)):
                    fit.run()
                results |= {i: _trained(fit, member, settings[i], splits) for member, i in enumerate(group)}
    return [results[i] for i in range(len(settings))]


def _groups(settings: Sequence[dict[str, Any]], n_rows: int) -> list[list[int]]:
    """Return which settings train as one stack: those that differ in their seed alone, up to STACKED."""
    alike: dict[str, list[int]] = {}
    for i, each in enumerate(settings):
        told = {key: str(value) for key, value in each.items() if key != "seed"}
        alike.setdefault(canonical(told), []).append(i)
    groups = []
    for members in alike.values():
        first = settings[members[0]]
        size = max(1, STACKED // max(1, _n_codes(first, n_rows)))
        groups += [members[start : start + size] for start in range(0, len(members), size)]
    return groups


def _n_codes(settings: dict[str, Any], n_rows: int) -> int:
    """Return how many codes one SAE has in a batch."""
    batch = min(settings.get("batch_size", Schedule.batch_size), n_rows)
    return int(batch * settings.get("dictionary_size", 1))


def _fit(settings: Sequence[dict[str, Any]], splits: tuple[Inputs, Inputs], progress: "tqdm[Any]") -> Fit:
    name = settings[0]["name"]
    common = {field.name for field in fields(Schedule)}
    schedules = [Schedule(**{key: v for key, v in each.items() if key in common}) for each in settings]
    own = {key: value for key, value in settings[0].items() if key not in common | {"name"}}
    first = schedules[0]
    make = sae_module(name).rule
    if unknown := own.keys() - signature(make).parameters.keys():
        raise AssayError(
            f"sae.name={name} has no key {sorted(unknown)}; its keys are in conf/sae/{name}.yaml"
        )
    rule = make(n_saes=len(settings), n_latents=first.dictionary_size, device=splits[0].device, **own)
    seeds = [schedule.seed for schedule in schedules]
    return Fit(name, rule, seeds, first, *splits, progress=progress)


def _trained(fit: Fit, member: int, settings: dict[str, Any], splits: tuple[Inputs, Inputs]) -> Trained:
    best = fit.best[member]
    weights = best.weights
    sae = Sae(
        settings["name"],
        best.activation,
        weights["decoder"],
        weights["decoder_bias"],
        weights["encoder"],
        weights["encoder_bias"],
        settings=dict(settings),
    )
    curves = pd.DataFrame(fit.curves[member])
    facts = {
        **_facts(sae, settings),
        "n_train": len(splits[0]),
        "n_validation": len(splits[1]),
        "n_epochs": len(curves),
        "best_epoch": best.epoch,
        "stopped_early": bool(fit.stopped[member]),
        "validation": measure(sae, splits[1].rows).facts(),
    }
    return Trained(sae, curves.assign(best=curves["epoch"] == best.epoch), facts)


def _built(settings: dict[str, Any], validation: Inputs) -> Trained:
    sae = sae_module(settings["name"]).build(
        validation.d, **{key: value for key, value in settings.items() if key != "name"}
    )
    measured = measure(sae, validation.rows)
    row = {
        "epoch": 0,
        **dict.fromkeys(("train_loss", "auxiliary_loss", "validation_loss"), np.nan),
        "explained_variance": measured.explained_variance,
        "l0": measured.l0,
        "dead_share": measured.dead_share,
        **dict.fromkeys(("silent_share", "threshold"), np.nan),
        "best": True,
    }
    facts = {**_facts(sae, settings), "n_validation": len(validation), "validation": measured.facts()}
    return Trained(sae, pd.DataFrame([row]), facts)


def _facts(sae: Sae, settings: dict[str, Any]) -> dict[str, Any]:
    k = settings.get("k", sae.activation.k)
    notes = [f"k={k} of {sae.dictionary_size} latents: all are kept"] if k and k > sae.dictionary_size else []
    return {
        "variant": sae.variant,
        "activation": sae.activation.kind,
        "d": sae.d,
        "dictionary_size": sae.dictionary_size,
        "k": k,
        "seed": settings.get("seed"),
        "notes": notes,
    }


def _bar(settings: Sequence[dict[str, Any]], disable: bool) -> "tqdm[Any]":
    """Return a bar whose unit is one latent for one epoch, so that the time left is about right."""
    trained = [each for each in settings if each["name"] not in UNTRAINED]
    total = sum(each.get("epochs", Schedule.epochs) * each["dictionary_size"] for each in trained)
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
    return tqdm(total=total, desc="SAE training", disable=disable, bar_format=form)
