"""What an explanation method costs: seconds, peak memory, growth, and what that makes at full size.

`python scripts/benchmark_explainers.py clip_dissect` measures a small size; `--full` the size of the limits:
2,048 units, 50,000 images and 20,000 concepts in 300 s and 4 GB on 2 cores. Every measurement has its own
process, for its peak memory. Growth is that of CPU seconds, which other work on the machine changes little;
`OMP_NUM_THREADS` sets the cores of matrix products.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
from benchmark import Peak, exponent, resident_gb

from pipeline.explainers.similarities.registry import NAMES
from pipeline.seeds import generator

AXES = {"units": "n_units", "images": "n_images", "concepts": "n_concepts"}
SECONDS = 300.0
GB = 4.0
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Sizes:
    """A layer's units, the images, the vocabulary and the length of an embedding."""

    n_units: int
    n_images: int
    n_concepts: int
    n_features: int


FULL = Sizes(2048, 50_000, 20_000, 512)


@dataclass(frozen=True, eq=False)
class Case:
    """Activations (N, U) and embeddings of images (N, d) and concepts (T, d), float32."""

    activations: np.ndarray
    images: np.ndarray
    texts: np.ndarray


def make(sizes: Sizes) -> Case:
    """Return a case of these sizes: unit k follows concept k's cosines, with noise of the same spread."""
    rng = generator(0, "benchmark explainers", *vars(sizes).values())
    images, texts = (_embeddings(rng, n, sizes.n_features) for n in (sizes.n_images, sizes.n_concepts))
    followed = texts[np.arange(sizes.n_units) % sizes.n_concepts]
    activations = np.empty((sizes.n_images, sizes.n_units), dtype=np.float32)
    for start in range(0, sizes.n_images, ROWS_AT_ONCE):
        rows = images[start : start + ROWS_AT_ONCE] @ followed.T
        noise = rng.standard_normal(rows.shape, dtype=np.float32) * rows.std()
        activations[start : start + ROWS_AT_ONCE] = rows + noise
    return Case(activations, images, texts)


def _embeddings(rng: np.random.Generator, n: int, n_features: int) -> np.ndarray:
    """Return unit vectors (n, d) around a common direction, so that cosines are positive in the mean."""
    rows = rng.standard_normal((n, n_features), dtype=np.float32) + np.float32(0.5)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def runs(case: Case, similarity: str, threads: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return CLIP-Dissect of all units, and the bare products: every cosine once, in blocks."""
    from pipeline.explainers.clip_dissect import explain
    from pipeline.explainers.similarities.cosines import Cosines, slices

    words = [f"concept {place}" for place in range(len(case.texts))]
    units = range(case.activations.shape[1])
    cosines = Cosines(case.images, case.texts)

    def ours() -> object:
        return explain(
            case.activations, case.images, case.texts, words, units, similarity=similarity, threads=threads
        )

    def bare() -> None:
        for concepts in slices(len(words), 8 * len(case.images)):
            cosines.columns(concepts)

    return ours, bare


@dataclass(frozen=True)
class Cost:
    """Median seconds by the wall clock and of the CPUs, their ratio to the bare products', GB of memory.

    `inputs` are the arrays given, `peak` the whole process at its largest.
    """

    seconds: float
    cpu: float
    ratio: float
    inputs: float
    peak: float


def measured(sizes: Sizes, similarity: str, arguments: argparse.Namespace) -> Cost:
    """Return what one size costs, from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measure, sizes, similarity, arguments.rounds, arguments.threads).result()


