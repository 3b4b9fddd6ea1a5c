"""The authors' files, in the layout that they ship, are rescored as their formulas say."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd.proposal import proposal
from pipeline.errors import AssayError
from pipeline.reproduce import PAPER_COLUMN, Reproduced, reproduce

N, N_UNITS, N_DRAWS, SIZE = 90, 4, 12, 5
RNG = np.random.default_rng(11)
ACTIVATIONS = (RNG.random((N, N_UNITS)) ** 3).astype(np.float32)
TEXTS = ["a dog", 'a "big", red thing', "water"]
PROBABILITIES = RNG.random((N, len(TEXTS))).astype(np.float32)
TRUTH = PROBABILITIES > 0.7
ETA = 0.23
# (method, unit from 0, text)
UNITS = {
    "test": [("LE(SigLIP)", 0, 0), ("LE(SigLIP)", 3, 1), ("MAIA", 0, 2)],
    "large_scale": [
        ("LE(SigLIP)", 1, 2),
        ("CLIP-Dissect", 1, 0),
        ("CLIP-Dissect", 2, 1),
        ("CLIP-Dissect", 3, 0),
    ],
}
MAPPING = {"n_images": N, "first_unit": 1}

Draw = tuple[int, float]
Votes = dict[tuple[int, int], list[bool]]


def drawn(method: str, unit: int, text: int) -> list[Draw]:
    """Return images with weights p/q."""
    q = proposal(ACTIVATIONS[:, unit].astype(float), PROBABILITIES[:, text].astype(float))
    rng = np.random.default_rng([len(method), unit, text])
    return [(int(i), float(1 / N / q[i])) for i in rng.choice(N, size=N_DRAWS, p=q)]


def tasks_of(units: list[tuple[str, int, int]], first: int) -> list[dict[str, str]]:
    """Return tasks that list each drawn image once, with the number of its draws."""
    rows = []
    for method, unit, text in units:
        own = list(dict.fromkeys(drawn(method, unit, text)))
        counts = [drawn(method, unit, text).count(one) for one in own]
        for start in range(0, len(own), SIZE):
            row = {"neuron_id": str(unit + 1), "method": method, "concept": TEXTS[text]}
            for j in range(SIZE):
                here = start + j < len(own)
                image, weight = own[start + j] if here else ("", "")
                row[f"image_url{first + j}"] = f"https://example.org/{image}.jpg" if here else ""
                row[f"input_id{first + j}"] = str(image)
                row[f"weight{first + j}"] = repr(weight) if here else ""
                row[f"multiplicity{first + j}"] = str(counts[start + j]) if here else ""
            rows.append(row)
    return rows


def vote(image: int, text: int, worker: int) -> bool:
    wrong = np.random.default_rng([image, text, worker]).random() < ETA
    return bool(TRUTH[image, text] != wrong)


def results_of(tasks: list[dict[str, str]], first: int, spelled: tuple[str, str]) -> list[dict[str, str]]:
    """Return three workers' answers to each task, flattened ticks."""
    rows = []
    for number, task in enumerate(tasks):
        for worker in range(3):
            row = {
                "HITId": f"H{task['method']}{number}",
                "AssignmentId": f"A{task['method']}{number}.{worker}",
                "WorkerId": f"W{worker}",
                "AssignmentStatus": "Approved",
                "RejectionTime": "",
                "WorkTimeInSeconds": "30",
            }
            row |= {f"Input.{name}": cell for name, cell in task.items()}
            for j in range(first, first + SIZE):
                image = task[f"input_id{j}"]
                said = (
                    spelled[vote(int(image), TEXTS.index(task["concept"]), worker)] if image else spelled[0]
                )
                row[f"Answer.image{j}.on"] = said
            rows.append(row)
    return rows


def write(path: Path, rows: list[dict[str, str]], encoding: str = "utf-8", end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding=encoding, newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator=end)
        writer.writeheader()
        writer.writerows(rows)


