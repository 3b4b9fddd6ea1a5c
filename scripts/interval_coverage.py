"""Measure how often the recommended interval holds the truth: `python scripts/interval_coverage.py`."""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.files import replacing
from pipeline.simulation.coverage import CELLS, coverage_table
from pipeline.simulation.worlds import N_IMAGES


def main() -> int:
    """Print the table as Markdown, a row a cell and kind of raters; write it as CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="simulated pairs a cell")
    parser.add_argument("--images", type=int, default=N_IMAGES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    one = partial(_cell, arguments.pairs, arguments.seed, arguments.images)
    with ProcessPoolExecutor(arguments.processes) as pool:
        table = pd.concat(pool.map(one, range(len(CELLS))), ignore_index=True)
    if arguments.output is not None:
        with replacing(arguments.output) as temporary:
            table.to_csv(temporary, index=False, float_format="%.6g")
    print(table.round(3).to_markdown(index=False))
    return 0


def _cell(n_pairs: int, seed: int, n_images: int, number: int) -> pd.DataFrame:
    return coverage_table(n_pairs, seed, CELLS[number : number + 1], n_images)


if __name__ == "__main__":
    raise SystemExit(main())
