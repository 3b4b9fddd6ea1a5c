"""Measure speed side by side, alternating in one run: `python scripts/benchmark.py activations`."""

import argparse
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from benchmark_record import plot, record
from PIL import Image

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.study.asked import Asked, Input, input_id, task_id

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
NOISE_SIDE = 256
TARGET = 0.90


class FolderImages:
    """The first n images of a folder, repeated where it has fewer."""

    def __init__(self, root: Path, n_images: int) -> None:
        self.paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
        self.n_images = n_images
        if not self.paths:
            raise AssayError(f"--root {root} holds no image ({', '.join(SUFFIXES)})")

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, index: int) -> Image.Image:
        """Return image `index` in RGB."""
        return Image.open(self.paths[index % len(self.paths)]).convert("RGB")


class NoiseImages:
    """n rendered noise images of 256 px."""

    def __init__(self, n_images: int) -> None:
        self.n_images = n_images

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, index: int) -> Image.Image:
        """Return image `index` in RGB."""
        pixels = generator(0, "benchmark", index % 64).integers(0, 256, (NOISE_SIDE, NOISE_SIDE, 3))
        return Image.fromarray(pixels.astype(np.uint8))


def alternating(rounds: int, *runs: Callable[[], object]) -> list[list[float]]:
    """Return the wall seconds of each run, all runs once a round, so that both see one machine."""
    seconds: list[list[float]] = [[] for _ in runs]
    for i in range(rounds):
        order = list(enumerate(runs))
        for j, run in order if i % 2 == 0 else reversed(order):
            start = time.perf_counter()
            run()
            seconds[j].append(time.perf_counter() - start)
    return seconds


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds on log size: 1 is linear growth. NaN for one size."""
    if len(set(sizes)) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def activations(arguments: argparse.Namespace) -> int:
    """Compare `write_activations` with the bare forward loop over the same loader."""
    import torch

    from pipeline.models.activations import write_activations
    from pipeline.models.device import inference
    from pipeline.models.images import loader
    from pipeline.models.timm import load

    loaded = load(arch=arguments.arch, weights={"source": "random"}, input_size=arguments.size)
    stages = [info["module"] for info in getattr(loaded.module, "feature_info", [])]
    layers = arguments.layer or stages[-2:]
    settings = {"batch_size": arguments.batch_size, "workers": arguments.workers}

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            outputs = {layer: Path(folder) / f"{layer}.npy" for layer in layers}
            write_activations(
                loaded,
                images,
                layers,
                outputs,
                pool="avg",
                dtype="float32",
                device=arguments.device,
                precision="float32",
                tf32=False,
                threads=arguments.threads,
                progress=False,
                **settings,
            )

    def bare() -> None:
        with inference(arguments.device, threads=arguments.threads) as device:
            module = loaded.module.to(device).to(memory_format=torch.channels_last)
            for batch, _ in loader(images, loaded.transform, **settings, pin_memory=device.type == "cuda"):
                output = module(batch.to(device, memory_format=torch.channels_last, non_blocking=True))
            output.cpu()

    print(f"{arguments.arch} at {loaded.input_size} px, batch {arguments.batch_size}, layers {layers}")
    print(f"{'images':>8} {'ours/s':>8} {'bare/s':>8} {'ratio':>6}   (medians of {arguments.rounds} rounds)")
    ours_seconds: list[float] = []
    ratios: list[float] = []
    for n_images in arguments.n_images:
        images = FolderImages(arguments.root, n_images) if arguments.root else NoiseImages(n_images)
        if not ours_seconds:
            alternating(1, ours, bare)
        mine, theirs = alternating(arguments.rounds, ours, bare)
        ours_seconds.append(statistics.median(mine))
        ratios.append(statistics.median(b / a for a, b in zip(mine, theirs, strict=True)))
        speeds = n_images / ours_seconds[-1], n_images / statistics.median(theirs)
        print(f"{n_images:>8} {speeds[0]:>8.1f} {speeds[1]:>8.1f} {ratios[-1]:>6.2f}", flush=True)
        sides = ours_seconds[-1], statistics.median(theirs)
        record(arguments.record, "activations", "images", n_images, *sides, "bare timm loop")
    growth = exponent(arguments.n_images, ours_seconds)
    print(f"growth: seconds ~ images^{growth:.2f}; smallest ratio {min(ratios):.2f} (target {TARGET:.2f})")
    return 0 if min(ratios) >= TARGET else 1


def ingest(arguments: argparse.Namespace) -> int:
    """Compare `ingest` of MTurk results (15 inputs a task, 3 workers) with pandas only reading the file."""
    from pipeline.ingest.ingesting import ingest as read_ratings

    title = f"{'assignments':>11} {'ratings':>9} {'seconds':>8} {'ratio':>6}"
    print(f"{title}   (medians of {arguments.rounds} rounds)")
    medians: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for n_assignments in arguments.n_assignments:
            path = Path(folder) / f"{n_assignments}.csv"
            asked = _write_results(path, n_assignments // 3)

            def ours(path: Path = path, asked: Asked = asked) -> None:
                result = read_ratings([path], asked, n_raters=3)
                assert result.counts.n_used == 3 * len(asked.inputs)

            def bare(path: Path = path) -> None:
                pd.read_csv(path, dtype=str, keep_default_na=False)

            mine, theirs = alternating(arguments.rounds, ours, bare)
            medians.append(statistics.median(mine))
            ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
            n_ratings = 3 * len(asked.inputs)
            print(f"{n_assignments:>11} {n_ratings:>9} {medians[-1]:>8.2f} {ratio:>6.1f}", flush=True)
            sides = medians[-1], statistics.median(theirs)
            record(arguments.record, "ingest", "assignments", n_assignments, *sides, "pandas reading it")
    print(f"growth: seconds ~ assignments^{exponent(arguments.n_assignments, medians):.2f}")
    return 0


def _write_results(path: Path, n_tasks: int) -> Asked:
    """Write a results file in which three workers do every task; return what was asked."""
    pairs = [(f"image{i}", f"text {i // 150}") for i in range(15 * n_tasks)]
    inputs = {input_id(*pair): Input(*pair) for pair in pairs}
    ids = list(inputs)
    slots = [tuple(ids[15 * t : 15 * t + 15]) for t in range(n_tasks)]
    tasks = {task_id(own): own for own in slots}
    rng = generator(0, "benchmark ingest")
    rows = [
        {"HITId": f"H{t}", "AssignmentId": f"A{t}-{worker}", "WorkerId": f"W{worker}",
         "AssignmentStatus": "Submitted", "SubmitTime": "Thu Oct 09 07:30:20 UTC 2025",
         "WorkTimeInSeconds": "61",
         "Input.task_id": task}
        | {f"Input.input_id{j}": own[j] for j in range(15)}
        | {f"Answer.image{j}.on": str(bool(rng.random() < 0.2)).lower() for j in range(15)}
        for t, (task, own) in enumerate(tasks.items())
        for worker in range(3)
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(path, index=False)
    return Asked(inputs, tasks)


AGGREGATE_METHODS = ("majority", "bragg_uniform", "bragg_em")
AGGREGATE_SECONDS, AGGREGATE_GB = 3.0, 2.0
AGGREGATE_RATIOS = {"majority": ("MajorityVote", 5.0), "bragg_em": ("DawidSkene", 20.0)}
AGGREGATE_COMPARED = 1_000_000


def aggregate(arguments: argparse.Namespace) -> int:
    """Time `aggregate` on ratings of 40 texts, 3 a pair; at a million beside crowd-kit on the same table.

    Every size has its own process, for its peak memory. Targets: the largest default size, ten million,
    under 3 s and 2 GB for every method; at a million, majority 5 times as fast as crowd-kit's
    MajorityVote, bragg_em 20 times as fast as its DawidSkene with 10 iterations.
    """
    print(f"{'ratings':>9} {'method':>14} {'seconds':>8} {'crowd-kit':>9} {'ratio':>6} {'peak GB':>8}")
    seconds: dict[str, list[float]] = {name: [] for name in AGGREGATE_METHODS}
    missed: list[str] = []
    for n_ratings in arguments.n_ratings:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            rows = process.submit(
                _time_aggregate, n_ratings, arguments.n_texts, arguments.ids, arguments.rounds
            ).result()
        for name, taken, theirs, peak in rows:
            seconds[name].append(taken)
            ratio = theirs / taken
            shown = f"{theirs:>9.2f} {ratio:>6.1f}" if theirs else f"{'':>9} {'':>6}"
            print(f"{n_ratings:>9} {name:>14} {taken:>8.3f} {shown} {peak:>8.2f}", flush=True)
            missed += _missed_targets(n_ratings, name, taken, theirs, peak)
            case = f"aggregation, {name}"
            record(arguments.record, case, "ratings", n_ratings, taken, theirs or math.nan, "crowd-kit")
    for name, all_seconds in seconds.items():
        print(f"growth: {name} seconds ~ ratings^{exponent(arguments.n_ratings, all_seconds):.2f}")
    print("\n".join(missed) or "every target is met")
    return 1 if missed else 0


def _missed_targets(n_ratings: int, name: str, taken: float, theirs: float, peak: float) -> list[str]:
    missed = []
    if n_ratings <= 10_000_000 and taken > AGGREGATE_SECONDS:
        missed.append(f"missed: {name} at {n_ratings} takes {taken:.2f} s (target {AGGREGATE_SECONDS:g})")
    if n_ratings <= 10_000_000 and peak > AGGREGATE_GB:
        missed.append(f"missed: {name} at {n_ratings} takes {peak:.2f} GB (target {AGGREGATE_GB:g})")
    if theirs and theirs / taken < AGGREGATE_RATIOS[name][1]:
        missed.append(f"missed: {name} at {n_ratings} is {theirs / taken:.1f} x as fast "
                      f"(target {AGGREGATE_RATIOS[name][1]:g})")  # fmt: skip
    return missed


def _time_aggregate(
    n_ratings: int, n_texts: int, ids: str, rounds: int
) -> list[tuple[str, float, float, float]]:
    """Return method, seconds, crowd-kit's seconds (0: none), and the growth of memory at its peak in GB."""
    from pipeline.crowd.aggregation.aggregating import aggregate as ours

    ratings = _many_ratings(n_ratings, n_texts, ids)
    rows = []
    for name in AGGREGATE_METHODS:
        before = resident_gb()
        with Peak() as peak:
            ours(ratings, name)
        runs: list[Callable[[], object]] = [partial(ours, ratings, name)]
        if n_ratings == AGGREGATE_COMPARED and name in AGGREGATE_RATIOS:
            runs.append(_crowd_kit_run(AGGREGATE_RATIOS[name][0], ratings))
        taken = [statistics.median(times) for times in alternating(rounds, *runs)]
        rows.append((name, taken[0], taken[1] if len(taken) > 1 else 0.0, peak.gb - before))
    return rows


