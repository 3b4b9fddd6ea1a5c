"""Rows of what was measured, kept in a CSV file, and their plot (`python scripts/benchmark.py plot FILE`)."""

import argparse
import math
from pathlib import Path
from typing import Any

import pandas as pd

COLUMNS = ["case", "of", "size", "seconds", "peer", "beside"]
COLUMNS_OF_PANELS = 4


def record(
    path: Path | None, case: str, of: str, size: int, seconds: float, peer: float = math.nan, beside: str = ""
) -> None:
    """Add a row to a CSV file, which is made where it is not there; without a path do nothing.

    peer: seconds of what it was measured beside. A row of the same case and size is replaced.
    """
    if path is None:
        return
    known = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=COLUMNS)
    known = known[(known["case"] != case) | (known["size"] != size)]
    row = dict(zip(COLUMNS, (case, of, size, seconds, peer, beside), strict=True))
    table = pd.DataFrame([*known.to_dict("records"), row], columns=COLUMNS)
    table.sort_values(["case", "size"]).to_csv(path, index=False)


def plot(arguments: argparse.Namespace) -> int:
    """Draw seconds against size, both logarithmic, a panel a case, into the file --to."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth"})
    from matplotlib import pyplot

    if arguments.record is None or not arguments.record.is_file():
        raise SystemExit(
            "give the measurements: benchmark.py --record FILE plot, after runs with --record FILE"
        )
    table = pd.read_csv(arguments.record)
    cases = list(dict.fromkeys(table["case"]))
    n_rows = math.ceil(len(cases) / COLUMNS_OF_PANELS)
    figure, axes = pyplot.subplots(
        n_rows, COLUMNS_OF_PANELS, figsize=(13, 3.1 * n_rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(cases) :]:
        axis.set_axis_off()
    for axis, case in zip(axes.flat, cases, strict=False):
        _panel(axis, case, table[table["case"] == case])
    figure.savefig(arguments.to, metadata={"Date": None})
    print(f"{arguments.to}: {len(cases)} panels")
    return 0


def _panel(axis: Any, case: str, rows: pd.DataFrame) -> None:
    from benchmark import exponent
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter, NullLocator

    power = exponent(rows["size"].tolist(), rows["seconds"].tolist())
    axis.loglog(rows["size"], rows["seconds"], "o-", color="#0b5fa5", label="assay")
    if rows["peer"].notna().any():
        axis.loglog(rows["size"], rows["peer"], "s--", color="#b45309", label=rows["beside"].iloc[0])
    axis.set_title(case if math.isnan(power) else f"{case}\nseconds ~ size^{power:.2f}", fontsize=10)
    axis.set_xlabel(rows["of"].iloc[0], fontsize=9)
    axis.set_ylabel("seconds", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.set_xticks(rows["size"].tolist())
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.legend(fontsize=8, frameon=False)
