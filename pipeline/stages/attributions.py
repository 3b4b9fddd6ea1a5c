"""attributions: what every wanted explainer says of each sample's patches and query tokens, in one pass."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.attributions.attribution import inverted
from pipeline.attributions.plausibility import iou, pointing_chance, pointing_game
from pipeline.attributions.registry import attribution_module
from pipeline.datasets.decoding import opened_image
from pipeline.errors import AssayError
from pipeline.files import canonical, write_json
from pipeline.stages.asking import Answered, opened, read_answered, usable
from pipeline.stages.keywords import keywords
from pipeline.stages.resuming import Record, resumed
from pipeline.stages.tables import read_table, write_table

if TYPE_CHECKING:
    from pipeline.attributions.attribution import Attribution
    from pipeline.vlms.prepared import Prepared
    from pipeline.vlms.vlm import Vlm

FAILED = "failed"
MASKED = ("pointing", "pointing_chance", "iou")
Config = dict[str, Any]
Masked = tuple[NDArray[np.int64], NDArray[np.bool_]] | None


def run_together(
    configs: list[Config], inputs: dict[str, Path], outputs: list[Path], partials: list[Path]
) -> list[list[str]]:
    """Write attributions.parquet (a row a sample: scores, flags, plausibility), facts.json for each config.

    A sample that an explainer cannot explain has null scores and the flag `failed: why`; where it can explain
    none, AssayError. The configs differ in nothing but the explainer and its zero state.
    """
    samples = read_answered(configs[0], inputs["answers"])
    with opened(configs[0], inputs["vlm"]) as vlm:

        def compute(answered: Answered, jobs: list[int]) -> list[Record]:
            return _records(vlm, answered, [configs[job] for job in jobs])

        found = resumed(samples, partials, compute, "samples explained")
    masks = _masks(inputs["answers"])
    return [
        _write(config["attribution"], list(samples), records, masks, output)
        for config, records, output in zip(configs, found, outputs, strict=True)
    ]


def _records(vlm: "Vlm", answered: Answered, configs: Sequence[Config]) -> list[Record]:
    """Return the record of each config for one sample; prompt and drops of occlusion are made once."""
    prepared = answered.prepared(vlm)
    drops: dict[str, Attribution] = {}
    return [_record(vlm, answered, prepared, config, drops) for config in configs]


def _record(
    vlm: "Vlm", answered: Answered, prepared: "Prepared", config: Config, drops: "dict[str, Attribution]"
) -> Record:
    try:
        found = _attribute(vlm, answered, prepared, config, drops)
    except AssayError as error:
        # Flags are joined by semicolons; a message may hold some.
        reason = str(error).replace(";", ",")
        return {"patches": None, "tokens": None, "flags": [f"{FAILED}: {reason}"]}
    return {"patches": found.patches.tolist(), "tokens": found.tokens.tolist(), "flags": list(found.flags)}


def _attribute(
    vlm: "Vlm", answered: Answered, prepared: "Prepared", config: Config, drops: "dict[str, Attribution]"
) -> "Attribution":
    settings = {**config["attribution"], **config.get("game", {})}
    name, zero_state = settings["name"], canonical(config.get("game"))
    if name == "inverted_occlusion" and zero_state in drops:
        return inverted(drops[zero_state])
    module = attribution_module(name)
    if "game" in module.NEEDS:
        settings["game"] = answered.game(config, vlm, prepared)
    found: Attribution = module.attribute(
        vlm, prepared, answered.answer, **keywords(module.attribute, settings)
    )
    if name in ("occlusion", "inverted_occlusion"):
        drops[zero_state] = found if name == "occlusion" else inverted(found)
    return found


def _masks(answers: Path) -> list[Masked]:
    """Return the footprints (m, 4) and the mask (H, W) of each sample with an answer, None without a mask."""
    rows = usable(read_table(answers / "answers.parquet")).to_dict("records")
    return [
        (
            np.asarray(row["footprints"], dtype=np.int64).reshape(-1, 4),
            _mask(answers / "masks" / row["picture"]),
        )
        if row["has_mask"]
        else None
        for row in rows
    ]


def _mask(path: Path) -> NDArray[np.bool_]:
    with opened_image(path) as image:
        return np.asarray(image) > 0


def _write(
    settings: Config, ids: Sequence[str], records: Sequence[Record], masks: Sequence[Masked], output: Path
) -> list[str]:
    failed = [record["flags"][0] for record in records if record["patches"] is None]
    if len(failed) == len(records):
        raise AssayError(f"attribution.name={settings['name']} explains no sample; {failed[0]}")
    table = pd.DataFrame(
        {
            "sample_id": ids,
            **{name: [record[name] for record in records] for name in ("patches", "tokens")},
            "flags": [";".join(record["flags"]) for record in records],
        }
    )
    plausible = pd.DataFrame(map(_plausibility, records, masks), columns=MASKED)
    write_table(pd.concat([table, plausible], axis=1), output / "attributions.parquet")
    write_json(output / "facts.json", {"explainer": settings["name"]})
    return _notes(settings["name"], table["flags"])


def _plausibility(record: Record, masked: Masked) -> dict[str, float]:
    """Return how well the map of patches fits the object; null without a mask or a map."""
    if masked is None or record["patches"] is None:
        return dict.fromkeys(MASKED, np.nan)
    scores, (footprints, mask) = np.asarray(record["patches"]), masked
    return {
        "pointing": pointing_game(scores, footprints, mask),
        "pointing_chance": pointing_chance(footprints, mask),
        "iou": iou(scores, footprints, mask),
    }


def _notes(name: str, flags: pd.Series) -> list[str]:
    """Return a line a flag: on how many samples, and the first one's reason where there is one."""
    raised = [flag.partition(": ") for row in flags for flag in row.split(";") if flag]
    counts = Counter(flag for flag, _, _ in raised)
    first = {flag: f" (first: {reason})" if reason else "" for flag, _, reason in reversed(raised)}
    return [f"{name}: {flag} on {n} of {len(flags)} samples{first[flag]}" for flag, n in counts.items()]
