"""Draw RCE against evaluations, and error against raters: `python scripts/paper_simulation.py --output DIR`.

Synthetic worlds of 50,000 images need nothing; `--sweep NAME` adds the images of a sweep that has been run
(sweep=paper_simulation), whose attributes are the truth.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.report.simulation_figure import draw_curves, draw_errors_by_raters
from pipeline.simulation.by_raters import errors_by_raters, errors_by_source
from pipeline.simulation.curves import (
    BUDGETS,
    OURS,
    PAPER,
    PAPER_NEEDS,
    PAPER_TARGET,
    images_of,
    needed_table,
    rce_at,
    rce_curves,
)
from pipeline.simulation.worlds import CALIBRATIONS, Pair, synthetic_world, world_of_arrays
from pipeline.stages.scoring import truths
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import layer_array, read_array, read_table

RATERS = ("symmetric", "asymmetric")
STUDY = 540
"""Evaluations of the paper's study: 180 inputs x 3 raters."""
PAPER_STUDY = PAPER_NEEDS[PAPER[-1].name]


def main() -> int:
    """Print the tables as Markdown; write them as CSV and the figures as PNG and SVG."""
    arguments = _arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    curves = pd.concat(_curves(arguments), ignore_index=True)
    _save(curves, arguments.output / "curves.csv")
    for world, part in curves.groupby("world", sort=False):
        _print_world(str(world), part)
        draw_curves(part, arguments.output / f"curves_{str(world).replace(' ', '_')}")
    errors = pd.concat([errors_by_raters(raters, seed=arguments.seed) for raters in RATERS])
    sources = pd.concat([errors_by_source(raters, seed=arguments.seed) for raters in RATERS])
    _save(errors, arguments.output / "errors_by_raters.csv")
    draw_errors_by_raters(errors, arguments.output / "errors_by_raters")
    wide = errors.pivot_table(index=["raters", "n_raters"], columns="aggregation", values="brier")
    print("\n## Brier score x 1000, by raters an input\n")
    print((1000 * wide).round(1).to_markdown())
    print("\n## Brier score and share wrong, three raters, by where the error rate comes from\n")
    print(sources.round(4).to_markdown(index=False))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/simulation"))
    parser.add_argument("--pairs", type=int, default=90, help="pairs of each synthetic world; 0: none")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sweep", action="append", default=[], help="a sweep that has been run; repeatable")
    parser.add_argument("--root", type=Path, default=Path(), help="the project")
    return parser.parse_args()


def _curves(arguments: argparse.Namespace) -> Iterator[pd.DataFrame]:
    synthetic = CALIBRATIONS if arguments.pairs else ()
    worlds: dict[str, Iterator[Pair]] = {
        f"synthetic {name}": synthetic_world(arguments.pairs, arguments.seed, name) for name in synthetic
    }
    for sweep in arguments.sweep:
        worlds |= _of_sweep(arguments.root, sweep)
    for name, world in worlds.items():
        images = images_of(world)
        for raters in RATERS:
            options: dict[str, Any] = {"n_repeats": arguments.repeats, "processes": arguments.processes}
            found = rce_curves(
                images, (*PAPER, *OURS), raters, budgets=BUDGETS, seed=arguments.seed, **options
            )
            yield found.assign(world=name, n_pairs=len(images.rho))


def _of_sweep(root: Path, sweep: str) -> dict[str, Iterator[Pair]]:
    path = root / "results" / "sweeps" / sweep / "latest" / "points.csv"
    if not path.is_file():
        raise AssayError(f"{path} is not there; run it first: assay run sweep={sweep}")
    points = pd.read_csv(path, dtype=str, keep_default_na=False)
    points = points.loc[points["probabilities_key"] != ""].drop_duplicates("explanations_key")
    return {str(name): _pairs(root, rows) for name, rows in points.groupby("dataset", sort=False)}


def _pairs(root: Path, points: pd.DataFrame) -> Iterator[Pair]:
    for point in points.to_dict("records"):
        folders = {
            stage: root / "results" / stage / str(point[f"{stage}_key"])
            for stage in ("splits", "activations", "explanations", "probabilities", "labels")
        }
        rows = rows_of_split(folders["splits"], "test", "evaluation.split")
        table = read_table(folders["explanations"] / "explanations.parquet")
        texts = read_table(folders["probabilities"] / "texts.parquet")["description"].tolist()
        known = table[table["description"].isin(texts)]
        pairs = [
            (int(unit), texts.index(text))
            for unit, text in zip(known["unit"], known["description"], strict=True)
        ]
        yield from world_of_arrays(
            np.asarray(layer_array(folders["activations"])[rows]),
            np.asarray(read_array(folders["probabilities"] / "probabilities.npy")[rows]),
            truths(folders["labels"], texts)[rows],
            pairs,
        )


def _print_world(world: str, part: pd.DataFrame) -> None:
    n_pairs = int(part["n_pairs"].iloc[0])
    print(f"\n## {world}: {n_pairs} pairs\n")
    at = part[part["evaluations"] == STUDY].pivot_table(index="combination", columns="raters", values="rce")
    print(f"RCE at {STUDY} evaluations:\n")
    print(at.loc[part["combination"].drop_duplicates(), list(RATERS)].round(3).to_markdown())
    print(f"\nEvaluations for an RCE of {PAPER_TARGET:.1%} (nan: not reached; {BUDGETS[0]}: at most that):\n")
    print(needed_table(part, PAPER_TARGET).round(1).to_markdown(index=False))
    print(f"\nEvaluations for the RCE that {PAPER[-1].name} has at {PAPER_STUDY}:")
    for raters, own in part.groupby("raters", sort=False):
        line = own[own["combination"] == PAPER[-1].name]
        target = rce_at(line["evaluations"].tolist(), line["rce"].tolist(), PAPER_STUDY)
        print(f"\n{raters}, {target:.1%}:\n")
        print(needed_table(own, target).drop(columns="paper").round(1).to_markdown(index=False))


def _save(table: pd.DataFrame, path: Path) -> None:
    with replacing(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.6g")


if __name__ == "__main__":
    raise SystemExit(main())
