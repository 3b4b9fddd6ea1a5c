"""perturbation: do an attribute's latents move where it alone changes, and stay where it does not?"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import read_json, write_json
from pipeline.matching.dstay import Dstay, dstay
from pipeline.matching.perturbed import scaled_codes
from pipeline.matching.tapascore import TapaScore, tapascore
from pipeline.stages.sparse import read_codes
from pipeline.stages.tables import read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write pairs, attributes (.parquet) and summary.json: TAPAScore, its parts, and dstay."""
    pairs = read_table(inputs["pairs"] / "pairs.parquet")
    names = read_table(inputs["matching"] / "attributes.parquet")
    coalitions = read_coalitions(inputs["matching"], len(names))
    before, after = (
        read_codes(inputs["pair_latents"], pairs[side].to_numpy()) for side in ("before", "after")
    )
    sides = pairs["added"].to_numpy(), pairs["removed"].to_numpy()
    k, mode = config["matching"]["k"], config["matching"]["mode"]
    binary = tapascore(before > 0, after > 0, *sides, coalitions, k, mode=mode)
    maxima = read_table(inputs["matching"] / "latents.parquet")["maximum"].to_numpy()
    graded = tapascore(
        scaled_codes(before, maxima), scaled_codes(after, maxima), *sides, coalitions, k, mode=mode
    )
    present = np.asarray(read_array(inputs["pairs"] / "present.npy"))
    stay = dstay(before > 0, after > 0, present, *sides, coalitions, k)
    write_table(_pairs(pairs, binary, graded, stay), output / "pairs.parquet")
    write_table(_attributes(names["name"].tolist(), binary, stay), output / "attributes.parquet")
    write_json(output / "summary.json", _summary(binary, graded, stay, len(pairs), k, mode))
    return _notes(binary, len(pairs))


def read_coalitions(matching: Path, n_attributes: int) -> list[NDArray[np.int64]]:
    """Return the headline's coalitions in order of choice, from the matching stage's folder."""
    table = read_table(matching / "coalitions.parquet")
    if table["beta"].notna().any():
        table = table[table["beta"] == read_json(matching / "summary.json")["beta"]]
    by_attribute = {a: rows["latent"].to_numpy() for a, rows in table.groupby("attribute", sort=False)}
    return [by_attribute.get(a, np.array([], dtype=np.int64)) for a in range(n_attributes)]


def _pairs(pairs: pd.DataFrame, binary: TapaScore, graded: TapaScore, stay: Dstay) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **{name: pairs[name] for name in ("pair_id", "added", "removed", "family")},
            "delta_add": binary.delta_add,
            "delta_rem": binary.delta_rem,
            "graded_add": graded.delta_add,
            "graded_rem": graded.delta_rem,
            "empty_add": binary.empty_add,
            "empty_rem": binary.empty_rem,
            "dropped": binary.dropped,
            "dstay": stay.values,
            "contribution": contributions(binary.delta_add, binary.delta_rem),
        }
    )


def contributions(added: NDArray[np.float64], removed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each of P pairs gives to TAPAScore, so that their mean is the score.

    A side is weighted by P over the number of pairs that define it; where a pair has no such side it
    gives nothing there. With one side in all pairs this is the change itself.
    """
    total = np.zeros(len(added))
    for delta, sign in ((added, 1.0), (removed, -1.0)):
        defined = ~np.isnan(delta)
        if defined.any():
            total[defined] += sign * delta[defined] * len(delta) / defined.sum()
    return total


def _attributes(names: list[str], binary: TapaScore, stay: Dstay) -> pd.DataFrame:
    table = binary.per_attribute(names).rename(
        columns={"mean_add": "add", "mean_rem": "rem", "score": "tapa"}
    )
    return table.assign(n_stay=stay.n_pairs, dstay=stay.attribute_values)


def _summary(
    binary: TapaScore, graded: TapaScore, stay: Dstay, n_pairs: int, k: int, mode: str
) -> dict[str, Any]:
    numbers = {
        "score": binary.score,
        "add": binary.add,
        "rem": binary.rem,
        "macro": binary.macro,
        "graded": graded.score,
        "dstay": stay.mean,
    }
    counts = {
        "n_pairs": n_pairs,
        "n_empty": binary.n_empty,
        "n_dropped": int(binary.dropped.sum()),
        "n_without_dstay": stay.n_undefined,
    }
    return (
        {name: None if np.isnan(v) else float(v) for name, v in numbers.items()}
        | counts
        | {"k": k, "mode": mode}
    )


def _notes(binary: TapaScore, n_pairs: int) -> list[str]:
    if not binary.n_empty:
        return []
    what = f"{int(binary.dropped.sum())} of them dropped" if binary.dropped.any() else "they count as 0"
    return [f"{binary.n_empty} of {n_pairs} pairs have an attribute without latents; {what}"]
