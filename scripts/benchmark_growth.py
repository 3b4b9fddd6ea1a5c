"""How the arithmetic of each track grows, beside its physical limit or a peer, in one run.

`python scripts/benchmark.py scores|sampling|fsyn|mixed|report` runs it. Every size has its own process, for
its peak memory; ours and the peer alternate.
"""

import argparse
import math
import statistics
import tempfile
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmark import Peak, alternating, exponent, resident_gb
from benchmark_record import record

from pipeline.seeds import generator

Run = Callable[[], object]
WIDTH, DEPTH = 512, 12
"""Of the network that is the game of `fsyn`."""


@dataclass(frozen=True)
class Case:
    """One thing measured: sizes of what, beside what, and `make(size)`, which returns ours and the peer.

    limit: the largest allowed ratio of ours to the peer, NaN for none. largest_peer: above it the peer is
    left out, for its time.
    """

    of: str
    beside: str
    sizes: tuple[int, ...]
    make: Callable[[int], tuple[Run, Run]]
    limit: float = math.nan
    largest_peer: float = math.inf


def make_scores(n_images: int) -> tuple[Run, Run]:
    """Probabilities of 1,000 texts for each image into a file, beside the bare product of the embeddings."""
    from pipeline.scorers.calibration import probabilities

    rng = generator(0, "benchmark scores", n_images)
    images, texts = (rng.standard_normal((n, 768), dtype=np.float32) for n in (n_images, 1000))
    images, texts = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, texts))

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            shape = (n_images, len(texts))
            path = Path(folder) / "probabilities.npy"
            out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            probabilities(images, texts, 100.0, -0.1, out)
            out.flush()

    return ours, lambda: images.astype(np.float64) @ texts.T.astype(np.float64)


def make_sampling(n_images: int) -> tuple[Run, Run]:
    """MG-IS of 30 images for each of 100 units, beside NumPy's weighted choice with ready weights."""
    from pipeline.crowd.samplers.mgis import draw

    rng = generator(0, "benchmark sampling", n_images)
    activations = rng.gamma(0.3, 1.0, (n_images, 100)).T.copy()
    probabilities = rng.beta(0.2, 5.0, (n_images, 100)).T.copy()
    weights = activations / activations.sum(axis=1, keepdims=True)

    def ours() -> None:
        for unit in range(100):
            draw(activations[unit], probabilities[unit], generator(0, unit), n_inputs=30)

    def peer() -> None:
        for unit in range(100):
            generator(0, unit).choice(n_images, 30, p=weights[unit])

    return ours, peer


