"""Another project's tasks CSV is read whatever it calls things, or is refused by name."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.foreign.renaming import renamed, with_standard_names
from pipeline.foreign.tasks import asked_of, read_foreign
from pipeline.ingest.ingesting import ingest
from pipeline.study.asked import Input, input_id
from pipeline.study.tasks import make_inputs, make_tasks

N_IMAGES = 1000
# (method, unit, text): the drawn images and their weights; image 12 of unit 7 was drawn twice.
DRAWN = {
    ("LE", 7, "a dog, or a cat"): [("12", 0.5), ("900", 2.0), ("12", 0.5), ("3", 5.0)],
    ("INVERT", 7, 'a "red" thing'): [("12", 0.25), ("44", 1.5)],
}


def rows(first: int = 0, size: int = 3) -> list[dict[str, str]]:
    found = []
    for (method, unit, text), drawn in DRAWN.items():
        for start in range(0, len(drawn), size):
            row = {"unit": str(unit), "method": method, "description": text}
            for j in range(size):
                image, weight = drawn[start + j] if start + j < len(drawn) else ("", "")
                row |= {f"image_url{first + j}": image and f"https://example.org/{image}.jpg"}
                row |= {f"input_id{first + j}": image, f"weight{first + j}": str(weight)}
            found.append(row)
    return found


def text_of(table: list[dict[str, str]], delimiter: str = ",", end: str = "\n") -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(table[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def written(folder: Path, table: list[dict[str, str]], name: str = "tasks.csv") -> Path:
    (folder / name).write_text(text_of(table), encoding="utf-8")
    return folder / name


def renamed_rows(names: dict[str, str]) -> list[dict[str, str]]:
    def other(name: str) -> str:
        stem = name.rstrip("0123456789")
        return names.get(stem, stem + "{j}").replace("{j}", name[len(stem) :])

    return [{other(name): cell for name, cell in row.items()} for row in rows()]


@pytest.fixture
def plain(tmp_path: Path) -> pd.DataFrame:
    return read_foreign(written(tmp_path, rows()), {"n_images": N_IMAGES}).draws


def test_standard_names_need_no_mapping(plain: pd.DataFrame):
    assert [
        tuple(row) for row in plain[["method", "unit", "description", "image_id", "weight"]].to_numpy()
    ] == [(*unit, image, weight) for unit, drawn in DRAWN.items() for image, weight in drawn]
    assert plain["draw"].tolist() == [0, 1, 2, 3, 0, 1]
    assert plain["multiplicity"].tolist() == [2, 1, 2, 1, 1, 1]
    np.testing.assert_allclose(plain["q"] * plain["weight"] * N_IMAGES, 1, rtol=1e-15)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiter_line_ends_marks_and_the_first_number_do_not_matter(
    first: int, delimiter: str, end: str, encoding: str, tmp_path: Path, plain: pd.DataFrame
):
    path = tmp_path / "other.csv"
    path.write_bytes(text_of(rows(first), delimiter, end).encode(encoding))
    foreign = read_foreign(path, {"n_images": N_IMAGES})
    pd.testing.assert_frame_equal(foreign.draws, plain)
    assert {len(task) for task in foreign.asked.tasks.values()} == {3}
    assert next(iter(foreign.asked.tasks.values()))[0] == input_id("12", "a dog, or a cat")


@settings(max_examples=25)
@given(order=st.permutations(list(rows()[0])))
def test_the_order_of_columns_does_not_matter(order: list[str], tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("order")
    shuffled = written(folder, [{name: row[name] for name in order} for row in rows()], "shuffled.csv")
    expected = read_foreign(written(folder, rows()))
    found = read_foreign(shuffled)
    pd.testing.assert_frame_equal(found.draws, expected.draws)
    assert found.asked == expected.asked


def test_slots_go_by_number_not_by_spelling(tmp_path: Path):
    table = [{"unit": "1", "method": "m", "description": "d"}]
    table[0] |= {f"input_id{j}": f"image {j}" for j in (10, 2, 1, 11)} | {
        f"weight{j}": "1" for j in (1, 2, 10, 11)
    }
    foreign = read_foreign(written(tmp_path, table))
    assert foreign.draws["image_id"].tolist() == ["image 1", "image 2", "image 10", "image 11"]
    (task,) = foreign.asked.tasks.values()
    assert [bool(slot) for slot in task] == [True, True, *[False] * 7, True, True]


def test_images_keep_their_names_and_repeats_are_asked_once(tmp_path: Path):
    asked = asked_of(written(tmp_path, rows()))
    assert set(asked.inputs.values()) == {
        Input(image, text) for (_, _, text), drawn in DRAWN.items() for image, _ in drawn
    }
    assert len(asked.inputs) == 5


OTHER = {
    "input_id": "idx_{j}_of_image",
    "image_url": "u{j}",
    "weight": "p_over_q_{j}",
    "unit": "Neuron ID",
    "method": "who",
    "description": "Label",
}


def test_other_names_are_mapped_by_a_yaml(tmp_path: Path, plain: pd.DataFrame):
    (tmp_path / "names.yaml").write_text(
        "# how they call things\nfirst_unit: 1\nn_images: 1000\n"
        + "".join(f"{ours}: {theirs!r}\n" for ours, theirs in OTHER.items())
    )
    foreign = read_foreign(written(tmp_path, renamed_rows(OTHER)), tmp_path / "names.yaml")
    pd.testing.assert_frame_equal(foreign.draws, plain.assign(unit=plain["unit"] - 1))
    assert foreign.columns["idx_2_of_image"] == "input_id2"
    assert foreign.columns["Label"] == "description"


@pytest.mark.parametrize(("unit", "description"), [("neuron", "explanation"), ("neuron_id", "concept")])
def test_usual_names_of_unit_and_text_are_known(
    unit: str, description: str, tmp_path: Path, plain: pd.DataFrame
):
    path = written(tmp_path, renamed_rows({"unit": unit, "description": description}), "other.csv")
    pd.testing.assert_frame_equal(read_foreign(path, {"n_images": N_IMAGES}).draws, plain)


@pytest.mark.parametrize(
    ("weight_is", "given"),
    [("p/q", lambda w: w), ("q", lambda w: 1 / (N_IMAGES * w)), ("1/q", lambda w: N_IMAGES * w)],
)
def test_weights_may_be_q_or_its_inverse(weight_is: str, given: Any, tmp_path: Path, plain: pd.DataFrame):
    table = [
        {name: repr(given(float(cell))) if "weight" in name and cell else cell for name, cell in row.items()}
        for row in rows()
    ]
    draws = read_foreign(written(tmp_path, table), {"weight_is": weight_is, "n_images": N_IMAGES}).draws
    np.testing.assert_allclose(draws[["q", "weight"]], plain[["q", "weight"]], rtol=1e-14)


def test_without_weights_images_were_drawn_uniformly_only_if_the_mapping_says_so(tmp_path: Path):
    table = [{name: cell for name, cell in row.items() if "weight" not in name} for row in rows()]
    path = written(tmp_path, table)
    with pytest.raises(AssayError, match=r"no column for weight \(weight\{j\}\); it has unit, method, desc"):
        read_foreign(path)
    assert len(asked_of(path).inputs) == 5
    assert set(read_foreign(path, {"weight": None, "weight_is": "q"}).draws["weight"]) == {1.0}


def test_each_method_may_have_weight_columns_of_its_own(tmp_path: Path, plain: pd.DataFrame):
    by_method = []
    for row in rows():
        own = {name.replace("weight", f"w_{row['method']}_"): cell for name, cell in row.items()}
        blank = {f"w_{method}_{j}": "" for method in ("LE", "INVERT") for j in range(3)}
        by_method.append(blank | own)
    names = [*by_method[0], *(name for name in by_method[1] if name not in by_method[0])]
    path = written(tmp_path, [{name: row.get(name, "") for name in names} for row in by_method])
    mapping = {"weight": {"LE": "w_LE_{j}", "INVERT": "w_INVERT_{j}"}, "n_images": N_IMAGES}
    pd.testing.assert_frame_equal(read_foreign(path, mapping).draws, plain)
    with pytest.raises(AssayError, match=r"weight is by method, has LE, not INVERT"):
        read_foreign(path, {"weight": {"LE": "w_LE_{j}"}})


def test_a_count_of_draws_stands_for_repeats(tmp_path: Path):
    table = [{"unit": "1", "method": "m", "description": "d", "input_id0": "a", "weight0": "0.5", "n0": "3"}]
    draws = read_foreign(written(tmp_path, table), {"multiplicity": "n{j}"}).draws
    assert draws["image_id"].tolist() == ["a"] * 3
    assert draws["multiplicity"].tolist() == [3] * 3


def test_our_own_tasks_are_read_as_drawn(tmp_path: Path):
    """Two methods share a text and images; checks were not drawn."""
    rng = np.random.default_rng(0)
    frames = []
    for method, unit in [("one", 4), ("two", 9)]:
        images = rng.choice(30, size=40)
        table = pd.DataFrame({"image_id": [f"i{i}" for i in images], "weight": 0.5 + images * (unit / 100)})
        table["multiplicity"] = table.groupby("image_id")["weight"].transform("size")
        frames.append(
            table.assign(draw=range(40), method=method, unit=unit, description="red; round", part="p")
        )
    drawn = pd.concat(frames, ignore_index=True)
    checks = pd.DataFrame([("never", "red; round", "yes")], columns=["image_id", "description", "answer"])
    tasks = make_tasks(make_inputs(drawn, checks), drawn, {}, "own", 15, 0)
    tasks.to_csv(tmp_path / "tasks.csv", index=False)
    found = read_foreign(tmp_path / "tasks.csv", {"n_images": 30}).draws
    keys = ["method", "unit", "description", "image_id"]
    columns = [*keys, "weight", "multiplicity"]
    drawn["image_id"] = [input_id(image, "red; round") for image in drawn["image_id"]]
    expected = drawn[columns].sort_values(keys, ignore_index=True)
    ours = found[columns].sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(ours, expected, check_dtype=False, rtol=1e-9)


def broken(place: int, **cells: str) -> list[dict[str, str]]:
    table = rows()
    table[place] |= cells
    return table


@pytest.mark.parametrize(
    ("table", "mapping", "message"),
    [
        (broken(1, unit="three"), {}, r"tasks.csv, line 3, column 'unit': 'three' is no unit"),
        (broken(0, unit="0"), {"first_unit": 1}, r"line 2, column 'unit': '0' is no unit.* from 1 on"),
        (broken(0, unit="1.5"), {}, r"'1.5' is no unit"),
        (broken(0, method=""), {}, r"line 2, column 'method': blank"),
        (broken(0, description=""), {}, r"line 2, column 'description': blank"),
        (broken(0, weight1="heavy"), {}, r"line 2, column 'weight1': 'heavy' is no number"),
        (broken(0, weight1="nan"), {}, r"'nan' is no number"),
        (broken(0, weight1="0"), {}, r"line 2: the weight of '900' is 0"),
        (broken(0, weight1="-1"), {}, r"line 2: the weight of '900' is -1"),
        (broken(0, weight2="0.4"), {}, r"image '12' has two values of weight for unit 7 of LE"),
        (rows(), {"unit": "neuron"}, r"no column for unit \(neuron\); it has unit, method, description"),
        (rows(), {"activation": "act{j}"}, r"no column for activation \(act\{j\}\)"),
        (rows(), {"activation": "weight"}, r"activation is 'weight'; it needs one \{j\}"),
        (rows(), {"unit": None}, r"unit is None; it must be the name of a column"),
        (rows(), {"weights": "weight{j}"}, r"unknown key 'weights'; known are input_id, image_url, weight"),
        (rows(), {"weight_is": "w"}, r"weight_is is 'w'; known are p/q, q, 1/q"),
        (rows(), {"n_images": 0}, r"n_images is 0; it must be a whole number from 1 on"),
        (rows(), {"one_based_slots": "maybe"}, r"one_based_slots is 'maybe'"),
        (rows(), {"multiplicity": "weight{j}"}, r"'multiplicity of slot 0': 0.5 is no number of draws"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    table: list[dict[str, str]], mapping: dict[str, Any], message: str, tmp_path: Path
):
    with pytest.raises(AssayError, match=message):
        read_foreign(written(tmp_path, table), mapping)


def test_a_drawn_input_without_activation_is_refused(tmp_path: Path):
    table = [row | {f"act{j}": "1.5" for j in range(3)} for row in rows()]
    table[0]["act1"] = ""
    with pytest.raises(AssayError, match=r"line 2, column 'act1': no number for the drawn input of slot 1"):
        read_foreign(written(tmp_path, table), {"activation": "act{j}"})


def test_weights_that_cannot_be_what_the_mapping_says_are_refused(tmp_path: Path):
    row = {"unit": "1", "method": "m", "description": "d"}
    row |= {f"input_id{j}": str(j) for j in range(120)} | {f"weight{j}": "0.002" for j in range(120)}
    path = written(tmp_path, [row])
    with pytest.raises(
        AssayError, match=r"have mean 1, and these have 0.002 \(weight_is: p/q, n_images: 500\)"
    ):
        read_foreign(path, {"n_images": 500})
    assert read_foreign(path, {"n_images": 500, "weight_is": "q"}).draws[
        "weight"
    ].to_numpy() == pytest.approx(1)


@pytest.mark.parametrize(
    "data", [b"", b"unit,method\n", b"unit,unit\n1,2\n", b"a,b\n1,2,3\n", b"\xff\x00\xfe"]
)
def test_what_is_no_table_of_tasks_is_refused_by_name(data: bytes, tmp_path: Path):
    (tmp_path / "tasks.csv").write_bytes(data)
    with pytest.raises(AssayError, match=r"tasks\.csv"):
        read_foreign(tmp_path / "tasks.csv")
    with pytest.raises(AssayError, match="no such tasks CSV"):
        read_foreign(tmp_path / "none.csv")


def results(names: dict[str, str], answer: str, first: int = 0) -> list[dict[str, str]]:
    """Three workers' rows on every task: yes to images above 10, but for the third worker."""
    found = []
    for number, row in enumerate(renamed_rows(names) if names else rows(first)):
        ids = list(rows(first)[number].values())[4::3]
        for worker in range(3):
            echoed = {f"Input.{name}": cell for name, cell in row.items()}
            given = {"HITId": f"h{number}", "AssignmentId": f"a{number}.{worker}", "WorkerId": f"w{worker}"}
            said = {
                answer.replace("{j}", str(first + j)): str(worker < 2 and image == "900").upper()
                for j, image in enumerate(ids)
                if image
            }
            found.append(given | {"AssignmentStatus": "Approved", "RejectionTime": ""} | echoed | said)
    names_of_all = list(dict.fromkeys(name for row in found for name in row))
    return [{name: row.get(name, "") for name in names_of_all} for row in found]


