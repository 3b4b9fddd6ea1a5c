"""Measure what F_syn costs: `OMP_NUM_THREADS=1 python scripts/benchmark_synergy.py states|exact`.

states: time a state of the game beside plain batched inference of the same model and batch, and one by one.
exact: states and seconds of F_syn of nine explainers, as published (68 single forwards each), and exact SII.
The model is a LLaVA with random weights (time does not depend on them), of growing size; --weights takes a
trained one. Everything alternates in one run, so that all see one machine; times are medians of wall seconds.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from pipeline.models.device import exact
from pipeline.models.weights import seeded
from pipeline.seeds import generator
from pipeline.synergy.fsyn import count_states, explain_many
from pipeline.synergy.sii import sii
from pipeline.synergy.states import States
from pipeline.vlms.game import VlmGame
from pipeline.vlms.states import blurred_canvas, masked_canvas, padded_ids, patch_map
from pipeline.vlms.tiny_llava import TinyLlava, TinyShape, build, load, normalised
from pipeline.vlms.vlm import Answer
from pipeline.vqa.shape_questions import WORDS
from pipeline.vqa.shapes_vqa import read

N_EXPLAINERS, STEPS = 9, 11
SIZES = ((64, 16, 64), (128, 16, 64), (256, 16, 128), (336, 14, 128))
"""Pixels a side, pixels a patch, width: 16, 64, 256 and 576 visual tokens."""
Orders = dict[str, list[tuple[Any, Any]]]


class Asked:
    """One question to one model, with the orders of nine explainers and their distinct states."""

    def __init__(self, vlm: TinyLlava, index: int) -> None:
        (*_, sample) = read(n_samples=index + 1, seed=0)
        self.vlm, self.prepared = vlm, vlm.prepare(sample.image(), sample.question)
        answer = vlm.answer(self.prepared, max_new_tokens=1)
        self.answer = Answer(answer.ids if len(answer.ids) else np.array([10]), answer.text, 0.0)
        rng = generator(index, "orders")
        m, n = self.prepared.n_patches, self.prepared.n_tokens
        self.orders: Orders = {
            str(e): [(rng.permutation(m), rng.permutation(n))] for e in range(N_EXPLAINERS)
        }

    def calls(self) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Return the states of each call of the game that F of all explainers makes."""
        calls = []

        def game(patches: np.ndarray[Any, Any], tokens: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            calls.append((patches, tokens))
            return np.zeros(len(patches))

        explain_many(game, self.orders, STEPS)
        return calls

    def states(self) -> States:
        """Return the states of all calls."""
        patches, tokens = (np.concatenate(kept) for kept in zip(*self.calls(), strict=True))
        return States(patches, tokens, np.arange(len(patches)))

    def game(self, batch_size: int, **settings: Any) -> VlmGame:
        """Return a new game, which knows no encoded image yet."""
        return VlmGame(self.vlm, self.prepared, self.answer, batch_size=batch_size, **settings)


def played(asked: Asked, batch_size: int, **settings: Any) -> Callable[[], Any]:
    """Return what plays every state in a new game, call by call as F does."""
    calls = asked.calls()

    def run() -> None:
        game = asked.game(batch_size, **settings)
        for patches, tokens in calls:
            game(patches, tokens)

    return run


def plainly(asked: Asked, states: States, batch_size: int) -> Callable[[], Any]:
    """Return what runs the model on every state with its pixels and ids ready, as transformers would."""
    prepared, vlm = asked.prepared, asked.vlm
    blurred, owner = blurred_canvas(prepared), patch_map(prepared)
    canvases = [np.asarray(masked_canvas(prepared, kept, blurred, owner)) for kept in states.patches]
    pixels, ids = normalised(np.stack(canvases)), padded_ids(prepared, states.tokens, vlm.pad_id)
    answers = np.tile(asked.answer.ids[:-1], (len(ids), 1))
    sequences, n_kept = torch.from_numpy(np.hstack([ids, answers])), len(asked.answer.ids)

    def run() -> Any:
        module: Any = vlm.module
        with torch.inference_mode():
            for start in range(0, len(sequences), batch_size):
                block = sequences[start : start + batch_size]
                out = module(
                    input_ids=block,
                    pixel_values=pixels[start : start + batch_size],
                    attention_mask=torch.ones_like(block),
                    logits_to_keep=n_kept,
                )
                vlm.log_probabilities(out.logits, asked.answer.ids).exp()

    return run


def medians(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return each run's median wall seconds; all run once a round, every other round backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        for name in runs if turn % 2 == 0 else reversed(runs):
            start = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - start)
    return {name: median(each) for name, each in seconds.items()}


def models(weights: Path | None) -> Iterator[TinyLlava]:
    """Yield the trained model, or LLaVAs with random weights of growing size."""
    if weights is not None:
        yield load(weights={"source": "folder", "path": weights})
        return
    for side, patch, width in SIZES:
        shape = TinyShape(words=tuple(WORDS), side=side, patch=patch, width=width)
        with seeded(0):
            yield TinyLlava(build(shape, "eager"), shape, attention="eager")


def time_states(arguments: argparse.Namespace) -> None:
    """Print milliseconds a state of the game and of plain inference, batched and one by one."""
    print(f"{N_EXPLAINERS} random explainers, K={STEPS}, batch {arguments.batch_size}; wall ms a state")
    for vlm in models(arguments.weights):
        asked = Asked(vlm, 0)
        states, batch_size = asked.states(), arguments.batch_size
        n_single = min(len(states), 68)
        single = States(states.patches[:n_single], states.tokens[:n_single], states.index[:0])
        found = medians(
            {
                "game": played(asked, batch_size),
                "every": played(asked, batch_size, reuse_prefix=False),
                "plain": plainly(asked, states, batch_size),
                "single": plainly(asked, single, 1),
            },
            arguments.rounds,
        )
        per = {
            name: 1e3 * each / (n_single if name == "single" else len(states)) for name, each in found.items()
        }
        print(
            f"  m={asked.prepared.n_patches:<4} n={asked.prepared.n_tokens:<3} {len(states)} states  "
            f"game {per['game']:7.3f}  without the prefix {per['every']:7.3f}  plain {per['plain']:7.3f}  "
            f"one by one {per['single']:7.3f}  game / plain {per['game'] / per['plain']:5.2f}"
        )


def time_exact(arguments: argparse.Namespace) -> None:
    """Print states and seconds a sample: F_syn of nine explainers, as published, and exact SII of one."""
    print(f"{N_EXPLAINERS} random explainers, K={STEPS}, batch {arguments.batch_size}; a sample")
    published = N_EXPLAINERS * (6 * STEPS + 2)
    for vlm in models(arguments.weights):
        asked = Asked(vlm, 0)
        states, batch_size = asked.states(), arguments.batch_size
        n_single = min(len(states), 68)
        single = States(states.patches[:n_single], states.tokens[:n_single], states.index[:0])
        (first,) = asked.orders["0"]
        found = medians(
            {
                "f": lambda: explain_many(asked.game(batch_size), asked.orders, STEPS),  # noqa: B023
                "sii": lambda: sii(asked.game(batch_size), *first),  # noqa: B023
                "single": plainly(asked, single, 1),
            },
            arguments.rounds,
        )
        as_published = found["single"] / n_single * published
        n_f = count_states(asked.orders, STEPS)
        all_sii = N_EXPLAINERS * found["sii"]
        print(
            f"  m={asked.prepared.n_patches:<4} n={asked.prepared.n_tokens:<3} "
            f"F of all: {n_f} states {found['f']:6.2f} s;  as published: {published} forwards "
            f"{as_published:6.2f} s, {as_published / found['f']:.1f} times;  SII of one: 1,024 states "
            f"{found['sii']:6.2f} s, of all {all_sii:6.2f} s, {all_sii / found['f']:.1f} times"
        )


def main() -> None:
    """Read the arguments and run a part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("states", "exact"))
    parser.add_argument("--weights", type=Path, help="a folder with a trained tiny_llava")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with exact(tf32=False, threads=arguments.threads):
        {"states": time_states, "exact": time_exact}[arguments.part](arguments)


if __name__ == "__main__":
    main()