def make_fsyn(n_patches: int) -> tuple[Run, Run]:
    """F of nine explainers (12 tokens), beside the game alone on as many states, both in batches of 64."""
    from pipeline.synergy.fsyn import count_states, explain_many

    rng = generator(0, "benchmark fsyn", n_patches)
    explainers = {str(e): [(rng.permutation(n_patches), rng.permutation(12))] for e in range(9)}
    n_states = count_states(explainers)
    kept = rng.random((n_states, n_patches)) < 0.5, rng.random((n_states, 12)) < 0.5
    first = rng.standard_normal((n_patches + 12, WIDTH), dtype=np.float32) / np.sqrt(n_patches + 12)
    layers = rng.standard_normal((DEPTH, WIDTH, WIDTH), dtype=np.float32) / np.sqrt(WIDTH)

    def batch(kept: np.ndarray) -> np.ndarray:
        hidden = kept @ first
        for layer in layers:
            hidden = np.tanh(hidden @ layer)
        return hidden[:, 0].astype(np.float64)

    def game(patches: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        both = np.concatenate([patches, tokens], axis=1)
        return np.concatenate([batch(both[i : i + 64]) for i in range(0, len(both), 64)])

    return lambda: explain_many(game, explainers), lambda: game(*kept)


def make_mixed(n_rows: int) -> tuple[Run, Run]:
    """The default model of nine methods on 3 models and 3 datasets, beside the library `mixedlm`."""
    from pipeline.statistics.mixed.defaults import formula_for
    from pipeline.statistics.mixed.fitting import fit

    table = _scores(n_rows)
    formula = formula_for(table, "score", "method", "sample", ["model", "dataset"], "default").formula

    def peer() -> None:
        import mixedlm

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixedlm.lmer(formula, table)

    return lambda: fit(table, formula, "method 0"), peer


def _scores(n_rows: int) -> pd.DataFrame:
    """Return scores of nine methods on the samples of 3 models x 3 datasets, with interactions."""
    rng = generator(0, "benchmark mixed", n_rows)
    shape = (max(n_rows // 81, 2), 3, 3, 9)
    sample, model, dataset, method = (axis.ravel() for axis in np.indices(shape))
    own = 0.02 * rng.standard_normal((3, 9)), 0.02 * rng.standard_normal((3, 9))
    of_sample = 0.05 * rng.standard_normal((3, shape[0]))
    score = own[0][model, method] + own[1][dataset, method] + of_sample[dataset, sample]
    columns = {"model": model, "dataset": dataset, "method": method, "sample": 3 * sample + dataset}
    named = {name: [f"{name} {code}" for code in codes] for name, codes in columns.items()}
    return pd.DataFrame(named | {"score": score + 0.1 * rng.standard_normal(len(score))})


def make_report(n_units: int) -> tuple[Run, Run]:
    """The crowd report of nine methods, beside pandas writing the same tables as plain HTML."""
    from pipeline.report.report_inputs import ReportInputs
    from pipeline.report.sweep_report import sweep_report
    from pipeline.statistics.comparison import compare

    rng = generator(0, "benchmark report", n_units)
    rows = pd.MultiIndex.from_product([range(9), range(n_units)], names=["method", "unit"]).to_frame(
        index=False
    )
    scores = rows.assign(
        method="method " + rows["method"].astype(str),
        description="text " + rows["unit"].astype(str),
        estimate=rng.normal(rows["method"] / 20, 0.1),
        **{"dataset": "shapes", "model": "net", "layer": "l1", "n_images": 10, "n_ratings": 30, "flags": ""},
    )
    scores["low"], scores["high"] = scores["estimate"] - 0.1, scores["estimate"] + 0.1
    factors = ["dataset", "model", "layer"]
    found = compare(scores, factors=factors, n_bootstrap=200)
    tables = {"scores": scores, "methods": found.methods, "pairs": found.pairs, "errors": found.errors}
    place = {name: scores[name].iloc[0] for name in factors}
    methods = scores["method"].unique()
    points: list[Mapping[str, Any]] = [{"factors": place, "explainer": name} for name in methods]
    facts = {"factors": factors, "confidence": 0.95}
    inputs = ReportInputs("crowd", "benchmark", "k000000000000", tables, facts=facts, points=points)
    return lambda: sweep_report(inputs), lambda: [table.to_html() for table in tables.values()]


CASES = {
    "scores": Case("images", "the product alone", (12_500, 25_000, 50_000), make_scores),
    "sampling": Case("images", "weighted choice", (12_500, 25_000, 50_000, 100_000), make_sampling),
    "fsyn": Case("patches", "the game alone", (16, 64, 256, 576), make_fsyn),
    "mixed": Case("rows", "mixedlm", (8_100, 24_300, 72_900, 233_280), make_mixed, largest_peer=80_000),
    "report": Case("units a method", "plain tables", (100, 300, 1_000, 3_000), make_report),
}


def growth(arguments: argparse.Namespace) -> int:
    """Print seconds, the peer's seconds, their ratio, memory at its peak and the growth of each size."""
    case = CASES[arguments.command]
    sizes = arguments.sizes or case.sizes
    print(f"{case.of:>14} {'seconds':>9} {case.beside:>18} {'ratio':>7} {'peak GB':>8}")
    ours, theirs = [], []
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            mine, peer, peak = process.submit(_measured, arguments.command, size, arguments.rounds).result()
        ours.append(mine)
        theirs.append(peer)
        print(f"{size:>14,} {mine:>9.3f} {peer:>18.3f} {mine / peer:>7.2f} {peak:>8.2f}", flush=True)
        record(arguments.record, arguments.command, case.of, size, mine, peer, case.beside)
    known = [i for i, peer in enumerate(theirs) if not math.isnan(peer)]
    grown = exponent([sizes[i] for i in known], [theirs[i] for i in known])
    print(f"growth: seconds ~ size^{exponent(sizes, ours):.2f}; {case.beside} ~ size^{grown:.2f}")
    return 0


def _measured(name: str, size: int, rounds: int) -> tuple[float, float, float]:
    """Return median seconds of ours and of the peer (NaN: left out), and GB at ours' peak above before."""
    case = CASES[name]
    ours, peer = case.make(size)
    before = resident_gb()
    with Peak() as peak:
        ours()
    runs = [ours, peer] if size <= case.largest_peer else [ours]
    medians = [statistics.median(times) for times in alternating(rounds, *runs)]
    return medians[0], [*medians, math.nan][1], peak.gb - before


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options of one case."""
    command.add_argument("--sizes", type=int, nargs="+", help="default: those of docs/benchmarks.md")
    command.add_argument("--rounds", type=int, default=3)