def ship(root: Path) -> Path:
    """Write the layout: one-based slots and BOM in test, two batches and CRLF in large_scale."""
    test, large = (root / "mturk" / name for name in UNITS)
    tasks = tasks_of(UNITS["test"], first=1)
    write(test / "inputs" / "study.csv", tasks, "utf-8-sig")
    rejected = results_of(tasks, 1, ("FALSE", "TRUE"))
    rejected[4] |= {"AssignmentStatus": "Rejected", "RejectionTime": "Thu Oct 09 07:30:20 UTC 2025"}
    write(test / "outputs" / "Batch_1_batch_results.csv", rejected, "utf-8-sig")
    for name, units in [("a", UNITS["large_scale"][:2]), ("b", UNITS["large_scale"][2:])]:
        tasks = tasks_of(units, first=0)
        write(large / "inputs" / f"{name}_tasks.csv", tasks, end="\r\n")
        write(large / "outputs" / f"{name}_results.csv", results_of(tasks, 0, ("false", "true")), end="\r\n")
    return root


def prepare(folder: Path) -> Path:
    """Write arrays and the authors' folder; return the latter."""
    np.save(folder / "layer.npy", ACTIVATIONS)
    (folder / "probabilities").mkdir()
    np.save(folder / "probabilities" / "probabilities.npy", PROBABILITIES)
    pd.DataFrame({"description": TEXTS}).to_parquet(folder / "probabilities" / "texts.parquet")
    return ship(folder / "authors")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return prepare(tmp_path)


def run(root: Path, **options: Any) -> Reproduced:
    given = {"activations": root.parent / "layer.npy", "probabilities": root.parent / "probabilities"}
    return reproduce(root, **{"mapping": MAPPING, **given, **options})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    return run(prepare(tmp_path_factory.mktemp("plain")))


def literal_value(said: list[bool], aggregation: str, chance: float) -> float:
    """Return the presence of a concept as the paper defines it."""
    yes, m = sum(said), len(said)
    if aggregation == "avg":
        return yes / m
    if aggregation == "majority":
        return 1.0 if 2 * yes > m else 0.0 if 2 * yes < m else 0.5
    prior = 0.05 if aggregation == "bragg_uniform" else min(max(chance, 0.001), 0.999)
    odds = prior / (1 - prior)
    for one in said:
        odds *= (1 - ETA) / ETA if one else ETA / (1 - ETA)
    return odds / (1 + odds)


def literal_score(unit: int, text: int, draws: list[Draw], votes: Votes, aggregation: str) -> float:
    """Return mean(w abar (c - mu)) / sqrt(mean(w (c - mu)^2)), mu = mean(w c), one sum at a time."""
    column = [float(a) for a in ACTIVATIONS[:, unit]]
    mean = math.fsum(column) / N
    sd = math.sqrt(math.fsum((a - mean) ** 2 for a in column) / N)
    rated = [(i, w, votes[i, text]) for i, w in draws if votes.get((i, text))]
    c = [literal_value(said, aggregation, float(PROBABILITIES[i, text])) for i, _, said in rated]
    n = len(rated)
    mu = math.fsum(w * one for (_, w, _), one in zip(rated, c, strict=True)) / n
    var = math.fsum(w * (one - mu) ** 2 for (_, w, _), one in zip(rated, c, strict=True)) / n
    products = (w * (column[i] - mean) / sd * (one - mu) for (i, w, _), one in zip(rated, c, strict=True))
    return math.fsum(products) / n / math.sqrt(var)


def literal_votes(name: str) -> Votes:
    """Return all answers of a set but those of the rejected assignment."""
    votes: Votes = {}
    said: set[tuple[int, int, int]] = set()
    for number, task in enumerate(tasks_of(UNITS[name], first=0)):
        text = TEXTS.index(task["concept"])
        for worker in range(3):
            if name == "test" and (number, worker) == (1, 1):
                continue
            for j in range(SIZE):
                if (image := task[f"input_id{j}"]) and (int(image), text, worker) not in said:
                    said.add((int(image), text, worker))
                    votes.setdefault((int(image), text), []).append(vote(int(image), text, worker))
    return votes


