"""What matching and the sanity metrics cost: seconds, peak memory, growth.

`python scripts/benchmark.py matching` runs it. Every measurement has its own process, for its peak memory.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
import scipy.sparse as sp
from benchmark import Peak, exponent
from benchmark_record import record

from pipeline.seeds import generator

BETAS = (0.25, 0.5, 1.0)
GB = 1.0
ENOUGH_SECONDS = 10.0
LIMITS = {"fbmp": 0.6, "fbmp, 3 calls": 0.9, "monosemanticity": 2.0, "cknna": 5.0, "fms": 90.0}
"""Seconds on 2 cores at the default sizes; a case that is not here has no limit."""

PRODUCT = "the product alone"
"""How often latents and attributes are on together, by NumPy: what FBMP cannot do without."""

AXES = {"images": "n_images", "latents": "n_latents", "attributes": "n_attributes"}
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class Sizes:
    """Sizes of one case; linked says whether latents follow attributes or nothing."""

    n_images: int
    n_latents: int
    n_attributes: int
    n_active: int
    n_features: int
    linked: bool = True


@dataclass(frozen=True, eq=False)
class Case:
    """Codes (N, D) with n_active latents a row, attributes (N, A), embeddings (N, d)."""

    codes: sp.csr_array
    attributes: np.ndarray
    embeddings: np.ndarray


def make(sizes: Sizes) -> Case:
    """Return the case of these sizes.

    An attribute is on .5% to 40% of the images. A linked latent belongs to one attribute and is more likely
    where it is present; codes are the likeliest n_active latents of an image.
    """
    rng = generator(0, "benchmark matching", *vars(sizes).values())
    shares = np.exp(rng.uniform(np.log(0.005), np.log(0.4), sizes.n_attributes))
    attributes = rng.random((sizes.n_images, sizes.n_attributes)) < shares
    owner = rng.integers(0, sizes.n_attributes, sizes.n_latents)
    popularity = rng.exponential(1, sizes.n_latents)
    latents = np.empty((sizes.n_images, sizes.n_active), dtype=np.int64)
    for start in range(0, sizes.n_images, ROWS_AT_ONCE):
        present = attributes[start : start + ROWS_AT_ONCE]
        likely = np.log(rng.random((len(present), sizes.n_latents)))
        if sizes.linked:
            likely = likely / popularity + 3 * (present[:, owner] & (rng.random(likely.shape) < 0.5))
        latents[start : start + len(present)] = np.argpartition(-likely, sizes.n_active)[:, : sizes.n_active]
    latents.sort(axis=1)
    values = rng.exponential(size=latents.size).astype(np.float32)
    starts = np.arange(0, latents.size + 1, sizes.n_active)
    codes = sp.csr_array((values, latents.ravel(), starts), shape=(sizes.n_images, sizes.n_latents))
    directions = rng.normal(size=(sizes.n_attributes, sizes.n_features))
    embeddings = attributes @ directions + rng.normal(size=(sizes.n_images, sizes.n_features))
    return Case(codes, attributes, embeddings.astype(np.float32))


def runs(case: Case, name: str) -> Callable[[], object]:
    """Return what is timed under that name. FBMP gets the dense booleans of its public signature."""
    from pipeline.matching import cknna, fbmp, fms, monosemanticity

    if name == "cknna":
        return lambda: cknna(case.codes, case.embeddings)
    if name == "fms":
        return lambda: fms(case.codes, case.attributes, 0)
    if name == "monosemanticity":
        return lambda: monosemanticity(case.codes, case.embeddings)
    fires = case.codes.toarray() > 0
    if name == PRODUCT:
        return lambda: fires.T.astype(np.float32) @ case.attributes.astype(np.float32)
    if name == "fbmp":
        return lambda: fbmp(fires, case.attributes, BETAS)
    return lambda: [fbmp(fires, case.attributes, beta) for beta in BETAS]


@dataclass(frozen=True)
class Cost:
    """Median seconds by the wall clock and of all threads' CPUs; the largest memory of the process in GB."""

    seconds: float
    cpu: float
    peak: float


def measured(sizes: Sizes, name: str, rounds: int) -> Cost:
    """Return what one case costs, from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measure, sizes, name, rounds).result()


def _measure(sizes: Sizes, name: str, rounds: int) -> Cost:
    run = runs(make(sizes), name)
    with Peak() as peak:
        run()
    start, wall, cpu = time.perf_counter(), [], []
    while len(wall) < rounds and (not wall or time.perf_counter() - start < ENOUGH_SECONDS):
        before = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - before[0])
        cpu.append(time.process_time() - before[1])
    return Cost(statistics.median(wall), statistics.median(cpu), peak.gb)


def matching(arguments: argparse.Namespace) -> int:
    """Print the table of all cases, then the growth with each size; 1 where a limit is missed."""
    base = Sizes(
        arguments.n_images,
        arguments.n_latents,
        arguments.n_attributes,
        arguments.n_active,
        arguments.n_features,
    )
    print(f"{base.n_images} images, {base.n_latents} latents, {base.n_attributes} attributes")
    print(f"{base.n_active} active, {base.n_features} features; betas {', '.join(map(str, BETAS))}")
    print(f"{'case':>16} {'latents':>8} {'seconds':>8} {'limit':>6} {'CPU s':>6} {'peak GB':>8}")
    missed = []
    for name in arguments.cases:
        for linked in (True, False):
            cost, limit = measured(replace(base, linked=linked), name, arguments.rounds), LIMITS[name]
            case = f"{name:>16} {'linked' if linked else 'random':>8}"
            figures = f"{cost.seconds:>8.2f} {limit:>6g} {cost.cpu:>6.2f} {cost.peak:>8.2f}"
            print(case, figures, flush=True)
            if cost.seconds > limit or cost.peak > GB:
                missed.append(f"missed: {case.strip()}: {cost.seconds:.2f} s, {cost.peak:.2f} GB")
    for name in arguments.growth:
        for axis, field in AXES.items():
            _print_growth(base, name, axis, field, arguments)
    print("\n".join(missed) or "every limit is kept")
    return 1 if missed else 0


def _print_growth(base: Sizes, name: str, axis: str, field: str, arguments: argparse.Namespace) -> None:
    sizes = [int(getattr(base, field) * factor) for factor in arguments.factors]
    cases = [replace(base, **{field: size}) for size in sizes]
    taken, alone = ([measured(c, n, arguments.rounds).seconds for c in cases] for n in (name, PRODUCT))
    for size, *seconds in zip(sizes, taken, alone, strict=True):
        record(arguments.record, f"matching, {name}, {axis}", axis, size, *seconds, PRODUCT)
    points = ", ".join(f"{size}: {seconds:.2f}" for size, seconds in zip(sizes, taken, strict=True))
    points += f"; {PRODUCT} " + ", ".join(f"{seconds:.2f}" for seconds in alone)
    print(f"growth: {name} seconds ~ {axis}^{exponent(sizes, taken):.2f} ({points})", flush=True)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the sizes and the choice of cases to the subcommand."""
    command.add_argument("--n-images", type=int, default=5994)
    command.add_argument("--n-latents", type=int, default=4096)
    command.add_argument("--n-attributes", type=int, default=312)
    command.add_argument("--n-active", type=int, default=32)
    command.add_argument("--n-features", type=int, default=768)
    command.add_argument("--cases", nargs="*", choices=list(LIMITS), default=list(LIMITS))
    command.add_argument("--growth", nargs="*", choices=list(LIMITS), default=["fbmp"])
    command.add_argument("--factors", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    command.add_argument("--rounds", type=int, default=3)