def _crowd_kit_run(name: str, ratings: pd.DataFrame) -> Callable[[], object]:
    """Return a run of crowd-kit on the same columns: the pair is made one task, as its users must."""
    import warnings

    from crowdkit import aggregation

    method = getattr(aggregation, name)
    settings = {"n_iter": 10, "tol": -math.inf} if name == "DawidSkene" else {}
    task = ratings["description"].astype(np.int64) * (1 << 32) + ratings["image_id"].astype(np.int64)
    table = pd.DataFrame({"task": task, "worker": ratings["worker"], "label": ratings["rating"].astype(int)})

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method(**settings).fit(table)

    return run


def _many_ratings(n_ratings: int, n_texts: int, ids: str) -> pd.DataFrame:
    """Return shuffled ratings, three a pair of image and text, misses .17 and false alarms .02."""
    rng = generator(0, "benchmark aggregate", n_ratings)
    n_pairs = n_ratings // 3
    pair, text = np.arange(n_pairs), np.arange(n_pairs) % n_texts
    present = rng.random(n_pairs) < rng.beta(1, 9, n_texts)[text]
    first = rng.integers(0, 900, n_pairs)
    ratings = pd.DataFrame(
        {
            "image_id": np.tile(pair // n_texts, 3),
            "description": np.tile(text, 3),
            "worker": np.concatenate([first, first + 7, first + 31]),
            "rating": np.concatenate(
                [np.where(present, rng.random(n_pairs) >= 0.17, rng.random(n_pairs) < 0.02) for _ in range(3)]
            ),
        }
    )
    ratings = ratings.take(rng.permutation(len(ratings))).reset_index(drop=True)
    if ids == "integer":
        return ratings
    return ratings.astype(dict.fromkeys(["image_id", "description", "worker"], ids))


def resident_gb() -> float:
    """Return the resident memory of this process."""
    return float(psutil.Process().memory_info().rss) / 1e9


class Peak:
    """The largest resident memory while it is open, looked at every few milliseconds."""

    def __enter__(self) -> "Peak":
        self.gb, self._done = resident_gb(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.gb = max(self.gb, resident_gb())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


SIMULATION_SECONDS = 60.0


def simulation(arguments: argparse.Namespace) -> int:
    """Time the paper's four curves of RCE against evaluations on synthetic images; target: 60 s."""
    from pipeline.simulation.curves import BUDGETS, PAPER, images_of, rce_curves
    from pipeline.simulation.worlds import synthetic_world

    start = time.perf_counter()
    world = images_of(synthetic_world(arguments.n_pairs, 0, n_images=arguments.n_images), ("mgis",))
    made = time.perf_counter()
    options = {"n_repeats": arguments.n_repeats, "processes": arguments.processes}
    curves = rce_curves(world, PAPER, "symmetric", budgets=BUDGETS, **options)
    seconds = time.perf_counter() - made
    print(f"{arguments.n_pairs} pairs, {arguments.n_images} images, {arguments.n_repeats} repeats")
    print(f"evaluations a pair: {', '.join(map(str, BUDGETS))}")
    print(f"{len(curves)} points of {len(PAPER)} curves: {seconds:.1f} s (target {SIMULATION_SECONDS:g})")
    print(f"the images before that: {made - start:.1f} s; in memory with them {resident_gb():.2f} GB")
    return 0 if seconds <= SIMULATION_SECONDS else 1


def matching(arguments: argparse.Namespace) -> int:
    """Time FBMP and the sanity metrics: seconds, peak memory, growth (benchmark_matching.py)."""
    import benchmark_matching

    return benchmark_matching.matching(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the command line: one subcommand for each thing measured."""
    import benchmark_growth
    import benchmark_matching
    import benchmark_planning

    top = argparse.ArgumentParser(description=__doc__)
    top.add_argument("--record", type=Path, help="a CSV file that gets a row of each size measured")
    commands = top.add_subparsers(dest="command", required=True)
    one = commands.add_parser("activations", help=activations.__doc__)
    one.set_defaults(run=activations)
    one.add_argument("--arch", default="tf_efficientnet_lite0")
    one.add_argument("--size", type=int, default=128, help="input side in pixels")
    one.add_argument("--layer", action="append", help="may be repeated; default: the last two stages")
    one.add_argument("--n-images", type=int, nargs="+", default=[256, 512, 1024])
    one.add_argument("--batch-size", type=int, default=64)
    one.add_argument("--workers", type=int, default=0)
    one.add_argument("--threads", type=int, default=2)
    one.add_argument("--device", default="auto")
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--root", type=Path, help="folder of images; default: rendered noise")
    two = commands.add_parser("ingest", help=ingest.__doc__)
    two.set_defaults(run=ingest)
    two.add_argument("--n-assignments", type=int, nargs="+", default=[3000, 6000, 12000])
    two.add_argument("--rounds", type=int, default=3)
    three = commands.add_parser("aggregate", help=aggregate.__doc__)
    three.set_defaults(run=aggregate)
    three.add_argument("--n-ratings", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    three.add_argument("--n-texts", type=int, default=40)
    three.add_argument("--ids", choices=["integer", "category", "str"], default="integer")
    three.add_argument("--rounds", type=int, default=3)
    four = commands.add_parser("simulation", help=simulation.__doc__)
    four.set_defaults(run=simulation)
    four.add_argument("--n-pairs", type=int, default=400)
    four.add_argument("--n-images", type=int, default=50_000)
    four.add_argument("--n-repeats", type=int, default=100)
    four.add_argument("--processes", type=int, default=2)
    five = commands.add_parser("matching", help=matching.__doc__)
    five.set_defaults(run=matching)
    benchmark_matching.add_arguments(five)
    benchmark_planning.add_planning(commands.add_parser("planning", help=benchmark_planning.planning.__doc__))
    benchmark_planning.add_dispatch(commands.add_parser("dispatch", help=benchmark_planning.dispatch.__doc__))
    for name, case in benchmark_growth.CASES.items():
        command = commands.add_parser(name, help=case.make.__doc__)
        command.set_defaults(run=benchmark_growth.growth)
        benchmark_growth.add_arguments(command)
    drawn = commands.add_parser("plot", help=plot.__doc__)
    drawn.set_defaults(run=plot)
    drawn.add_argument("--to", type=Path, default=Path("docs/figures/growth.svg"))
    return top


def main() -> int:
    """Run the chosen measurement."""
    arguments = parser().parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
