"""Put the metrics of NeuronEval to its sanity tests: `python scripts/neuron_eval_table.py`.

First on units that are their concept (a = c), where the changes have closed forms; then on the
attributes of rendered shapes with noise added.
"""

import argparse
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.datasets import shapes
from pipeline.neuron_eval.columns import FloatArray
from pipeline.neuron_eval.sanity import sanity_table
from pipeline.seeds import generator

TESTS = ("missing", "extra")


def perfect(frequency: float, n_images: int, n_units: int, seed: int) -> FloatArray:
    """Return concepts (N, U), each on the same number of images, at random places."""
    held = np.arange(n_images) < round(frequency * n_images)
    drawn = [generator(seed, "perfect", frequency, u).permutation(held) for u in range(n_units)]
    return np.stack(drawn, axis=1).astype(np.float64)


def at_frequencies(arguments: argparse.Namespace) -> pd.DataFrame:
    """Return the sanity tables at a = c and alpha = f, one below the other, with a column `f`."""
    tables = []
    for f in arguments.frequencies:
        concepts = perfect(f, arguments.n_images, arguments.n_units, arguments.seed)
        tables.append(sanity_table(concepts, concepts, seed=arguments.seed, alpha=f).assign(f=f))
    return pd.concat(tables)


def on_shapes(arguments: argparse.Namespace) -> pd.DataFrame:
    """Return the sanity table of units that are an attribute of the shapes plus Gaussian noise."""
    images = pd.DataFrame({"image_id": [f"{i:06d}" for i in range(arguments.n_shapes)]})
    attributes = shapes.labels(images, Path(), seed=arguments.seed).attributes.astype(np.float64)
    noise = generator(arguments.seed, "shapes noise").normal(0, arguments.noise, attributes.shape)
    alpha = attributes.mean(axis=0)
    return sanity_table(attributes + noise, attributes, seed=arguments.seed, alpha=alpha)


def wide(tables: pd.DataFrame) -> Iterator[Sequence[str]]:
    """Yield one row a metric: its changes at each frequency, and whether it passes at all of them."""
    frequencies = list(dict.fromkeys(tables["f"]))
    yield ["metric", *(f"f = {f:g}" for f in frequencies), "passes"]
    for name, rows in tables.groupby("metric", sort=False):
        cells = [" / ".join(_change(row, test) for test in TESTS) for row in rows.to_dict("records")]
        yield [str(name), *cells, "yes" if rows["passes"].all() else "no"]


def narrow(table: pd.DataFrame) -> Iterator[Sequence[str]]:
    """Yield one row a metric: change and share of the units that fall, for both tests."""
    yield ["metric", *(f"{test}: {what}" for test in TESTS for what in ("change", "share")), "passes"]
    for row in table.to_dict("records"):
        cells = [cell for test in TESTS for cell in (_change(row, test), f"{row[f'{test}_share']:.2f}")]
        yield [str(row["metric"]), *cells, "yes" if row["passes"] else "no"]


def markdown(rows: Iterator[Sequence[str]]) -> str:
    """Return rows, the first one the heads, as a table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * (lines[0].count("|") - 1), *lines[1:]])


def _change(row: Mapping[Hashable, Any], test: str) -> str:
    undefined = f" ({row[f'{test}_n']})" if test in row["flag"] else ""
    return f"{row[f'{test}_change']:.4f}" + ("" if row[f"{test}_passes"] else "*") + undefined


def main() -> int:
    """Print both tables; with --output write their rows as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--frequencies", type=float, nargs="+", default=[0.499, 0.1, 0.01, 0.001])
    parser.add_argument("--n-images", type=int, default=100_000)
    parser.add_argument("--n-units", type=int, default=50)
    parser.add_argument("--n-shapes", type=int, default=5000, help="images of the shapes data set")
    parser.add_argument("--noise", type=float, default=0.3, help="its standard deviation, on the shapes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a CSV file for the rows of both tables")
    arguments = parser.parse_args()
    perfect_units, noisy_units = at_frequencies(arguments), on_shapes(arguments)
    print("* fails; (n) only n units have a score before and after\n")
    print(f"a = c, {arguments.n_images:,} images, {arguments.n_units} units: missing / extra\n")
    print(markdown(wide(perfect_units)))
    n_attributes = len(shapes.ATTRIBUTES)
    print(f"\nshapes, {arguments.n_shapes:,} images, {n_attributes} attributes, noise {arguments.noise:g}\n")
    print(markdown(narrow(noisy_units)))
    if arguments.output:
        both = pd.concat([perfect_units.assign(data="a = c"), noisy_units.assign(data="shapes")])
        both.to_csv(arguments.output, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