def expected_scores() -> Iterator[tuple[tuple[str, str, str, int], float]]:
    for name, units in UNITS.items():
        votes = literal_votes(name)
        for aggregation in ("avg", "majority", "bragg_uniform", "bragg_siglip"):
            for method, unit, text in units:
                score = literal_score(unit, text, drawn(method, unit, text), votes, aggregation)
                yield (name, aggregation, method, unit), score


def scores_of(result: Reproduced) -> dict[tuple[str, str, str, int], float]:
    return {(r.set, r.aggregation, r.method, r.unit): r.estimate for r in result.scores.itertuples()}


def fates(result: Reproduced) -> dict[str, str]:
    return {f"{r.set}/{r.folder}/{r.file}": r.fate for r in result.files.itertuples()}


def test_every_score_is_that_of_the_papers_formulas(plain: Reproduced):
    found, expected = scores_of(plain), dict(expected_scores())
    assert found.keys() == expected.keys()
    assert len(found) == 28
    assert np.isfinite(list(expected.values())).all()
    for key, score in expected.items():
        assert found[key] == pytest.approx(score, rel=1e-9, abs=1e-12), key


def test_the_table_has_a_row_a_set_aggregation_and_method(plain: Reproduced):
    table = plain.table.set_index(["set", "aggregation", "method"])
    assert len(table) == 16
    own = [
        score
        for key, score in dict(expected_scores()).items()
        if key[:3] == ("large_scale", "avg", "CLIP-Dissect")
    ]
    row = table.loc[("large_scale", "avg", "CLIP-Dissect")]
    assert row["mean"] == pytest.approx(sum(own) / 3)
    assert (row["units"], row["unscored"]) == (3, 0)
    assert row[PAPER_COLUMN] == "0.1242 / 0.0335 ?"
    votes = literal_votes("test")
    pairs = {(i, text) for method, unit, text in UNITS["test"][:2] for i, _ in drawn(method, unit, text)}
    le = table.loc[("test", "majority", "LE(SigLIP)")]
    assert le["ratings"] == sum(len(votes[pair]) for pair in pairs)
    assert le["ratings"] + le["rejected"] == 3 * len(pairs)
    assert le["rejected"] > 0
    assert le[PAPER_COLUMN] == "0.2413 / 0.2968"


def test_every_file_is_accounted_for(root: Path):
    test, large = root / "mturk" / "test", root / "mturk" / "large_scale"
    (test / "outputs" / "photo.csv").write_bytes(b"\x89PNG\r\n\x1a\n")
    (test / "outputs" / ".DS_Store").write_bytes(b"\0")
    (test / "inputs" / "README.md").write_text("how to")
    write(large / "inputs" / "workers.csv", [{"WorkerId": "W1", "age": "30"}])
    write(
        large / "inputs" / "unrated.csv", [row | {"concept": "fog"} for row in tasks_of([("MAIA", 3, 1)], 0)]
    )
    (large / "outputs" / "again.csv").write_bytes((large / "outputs" / "a_results.csv").read_bytes())
    (large / "notes").mkdir()
    (root / "mturk" / "pilot").mkdir()
    result = run(root)
    found = fates(result)
    assert len(found) == 6 + 6
    assert "PNG image" in found["test/outputs/photo.csv"]
    assert found["test/outputs/.DS_Store"] == "not read: hidden"
    assert found["test/inputs/README.md"] == "not read: no table of tasks"
    assert found["large_scale/inputs/unrated.csv"].endswith(", 0 of them rated")
    assert found["large_scale/inputs/workers.csv"].startswith("not read: ")
    assert "it has WorkerId, age" in found["large_scale/inputs/workers.csv"]
    copies = [found[f"large_scale/outputs/{name}.csv"] for name in ("again", "a_results")]
    assert sum("the same bytes" in fate for fate in copies) == 1
    assert found["large_scale/outputs/b_results.csv"].split("; answers ")[1].startswith("b_tasks.csv (")
    assert "; answers study.csv (" in found["test/outputs/Batch_1_batch_results.csv"]
    notes = "\n".join(result.notes)
    assert f"not read: {large / 'notes'}" in notes
    assert f"not read: {root / 'mturk' / 'pilot'}" in notes
    unrated = [score for key, score in scores_of(result).items() if key[::2] == ("large_scale", "MAIA")]
    assert len(unrated) == 3
    assert np.isnan(unrated).all()
    for key, score in expected_scores():
        assert scores_of(result)[key] == pytest.approx(score, rel=1e-9, abs=1e-12)


