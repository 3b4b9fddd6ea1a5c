"""matching: which latents stand for which attribute, and how well they predict it on other images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pipeline.files import write_json
from pipeline.matching.matching import Matching
from pipeline.matching.perturbed import latent_maxima
from pipeline.matching.registry import matcher
from pipeline.matching.scores import attribute_scores, empty_attributes
from pipeline.stages.sparse import read_codes
from pipeline.stages.split_rows import rows_of_split
from pipeline.stages.tables import read_array, read_table, write_table


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write coalitions, attributes, scores, latents (.parquet) and summary.json."""
    settings, held_out = config["matching"], config["evaluation"]["split"]
    matched_split = "train" if settings["mode"] == "corrected" else held_out
    labels = np.asarray(read_array(inputs["labels"] / "attributes.npy"))
    matched, judged = (
        rows_of_split(inputs["splits"], split, key)
        for split, key in ((matched_split, "matching: split"), (held_out, "evaluation.split"))
    )
    codes, held_codes = read_codes(inputs["latents"], matched), read_codes(inputs["latents"], judged)
    matchings = matcher(settings["name"])(
        codes, labels[matched], betas=settings["betas"], max_latents=settings["max_latents"]
    )
    sizes = list(range(1, settings["max_latents"] + 1))
    scores = [attribute_scores(matching, held_codes, labels[judged], sizes) for matching in matchings]
    reasons = [empty_attributes(matching, labels[judged]) for matching in matchings]
    headline = _headline(matchings, settings["beta"])
    table = _attributes(
        read_table(inputs["labels"] / "attributes.parquet"),
        labels[matched],
        labels[judged],
        matchings[headline],
        reasons[headline],
        scores[headline][:, settings["k"] - 1],
    )
    write_table(pd.concat(map(_coalitions, matchings, scores)), output / "coalitions.parquet")
    write_table(_scores(matchings, scores, reasons), output / "scores.parquet")
    write_table(table, output / "attributes.parquet")
    write_table(_latents(codes), output / "latents.parquet")
    write_json(output / "summary.json", _summary(table, settings, matched_split, codes, held_codes))
    return _notes(table, matched_split, held_out)


def _headline(matchings: Sequence[Matching], beta: float) -> int:
    """Return which matching is the headline's: that of its beta, or the one that knows none."""
    return next((i for i, matching in enumerate(matchings) if matching.beta == beta), 0)


def _coalitions(matching: Matching, scores: NDArray[np.float64]) -> pd.DataFrame:
    """Return a row for each latent of each coalition, with the F1 that it brought: matched and held out."""
    sizes = [len(coalition) for coalition in matching.coalitions]
    attribute = np.repeat(np.arange(len(sizes)), sizes)
    step = np.concatenate([np.arange(size) for size in sizes]) if sizes else np.array([], dtype=np.int64)
    return pd.DataFrame(
        {
            "beta": matching.beta,
            "attribute": attribute,
            "step": step + 1,
            "latent": np.concatenate([*matching.coalitions, np.array([], dtype=np.int64)]).astype(np.int64),
            "f1_train": np.concatenate([*matching.f1, np.array([])]),
            "f1": scores[attribute, step],
        }
    )


def _scores(
    matchings: Sequence[Matching],
    scores: Sequence[NDArray[np.float64]],
    reasons: Sequence[tuple[str, ...]],
) -> pd.DataFrame:
    """Return MATCHScore by beta and k: over all attributes, and over those that some latent can predict."""
    parts = []
    for matching, by_size, why in zip(matchings, scores, reasons, strict=True):
        kept = by_size[[reason == "" for reason in why]]
        parts.append(
            pd.DataFrame(
                {
                    "beta": matching.beta,
                    "k": np.arange(1, by_size.shape[1] + 1),
                    "match_score": by_size.mean(axis=0),
                    "match_score_matched": kept.mean(axis=0) if len(kept) else np.nan,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _attributes(
    names: pd.DataFrame,
    matched: NDArray[np.generic],
    judged: NDArray[np.generic],
    matching: Matching,
    reasons: Sequence[str],
    f1: NDArray[np.float64],
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "attribute": np.arange(len(names)),
            "name": names["name"].to_numpy(),
            "family": names["family"].to_numpy(),
            "n_train": matched.sum(axis=0, dtype=np.int64),
            "n_held_out": judged.sum(axis=0, dtype=np.int64),
            "reason": list(reasons),
            "n_latents": [len(coalition) for coalition in matching.coalitions],
            "f1": f1,
        }
    )


def _latents(codes: csr_array) -> pd.DataFrame:
    """Return how often each latent fires where it was matched, and its largest code there."""
    return pd.DataFrame(
        {
            "latent": np.arange(codes.shape[1]),
            "n_fires": np.bincount(codes.indices[codes.data > 0], minlength=codes.shape[1]),
            "maximum": latent_maxima(codes),
        }
    )


def _summary(
    table: pd.DataFrame, settings: dict[str, Any], split: str, codes: csr_array, held_codes: csr_array
) -> dict[str, Any]:
    kept = table.loc[table["reason"] == "", "f1"]
    fires = np.bincount(codes.indices[codes.data > 0], minlength=codes.shape[1])
    return {
        "match_score": float(table["f1"].mean()),
        "match_score_matched": float(kept.mean()) if len(kept) else None,
        "n_attributes": len(table),
        "n_empty": int((table["reason"] != "").sum()),
        "l0": float((held_codes.data > 0).sum() / held_codes.shape[0]),
        "dead_share": float((fires == 0).mean()),
        "matched_on": split,
        **{name: settings[name] for name in ("name", "mode", "k", "beta")},
    }


def _notes(table: pd.DataFrame, matched_split: str, held_out: str) -> list[str]:
    notes = []
    for reason, where in (("no positive", matched_split), ("no held-out positive", held_out)):
        names = table.loc[table["reason"] == reason, "name"].tolist()
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            notes.append(
                f"{len(names)} of {len(table)} attributes have no positive image in the split {where} "
                f"and count as 0: {shown}"
            )
    return notes
