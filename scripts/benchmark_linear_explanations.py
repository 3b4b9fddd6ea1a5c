"""What Linear Explanations cost beside their solver: `python scripts/benchmark_linear_explanations.py`.

Each size has a process of its own, for its peak memory. The design is made of a scorer's probabilities with
correlated words; each unit follows a direction of the embedding and two words. `elastic nets` is the time of
the solver alone on a design that stands ready. Seconds are the CPU's, of all threads, medians of rounds that
alternate, so that other work on the machine counts less; OMP_NUM_THREADS=1 leaves out waiting threads.
`--solvers` adds others, one call a unit on the standardised matrix, as a user would write it: scikit-learn
with and without the Gram matrix, celer and skglm where they are installed.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from benchmark import Peak, exponent

from pipeline.explainers import le_siglip
from pipeline.explainers.elastic_net import Design, elastic_nets
from pipeline.scorers.calibration import probabilities
from pipeline.seeds import generator

STRENGTH, L1_RATIO, TOLERANCE = 0.05, 0.99, 1e-6
A, B = 58.0, -0.3
FEATURES = 32
LIMIT = 3.0
UNITS_AT_ONCE = 128
SOLVERS = ("gram", "sklearn", "celer", "skglm")
Weights = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Case:
    """Embeddings of images (N, d) and words (T, d), rows of length 1, and activations (N, U)."""

    images: np.ndarray
    texts: np.ndarray
    activations: np.ndarray


@dataclass(frozen=True)
class Cost:
    """CPU seconds of explain, of its elastic nets alone and of other solvers; peak GB; weights a unit."""

    whole: float
    nets: float
    others: dict[str, float]
    gb: float
    weights: float
    objective: dict[str, float]


def make(n_images: int, n_words: int, n_units: int) -> Case:
    """Return the case of that size: words in groups of 8, units of 2 words, a direction and noise."""
    rng = generator(0, "benchmark linear explanations", n_images, n_words, n_units)
    images = _unit_rows(rng.normal(size=(n_images, FEATURES)))
    centres = rng.normal(size=(n_words // 8 + 1, FEATURES))
    own = 0.5 * rng.normal(size=(n_words, FEATURES))
    texts = _unit_rows(centres[rng.integers(len(centres), size=n_words)] + own)
    activations = np.empty((n_images, n_units), dtype=np.float32)
    for unit in range(n_units):
        follows = images @ _unit_rows(rng.normal(size=(1, FEATURES)))[0]
        shown = probabilities(images, texts[rng.choice(n_words, 2, replace=False)], A, B)
        values = 3 * follows + shown @ rng.uniform(0.2, 1, 2) + 0.3 * rng.normal(size=n_images)
        activations[:, unit] = np.maximum(values - 0.5, 0)
    return Case(images.astype(np.float32), texts.astype(np.float32), activations)


def _unit_rows(values: np.ndarray) -> np.ndarray:
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True))


def _explain(case: Case) -> object:
    words = [f"word {place}" for place in range(len(case.texts))]
    return le_siglip.explain(
        case.activations, case.images, case.texts, words, range(case.activations.shape[1]), a=A, b=B
    )


def _design(case: Case) -> tuple[Design, np.ndarray]:
    """Return 70% of the images as a design, and the standardised activations there."""
    n = int(0.7 * len(case.images))
    values = np.ascontiguousarray(probabilities(case.images[:n], case.texts, A, B).T)
    means, sds = values.mean(axis=1, dtype=np.float64), values.std(axis=1, dtype=np.float64)
    targets = case.activations[:n].astype(np.float64)
    return Design(values, means, sds), (targets - targets.mean(axis=0)) / targets.std(axis=0)


def _in_blocks(design: Design, targets: np.ndarray) -> np.ndarray:
    blocks = np.array_split(targets, range(UNITS_AT_ONCE, targets.shape[1], UNITS_AT_ONCE), axis=1)
    options = {"strength": STRENGTH, "l1_ratio": L1_RATIO}
    return np.hstack([elastic_nets(design, block, **options)[0] for block in blocks])


def solver(name: str) -> Weights:
    """Return a function of X (n, T) and targets (n, U) that calls one solver per unit."""
    if name == "gram":
        return _by_gram
    if name == "sklearn":
        from sklearn.linear_model import ElasticNet
    elif name == "celer":
        from celer import ElasticNet
    else:
        from skglm import ElasticNet
    model = ElasticNet(alpha=STRENGTH, l1_ratio=L1_RATIO, tol=TOLERANCE, fit_intercept=False)
    model.fit(np.asfortranarray(np.eye(4)), np.arange(4.0))  # compiles, where it does
    return lambda x, y: np.column_stack([model.fit(x, column).coef_.copy() for column in y.T])


def _by_gram(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import enet_path

    options = {"alphas": [STRENGTH], "l1_ratio": L1_RATIO, "tol": TOLERANCE, "check_input": False}
    gram, products = np.ascontiguousarray(x.T @ x), np.ascontiguousarray((x.T @ y).T)
    found = [
        enet_path(x, column, precompute=gram, Xy=product, **options)[1][:, 0]
        for column, product in zip(np.ascontiguousarray(y.T), products, strict=True)
    ]
    return np.column_stack(found)


def _objective(design: Design, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean over units of what is minimised."""
    loss = ((targets - design.predictions(weights)) ** 2).mean(axis=0) / 2
    penalty = L1_RATIO * np.abs(weights).sum(axis=0) + (1 - L1_RATIO) / 2 * (weights**2).sum(axis=0)
    return float((loss + STRENGTH * penalty).mean())