def test_results_under_other_names_are_ingested_as_under_standard_names(tmp_path: Path):
    mapping = {**OTHER, "answer": "box_{j}"}
    foreign = read_foreign(written(tmp_path, renamed_rows(OTHER), "theirs.csv"), mapping)
    theirs = written(tmp_path, results(OTHER, "Answer.box_{j}.on"), "results.csv")
    (known,) = with_standard_names([theirs], foreign.columns, foreign.answer, tmp_path / "known")
    (tmp_path / "plain").mkdir()
    plain = written(tmp_path / "plain", results({}, "Answer.image{j}.on"), "results.csv")
    found, expected = ingest([known], foreign.asked, n_raters=3), ingest([plain], foreign.asked, n_raters=3)
    pd.testing.assert_frame_equal(found.ratings, expected.ratings)
    pd.testing.assert_frame_equal(found.rejected, expected.rejected)
    assert len(found.ratings) == 15
    assert set(found.ratings.loc[found.ratings["rating"], "image_id"]) == {"900"}


def test_results_under_standard_names_are_left_where_they_are(tmp_path: Path):
    foreign = read_foreign(written(tmp_path, rows()))
    plain = written(tmp_path, results({}, "Answer.image{j}.on"), "results.csv")
    junk = tmp_path / "junk.pdf"
    junk.write_bytes(b"%PDF\xff\xfe")
    assert with_standard_names([plain, junk], foreign.columns, foreign.answer, tmp_path / "n") == [
        plain,
        junk,
    ]