def _measure(sizes: Sizes, similarity: str, rounds: int, threads: int) -> Cost:
    case = make(sizes)
    ours, bare = runs(case, similarity, threads)
    inputs = sum(array.nbytes for array in vars(case).values()) / 1e9
    with Peak() as peak:
        mine, theirs = zip(*[(_timed(ours), _timed(bare)) for _ in range(rounds)], strict=True)
    wall, cpu = (statistics.median(seconds) for seconds in zip(*mine, strict=True))
    ratio = statistics.median(a[1] / b[1] for a, b in zip(mine, theirs, strict=True))
    return Cost(wall, cpu, ratio, inputs, max(peak.gb, resident_gb()))


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    start = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def clip_dissect(arguments: argparse.Namespace) -> int:
    """Print what each similarity costs and how it grows; 1 where a limit is missed at full size."""
    given = (arguments.n_units, arguments.n_images, arguments.n_concepts, arguments.n_features)
    base = replace(FULL, n_features=arguments.n_features) if arguments.full else Sizes(*given)
    print(f"{base.n_units} units, {base.n_images} images, {base.n_concepts} concepts")
    print(f"{base.n_features} features, {arguments.threads} threads")
    print(f"{'similarity':>12} {'seconds':>8} {'CPU s':>8} {'x cosines':>9} {'inputs GB':>9} {'peak GB':>8}")
    costs = {}
    for name in arguments.similarity:
        cost = costs[name] = measured(base, name, arguments)
        times = f"{cost.seconds:>8.2f} {cost.cpu:>8.2f} {cost.ratio:>9.1f}"
        print(f"{name:>12} {times} {cost.inputs:>9.2f} {cost.peak:>8.2f}", flush=True)
    if not arguments.full:
        for name, cost in costs.items():
            _print_growth(base, name, cost, arguments)
        return 0
    missed = [name for name, cost in costs.items() if cost.seconds > SECONDS or cost.peak > GB]
    print(f"missed {SECONDS:g} s or {GB:g} GB: {', '.join(missed)}" if missed else "every limit is kept")
    return 1 if missed else 0


def _print_growth(base: Sizes, name: str, cost: Cost, arguments: argparse.Namespace) -> None:
    """Print the exponent of each size, and the CPU seconds at full size by these exponents and by 1.

    A sum of terms grows faster than its exponents at a small size say, so that the second figure bounds it.
    """
    by_exponents = by_one = cost.cpu
    for axis in arguments.growth:
        field = AXES[axis]
        sizes = [int(getattr(base, field) * factor) for factor in arguments.factors]
        costs = [measured(replace(base, **{field: size}), name, arguments) for size in sizes]
        growth = exponent(sizes, [cost.cpu for cost in costs])
        factor = getattr(FULL, field) / getattr(base, field)
        by_exponents, by_one = by_exponents * factor**growth, by_one * factor
        points = ", ".join(f"{n}: {c.cpu:.2f} s {c.peak:.2f} GB" for n, c in zip(sizes, costs, strict=True))
        print(f"growth: {name} CPU seconds ~ {axis}^{growth:.2f} ({points})", flush=True)
    if set(arguments.growth) == set(AXES):
        seconds = f"{by_exponents:.0f} CPU s by these exponents, {by_one:.0f} by 1"
        print(f"growth: {name} at full size {seconds}", flush=True)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the sizes and the choice of similarities to the subcommand."""
    command.add_argument("--similarity", nargs="+", choices=NAMES, default=["soft_wpmi"])
    command.add_argument("--full", action="store_true", help="the size of the limits, without growth")
    command.add_argument("--n-units", type=int, default=512)
    command.add_argument("--n-images", type=int, default=12_500)
    command.add_argument("--n-concepts", type=int, default=5_000)
    command.add_argument("--n-features", type=int, default=FULL.n_features)
    command.add_argument("--growth", nargs="*", choices=list(AXES), default=list(AXES))
    command.add_argument("--factors", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    command.add_argument("--rounds", type=int, default=1)
    command.add_argument("--threads", type=int, default=2, help="of rank_reorder, beside matrix products")


def main() -> int:
    """Run the chosen measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("clip_dissect", help="the similarities of CLIP-Dissect")
    add_arguments(command)
    command.set_defaults(run=clip_dissect)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