def measure(n_images: int, n_words: int, n_units: int, names: list[str], rounds: int) -> Cost:
    """Return the cost of one size; a first small run keeps imports out of the times."""
    _explain(make(200, 50, 2))
    case = make(n_images, n_words, n_units)
    with Peak() as peak:
        whole = [_timed(lambda: _explain(case))[0]]
    design, targets = _design(case)
    nets = []
    for _ in range(rounds):
        seconds, weights = _timed(lambda: _in_blocks(design, targets))
        nets.append(seconds)
        whole.append(_timed(lambda: _explain(case))[0])
    objectives = {"elastic nets": _objective(design, targets, weights)}
    others = {}
    if names:
        x = np.asfortranarray(design.standardised(slice(None)).T)
    for name in names:
        run = solver(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            others[name], found = _timed(lambda run=run: run(x, targets))
        objectives[name] = _objective(design, targets, found)
    return Cost(
        statistics.median(whole[1:]),
        statistics.median(nets),
        others,
        peak.gb,
        float((weights != 0).sum(axis=0).mean()),
        objectives,
    )


def _timed(run: Callable[[], object]) -> tuple[float, object]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def measured(sizes: tuple[int, int, int], names: list[str], rounds: int) -> Cost:
    """Return the cost of one size from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, *sizes, names, rounds).result()


def main() -> int:
    """Print the table and the growth; 1 where explain takes more than 3 times its elastic nets."""
    arguments = parser().parse_args()
    names = ("images", "words", "units", "explain", "nets", "ratio", "peak GB", "weights")
    print(" ".join(f"{name:>8}" for name in names))
    costs = {}
    for size in arguments.sizes:
        sizes = tuple(int(number) for number in size.split("x"))
        cost = costs[sizes] = measured(sizes, arguments.solvers, arguments.rounds)
        figures = f"{cost.whole:>8.2f} {cost.nets:>8.2f} {cost.whole / cost.nets:>8.2f} {cost.gb:>8.2f}"
        print(*(f"{number:>8}" for number in sizes), f"{figures} {cost.weights:>8.0f}", flush=True)
        for name, seconds in cost.others.items():
            more = cost.objective[name] - cost.objective["elastic nets"]
            print(f"{'':>7} {name}: {seconds:.2f} s, objective {more:+.1e}", flush=True)
    for place, axis in enumerate(("images", "words", "units")):
        _print_growth(costs, place, axis)
    worst = max(cost.whole / cost.nets for cost in costs.values())
    print(f"largest ratio {worst:.2f} (limit {LIMIT:g})")
    return 0 if worst <= LIMIT else 1


def _print_growth(costs: dict[tuple[int, ...], Cost], place: int, axis: str) -> None:
    """Print how seconds grow with one size, over the sizes that share the two others with the first."""
    first = next(iter(costs))
    others = [other for other in range(3) if other != place]
    alike = [sizes for sizes in costs if all(sizes[other] == first[other] for other in others)]
    if len(alike) > 1:
        slope = exponent([sizes[place] for sizes in alike], [costs[sizes].whole for sizes in alike])
        print(f"growth: explain seconds ~ {axis}^{slope:.2f}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(description=__doc__)
    top.add_argument(
        "--sizes",
        nargs="+",
        default=["10000x2000x32", "20000x2000x32", "10000x8000x32", "10000x2000x128"],
        help="images x words x units",
    )
    top.add_argument("--solvers", nargs="*", choices=SOLVERS, default=[])
    top.add_argument("--rounds", type=int, default=3)
    return top


if __name__ == "__main__":
    raise SystemExit(main())