def test_the_page_names_files_numbers_and_what_was_rejected(plain: Reproduced):
    page = plain.text()
    assert "test/outputs/Batch_1_batch_results.csv: MTurk results, CSV" in page
    assert "rejected: 5 x the assignment was rejected" in page
    assert "draws a unit (median): 12 (paper: 180)" in page
    assert "100% of draws have the weight that MG-IS gives with these arrays" in page


def test_a_missing_set_is_named_and_the_other_one_scored(root: Path):
    for path in sorted((root / "mturk" / "test").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "mturk" / "test").rmdir()
    result = run(root)
    assert set(result.table["set"]) == {"large_scale"}
    assert f"missing: {root / 'mturk' / 'test' / 'inputs'}" in result.notes
    assert f"missing: {root / 'mturk' / 'test' / 'outputs'}" in result.notes


def test_what_is_not_the_authors_folder_is_refused(tmp_path: Path):
    with pytest.raises(AssayError, match="has neither test nor large_scale"):
        reproduce(tmp_path)
    (tmp_path / "mturk" / "test" / "inputs").mkdir(parents=True)
    write(tmp_path / "mturk" / "test" / "inputs" / "x.csv", [{"a": "1"}])
    with pytest.raises(
        AssayError, match=r"(?s)nothing to score.*test/inputs/x.csv: not read.*missing: .*outputs"
    ):
        reproduce(tmp_path)


def test_without_activations_the_command_that_makes_them_is_named(root: Path):
    with pytest.raises(
        AssayError, match=r"assay run sweep=paper_crowd dataset.root=.*activations_key of .*points.csv"
    ):
        run(root, activations=None)


def test_without_probabilities_bragg_siglip_is_left_out_with_a_note(root: Path, plain: Reproduced):
    result = run(root, probabilities=None)
    assert set(result.table["aggregation"]) == {"avg", "majority", "bragg_uniform"}
    assert any("bragg_siglip leaves out 3 of 3 units" in note for note in result.notes)
    assert any("probabilities_key of" in note for note in result.notes)
    full = scores_of(plain)
    assert all(full[key] == score for key, score in scores_of(result).items())


def test_units_whose_text_has_no_probability_are_left_out_of_bragg_siglip_alone(
    root: Path, plain: Reproduced
):
    folder = root.parent / "some"
    folder.mkdir()
    np.save(folder / "probabilities.npy", PROBABILITIES[:, :1])
    pd.DataFrame({"description": TEXTS[:1]}).to_parquet(folder / "texts.parquet")
    some = scores_of(run(root, probabilities=folder))
    full = scores_of(plain)
    left_out = full.keys() - some.keys()
    assert left_out == {(s, "bragg_siglip", m, u) for s, units in UNITS.items() for m, u, t in units if t > 0}
    assert all(full[key] == score for key, score in some.items())


def test_images_are_found_by_id_or_file_name(root: Path, plain: Reproduced):
    expected = scores_of(plain)
    ids = [f"ILSVRC2012_val_{i:08}" for i in np.random.default_rng(0).permutation(N)]
    pd.DataFrame({"image_id": ids}).to_parquet(root.parent / "images.parquet")
    for path in (root / "mturk").rglob("*.csv"):
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        renamed = [
            {
                name: f"{ids[int(cell)]}.JPEG" if "input_id" in name and cell else cell
                for name, cell in row.items()
            }
            for row in rows
        ]
        write(path, renamed)
    assert scores_of(run(root, images=root.parent / "images.parquet")) == expected
    with pytest.raises(AssayError, match=r"is no row number in 0..89: give --images"):
        run(root)
    pd.DataFrame({"image_id": [*ids[1:], "other"]}).to_parquet(root.parent / "images.parquet")
    with pytest.raises(AssayError, match=r"is no image of .*images.parquet"):
        run(root, images=root.parent / "images.parquet")


