"""Measure SAE training alone and stacked, and encoding: `python scripts/benchmark_saes.py --threads 1`.

The activations are normal noise: time does not depend on what is in them. Alone and stacked alternate in one
run, so that both see one machine; the times are medians of wall seconds.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from pipeline.saes.encoding import encode_csr
from pipeline.saes.frozen import build
from pipeline.saes.training import STACKED, fit_together
from pipeline.seeds import generator

VARIANTS = ("topk", "batchtopk", "matryoshka", "jumprelu")
SIZES = ((320, 128, 64), (320, 512, 64), (320, 512, 256), (768, 2048, 1024))
"""Features, dictionary size, batch size."""
N_SEEDS = 4


def seconds_of(*runs: Callable[[], object], rounds: int) -> list[float]:
    """Return each run's median wall seconds, all runs once a round."""
    seconds: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds):
        for i in range(len(runs)) if turn % 2 == 0 else reversed(range(len(runs))):
            start = time.perf_counter()
            runs[i]()
            seconds[i].append(time.perf_counter() - start)
    return [median(each) for each in seconds]


def stacked(arguments: argparse.Namespace) -> None:
    """Print milliseconds a step of one SAE, alone and among N_SEEDS in one call."""
    print(
        f"{N_SEEDS} seeds in one call and one after another, {arguments.threads} thread(s); ms a step and SAE"
    )
    for d, n_latents, batch_size in SIZES:
        rows = generator(0, "rows").standard_normal((batch_size * arguments.steps, d), dtype=np.float32)
        for name in VARIANTS:
            chosen = [
                {
                    "name": name,
                    "dictionary_size": n_latents,
                    "epochs": 1,
                    "batch_size": batch_size,
                    "seed": seed,
                }
                for seed in range(N_SEEDS)
            ]
            together, alone = seconds_of(
                lambda: _train(rows, chosen, arguments.threads),  # noqa: B023  called at once
                lambda: [_train(rows, [one], arguments.threads) for one in chosen],  # noqa: B023
                rounds=arguments.rounds,
            )
            per_step = 1e3 / (arguments.steps * N_SEEDS)
            size = min(N_SEEDS, max(1, STACKED // (batch_size * n_latents)))
            print(
                f"  {name:10} d={d:<4} D={n_latents:<5} B={batch_size:<5} alone {alone * per_step:7.2f}"
                f"  together {together * per_step:7.2f}  ratio {alone / together:4.2f}  (stacks of {size})"
            )


def _train(rows: np.ndarray[Any, Any], settings: list[dict[str, Any]], threads: int) -> None:
    fit_together(rows, rows[:64], settings, threads=threads)


def encoding(arguments: argparse.Namespace) -> None:
    """Print the seconds that encoding takes at the size of the specification."""
    rows = generator(0, "rows").standard_normal((5994, 768), dtype=np.float32)
    sae = build(768, dictionary_size=4096, k=32)
    (seconds,) = seconds_of(lambda: encode_csr(sae, rows, threads=arguments.threads), rounds=arguments.rounds)
    print(f"encode_csr: 5,994 rows, d=768, D=4,096, K=32: {seconds:.2f} s")


def main() -> None:
    """Read the arguments and run every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    stacked(arguments)
    encoding(arguments)


if __name__ == "__main__":
    main()