def test_a_column_with_a_standard_name_and_another_meaning_gets_out_of_the_way(tmp_path: Path):
    table = [
        row | {"Label": row["description"], "description": "HIT text", "task_id": "own"} for row in rows()
    ]
    foreign = read_foreign(written(tmp_path, table), {"description": "Label"})
    header = ["Input.description", "Input.Label", "Input.task_id", "Answer.image0.on"]
    found = renamed(",".join(header) + "\n1,2,3,4\n", foreign.columns, foreign.answer)
    assert (
        found == "Input.other_description,Input.description,Input.other_task_id,Answer.image0.on\n1,2,3,4\n"
    )


def test_renaming_moves_no_row_to_another_line():
    text = '\n"Input.Label",WorkerId,"a\nb"\n1,"x\ny",2\n\n3,4,5\n'
    found = renamed(text, {"Label": "description"}, "image{j}")
    assert found is not None
    assert "Input.description" in found
    assert found.split("\n")[3:] == text.split("\n")[3:]


def test_rows_without_inputs_are_joined_where_the_tasks_tell_their_hits(tmp_path: Path):
    told = written(tmp_path, [row | {"HITId": f"h{i}"} for i, row in enumerate(rows())])
    foreign = read_foreign(told)
    whole = results({}, "Answer.image{j}.on")
    bare = [{name: c for name, c in row.items() if not name.startswith("Input.")} for row in whole]
    found = ingest(
        [written(tmp_path, bare, "bare.csv")], foreign.asked, n_raters=3, keep_hit_ids=foreign.hit_ids
    )
    expected = ingest([written(tmp_path, whole, "whole.csv")], foreign.asked, n_raters=3)
    columns = ["worker", "image_id", "description", "rating"]
    pd.testing.assert_frame_equal(found.ratings[columns], expected.ratings[columns])