def test_images_in_another_order_are_noticed(root: Path):
    np.save(root.parent / "layer.npy", ACTIVATIONS[::-1])
    assert any("may be in another order" in note for note in run(root).notes)


def test_activations_in_the_tasks_need_no_arrays(root: Path, plain: Reproduced):
    expected = scores_of(plain)
    a = ACTIVATIONS.astype(float)
    standard = (a - a.mean(axis=0)) / a.std(axis=0)
    for path in (root / "mturk").rglob("inputs/*.csv"):
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        for row in rows:
            unit, text = int(row["neuron_id"]) - 1, TEXTS.index(row["concept"])
            for name in [name for name in row if name.startswith("input_id")]:
                j, image = name[len("input_id") :], row[name]
                row[f"act{j}"] = repr(float(standard[int(image), unit])) if image else ""
                row[f"siglip{j}"] = repr(float(PROBABILITIES[int(image), text])) if image else ""
        write(path, rows)
    mapping = MAPPING | {"activation": "act{j}", "probability": "siglip{j}"}
    found = scores_of(run(root, activations=None, probabilities=None, mapping=mapping))
    assert found == pytest.approx(expected, rel=1e-9)


def test_each_layer_has_its_own_activations(root: Path, plain: Reproduced):
    np.save(root.parent / "b.npy", ACTIVATIONS[:, ::-1])
    by_file = {"b_*": root.parent / "b.npy", "*.csv": root.parent / "layer.npy"}
    result = run(root, activations=by_file, aggregations=["avg"])
    swapped = scores_of(result)
    in_b = {("large_scale", "avg", method, unit) for method, unit, _ in UNITS["large_scale"][2:]}
    assert {key for key, score in swapped.items() if score != scores_of(plain)[key]} == in_b
    assert set(result.table["part"]) == {"b_*", "*.csv"}
    with pytest.raises(
        AssayError, match=r"no activations for study.csv: no pattern of --activations fits it \(a_\*\)"
    ):
        run(root, activations={"a_*": root.parent / "layer.npy"})


def test_draws_of_two_proposals_are_not_mixed(root: Path):
    """Another file asks for the same unit and text, drawn uniformly: weights are all 1."""
    inputs = root / "mturk" / "large_scale" / "inputs"
    uniform = [
        {name: "1.0" if "weight" in name and cell else cell for name, cell in row.items()}
        for row in tasks_of(UNITS["large_scale"][2:3], 0)
    ]
    write(inputs / "uniform.csv", uniform)
    result = run(root, aggregations=["avg"])
    own = result.scores[(result.scores["method"] == "CLIP-Dissect") & (result.scores["unit"] == 2)]
    method, unit, text = UNITS["large_scale"][2]
    votes, draws = literal_votes("large_scale"), drawn(method, unit, text)
    expected = {
        "b_tasks.csv": literal_score(unit, text, draws, votes, "avg"),
        "uniform.csv": literal_score(unit, text, [(i, 1.0) for i, _ in draws], votes, "avg"),
    }
    assert dict(zip(own["part"], own["estimate"], strict=True)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (ACTIVATIONS[:-1], r"shape \(89, 4\); expected a row for each of 90 images"),
        (ACTIVATIONS[:, :2], r"has the units 0 to 1, the tasks have 3"),
        (ACTIVATIONS[:, 0], r"shape \(90,\)"),
        (ACTIVATIONS * np.nan, "hold NaN or infinity"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(array: Any, message: str, root: Path):
    np.save(root.parent / "layer.npy", array)
    with pytest.raises(AssayError, match=message):
        run(root)


def test_folders_of_results_are_taken_and_others_refused(root: Path, plain: Reproduced):
    folder = root.parent / "activations"
    folder.mkdir()
    with pytest.raises(AssayError, match=r"expected a .npy, or a folder with one; it has 0"):
        run(root, activations=folder)
    np.save(folder / "layer4.npy", ACTIVATIONS)
    assert scores_of(run(root, activations=folder)) == scores_of(plain)
    with pytest.raises(AssayError, match=r"lacks texts\.parquet"):
        run(root, probabilities=[folder])
    with pytest.raises(AssayError, match="unknown aggregation 'mean'"):
        run(root, aggregations=["mean"])
