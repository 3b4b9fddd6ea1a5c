"""`analyze` gives what the pipeline gives, to the bit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd import analyze, proposal
from pipeline.crowd.arrays import standardised
from pipeline.crowd.correlation import importance_weights
from pipeline.crowd.simulated import simulate
from pipeline.errors import AssayError
from pipeline.files import write_json
from pipeline.foreign.tasks import asked_of
from pipeline.ingest.ingesting import ingest
from pipeline.stages import scoring
from pipeline.study.frozen import FrozenStudy
from pipeline.study.settings import StudySettings
from pipeline.study.writing import Drawn, write_study

N, N_DRAWS = 60, 24
IDS = [f"im{i:02}.png" for i in range(N)]
RNG = np.random.default_rng(3)
ACTIVATIONS = RNG.random((N, 3)) ** 2
TEXTS = {"red": RNG.random(N), "a round, big thing": RNG.random(N)}
TRUTH = {text: chance > 0.6 for text, chance in TEXTS.items()}
UNITS = [("one", 0, "red"), ("one", 2, "a round, big thing"), ("two", 0, "a round, big thing")]
PART = "shapes/net/layer/{}"
AGGREGATIONS: dict[str, dict[str, Any]] = {
    "avg": {},
    "majority": {},
    "bragg_uniform": {"error_rate": 0.2, "prior": 0.1},
    "bragg_siglip": {"error_rate": 0.3},
}


def draws_of(unit: tuple[str, int, str], seed: int) -> pd.DataFrame:
    method, number, text = unit
    q = proposal(ACTIVATIONS[:, number], TEXTS[text])
    index = np.random.default_rng(seed).choice(N, size=N_DRAWS, p=q)
    counts = np.bincount(index, minlength=N)
    return pd.DataFrame(
        {
            "draw": np.arange(N_DRAWS),
            "method": method,
            "unit": number,
            "description": text,
            "image_id": np.array(IDS)[index],
            "activation": standardised(ACTIVATIONS[:, number])[index],
            "probability": TEXTS[text][index],
            "q": q[index],
            "weight": importance_weights(q[index], N),
            "multiplicity": counts[index],
            "flags": "",
        }
    )


def make_study(folder: Path, parts: dict[tuple[str, int, str], str]) -> FrozenStudy:
    draws = pd.concat([draws_of(unit, i).assign(part=part) for i, (unit, part) in enumerate(parts.items())])
    undrawn = pd.DataFrame({"method": ["one"], "unit": [1], "reason": "none", "part": PART.format("one")})
    facts = {part: {"n_images": N, "split": "all"} for part in parts.values()}
    images = pd.DataFrame({"image_id": IDS, "checksum": [f"{i:064x}" for i in range(N)], "path": IDS})
    images = images.assign(source="root", member="", root="/nowhere", synset="")
    checks = pd.DataFrame([(IDS[0], "red", "yes")], columns=["image_id", "description", "answer"])
    checks = checks[~checks["image_id"].isin(draws.loc[draws["description"] == "red", "image_id"])]
    folder.mkdir()
    drawn = Drawn(draws.reset_index(drop=True), undrawn, pd.DataFrame(), facts, images, checks)
    write_study(drawn, StudySettings(inputs_per_task=7), folder, folder.name)
    return FrozenStudy(folder)


def write_results(study: FrozenStudy, path: Path, *, echoed: bool = True) -> None:
    """Write an MTurk results file of three simulated raters a task."""
    asked = study.asked
    inputs = [asked.inputs[key] for slots in asked.tasks.values() for key in slots if key]
    truth = [TRUTH[i.description][IDS.index(i.image_id)] for i in inputs]
    pairs = pd.DataFrame(
        {"image_id": [i.image_id for i in inputs], "description": [i.description for i in inputs]}
    )
    ratings = simulate(pairs.assign(truth=truth), n_raters=3, miss=0.2, false_alarm=0.1, seed=5)
    said = ratings.set_index(["image_id", "description", "worker"])["rating"]
    rows = []
    for number, task in enumerate(study.tasks.to_dict("records")):
        for worker in ("rater1", "rater2", "rater3"):
            row = {"HITId": f"h{number}", "AssignmentId": f"{number} {worker}", "WorkerId": worker}
            row |= {"AssignmentStatus": "Submitted", "RejectionTime": ""}
            row |= {f"Input.{name}": cell for name, cell in task.items()} if echoed else {}
            for j, key in enumerate(asked.tasks[task["task_id"]]):
                if key:
                    one = asked.inputs[key]
                    row[f"Answer.image{j}.on"] = str(said[one.image_id, one.description, worker]).lower()
            rows.append(row)
    pd.DataFrame(rows).to_csv(path, index=False)


def staged(study: FrozenStudy, results: Path, part: str, aggregation: str, folder: Path) -> dict[Any, float]:
    """Return what the scoring stage writes for a part, by method and unit."""
    for name in ("sampling", "crowd", "out"):
        (folder / name).mkdir(parents=True)
    own = study.draws[study.draws["part"] == part].drop(columns="part").reset_index(drop=True)
    own.to_parquet(folder / "sampling" / "study.parquet")
    undrawn = pd.read_parquet(study.folder / "undrawn.parquet")
    undrawn[undrawn["part"] == part].to_parquet(folder / "sampling" / "undrawn.parquet")
    write_json(folder / "sampling" / "facts.json", {"n_images": N})
    ratings = ingest([results], study.asked, n_raters=3).ratings
    ratings.merge(own[["image_id", "description"]].drop_duplicates()).to_parquet(
        folder / "crowd/ratings.parquet"
    )
    config = {
        "scoring": {"name": "crowd"},
        "aggregation": {"name": aggregation, **AGGREGATIONS[aggregation]},
        "estimator": {"name": "importance"},
        "crowd": {},
    }
    inputs = {"sampling": folder / "sampling", "crowd": folder / "crowd"}
    scoring.run(config, inputs, folder / "out")
    table = pd.read_parquet(folder / "out" / "scoring.parquet")
    return {(row.method, row.unit): row.estimate for row in table.itertuples()}


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> FrozenStudy:
    folder = tmp_path_factory.mktemp("studies")
    study = make_study(folder / "pilot", {unit: PART.format(unit[0]) for unit in UNITS})
    write_results(study, folder / "results.csv")
    return study


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_scores_equal_those_of_the_scoring_stage_exactly(
    aggregation: str, pilot: FrozenStudy, tmp_path: Path
):
    results = pilot.folder.parent / "results.csv"
    scores = analyze(str(results), str(pilot.folder), aggregation, **AGGREGATIONS[aggregation])
    flat = {(method, unit): score for method, units in scores.items() for unit, score in units.items()}
    expected: dict[Any, float] = {}
    for method in ("one", "two"):
        expected |= staged(pilot, results, PART.format(method), aggregation, tmp_path / method)
    assert expected.keys() == {("one", 0), ("one", 1), ("one", 2), ("two", 0)}
    assert flat.keys() == expected.keys()
    for key, score in expected.items():
        assert np.array_equal(flat[key], score, equal_nan=True)
    assert np.isnan(flat["one", 1])
    assert np.isfinite([flat["one", 0], flat["one", 2], flat["two", 0]]).all()


def test_aggregations_differ_and_the_error_rate_counts(pilot: FrozenStudy):
    results = pilot.folder.parent / "results.csv"
    scores = {name: analyze(results, pilot.folder, name)["one"][0] for name in AGGREGATIONS}
    assert len(set(scores.values())) == 4
    assert analyze(results, pilot.folder)["one"][0] == scores["bragg_siglip"]
    assert analyze(results, pilot.folder, error_rate=0.4)["one"][0] != scores["bragg_siglip"]


def test_several_files_are_read_together_and_twice_is_once(pilot: FrozenStudy, tmp_path: Path):
    results = pilot.folder.parent / "results.csv"
    table = pd.read_csv(results, dtype=str, keep_default_na=False)
    table[::2].to_csv(tmp_path / "even.csv", index=False)
    table[1::2].to_csv(tmp_path / "odd.csv", index=False)
    whole = analyze(results, pilot.folder)
    assert str(analyze([tmp_path / "odd.csv", tmp_path / "even.csv", results], pilot.folder)) == str(whole)


def test_rows_without_inputs_are_joined_by_the_published_hits(pilot: FrozenStudy, tmp_path: Path):
    write_results(pilot, tmp_path / "bare.csv", echoed=False)
    hits = {
        task: {"hit_id": f"h{i}", "hit_type_id": "t", "created": "", "group": ""}
        for i, task in enumerate(pilot.tasks["task_id"])
    }
    write_json(pilot.folder / "mturk.json", {"sandbox": hits})
    try:
        bare = analyze(tmp_path / "bare.csv", pilot.folder)
    finally:
        (pilot.folder / "mturk.json").unlink()
    assert str(bare) == str(analyze(pilot.folder.parent / "results.csv", pilot.folder))


def test_two_parts_with_one_unit_must_be_told_apart(tmp_path: Path):
    unit = ("one", 0, "red")
    other = ("one", 0, "a round, big thing")
    study = make_study(tmp_path / "both", {unit: "shapes/net/a/one", other: "shapes/net/b/one"})
    write_results(study, tmp_path / "results.csv")
    with pytest.raises(AssayError, match=r"unit 0 of one is in two parts .*part='shapes/net/a/one' or part="):
        analyze(tmp_path / "results.csv", study.folder)
    for part in ("shapes/net/a/one", "shapes/net/b/one"):
        expected = staged(study, tmp_path / "results.csv", part, "bragg_siglip", tmp_path / part)
        scores = analyze(tmp_path / "results.csv", study.folder, error_rate=0.3, part=part)
        assert scores["one"][0] == expected["one", 0]
    with pytest.raises(AssayError, match=r"has no part 'c'; it has shapes/net/a/one, shapes/net/b/one"):
        analyze(tmp_path / "results.csv", study.folder, part="c")


def foreign_tasks(draws: pd.DataFrame, size: int = 5) -> pd.DataFrame:
    """Return tasks with the names that a stranger may give, a row a task, repeats listed again."""
    rows = []
    for (method, unit, text), own in draws.groupby(["method", "unit", "description"], sort=False):
        for start in range(0, len(own), size):
            row = {"explainer": method, "neuron": unit + 1, "concept": text}
            for j, one in enumerate(own[start : start + size].itertuples(), start=1):
                row |= {f"img{j}": one.image_id, f"q{j}": repr(one.q), f"act{j}": repr(one.activation)}
                row |= {f"siglip{j}": repr(one.probability)}
            rows.append(row)
    return pd.DataFrame(rows).fillna("")


MAPPING = {
    "input_id": "img{j}",
    "weight": "q{j}",
    "weight_is": "q",
    "activation": "act{j}",
    "probability": "siglip{j}",
    "method": "explainer",
    "first_unit": 1,
    "n_images": N,
}


def test_a_tasks_csv_of_others_is_scored_alike(pilot: FrozenStudy, tmp_path: Path):
    tasks = foreign_tasks(pilot.draws)
    tasks.to_csv(tmp_path / "tasks.csv", index=False)
    ratings = ingest([pilot.folder.parent / "results.csv"], pilot.asked, n_raters=3).ratings
    ratings.to_csv(
        tmp_path / "long.csv", index=False, columns=["worker", "image_id", "description", "rating"]
    )
    for aggregation in AGGREGATIONS:
        expected = analyze(pilot.folder.parent / "results.csv", pilot.folder, aggregation)
        found = analyze(tmp_path / "long.csv", tmp_path / "tasks.csv", aggregation, mapping=MAPPING)
        assert found["two"][0] == pytest.approx(expected["two"][0], rel=1e-12)
        assert found["one"] == pytest.approx({u: s for u, s in expected["one"].items() if u != 1}, rel=1e-12)


def test_what_a_score_needs_is_asked_for(pilot: FrozenStudy, tmp_path: Path):
    results = pilot.folder.parent / "results.csv"
    foreign_tasks(pilot.draws).to_csv(tmp_path / "tasks.csv", index=False)
    without = MAPPING | {"activation": None}
    with pytest.raises(AssayError, match=r"tasks.csv has no activations .*standardised over all images"):
        analyze(results, tmp_path / "tasks.csv", mapping=without)
    with pytest.raises(AssayError, match="bragg_siglip needs the scorer's probability of each input"):
        analyze(results, tmp_path / "tasks.csv", mapping=MAPPING | {"probability": None})
    with pytest.raises(AssayError, match="a study of assay's own"):
        analyze(results, pilot.folder, mapping=MAPPING)
    with pytest.raises(AssayError, match="unknown aggregation 'mean'; known: avg, majority"):
        analyze(results, pilot.folder, "mean")


def test_a_unit_with_two_texts_has_no_single_score(pilot: FrozenStudy, tmp_path: Path):
    draws = pilot.draws.assign(unit=0)
    foreign_tasks(draws).to_csv(tmp_path / "tasks.csv", index=False)
    with pytest.raises(AssayError, match="unit 0 of one has two texts, 'red' and 'a round, big thing'"):
        analyze(pilot.folder.parent / "results.csv", tmp_path / "tasks.csv", mapping=MAPPING)


def test_the_crowd_package_stays_light():
    code = "import sys, pipeline.crowd; print(sorted(m for m in sys.modules if m.startswith('pipeline.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for package in ("pipeline.study", "pipeline.ingest", "pipeline.mturk", "pipeline.datasets"):
        assert package not in loaded


def test_what_a_folder_and_its_tasks_file_ask_is_the_same_but_for_names(pilot: FrozenStudy):
    assert asked_of(pilot.folder) == pilot.asked
    by_file = asked_of(pilot.folder / "tasks.csv")
    assert {one.image_id for one in by_file.inputs.values()} == set(pilot.asked.inputs)
