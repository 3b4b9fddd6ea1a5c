"""A written study: what is asked stays the same wherever its images lie and whatever is added."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from pipeline.errors import AssayError
from pipeline.files import sha256
from pipeline.ingest.ingesting import ingest
from pipeline.plan.settings.crowd import FilesSettings
from pipeline.study.frozen import FrozenStudy, open_study, require_as_frozen, slot_columns
from pipeline.study.settings import StudySettings, read_settings, write_settings
from pipeline.study.writing import Drawn, write_extension, write_study, write_urls

NO_CHECKS = pd.DataFrame(columns=["image_id", "description", "answer"], dtype="str")
SETTINGS = StudySettings(inputs_per_task=3, image_base_url="https://a.example/{file}")


def draws_of(part: str, texts: dict[int, str], images: list[str]) -> pd.DataFrame:
    rows = [
        {
            "draw": draw, "method": part.split("/")[-1], "unit": unit, "description": text, "image_id": image,
            "activation": 0.5, "probability": 0.3, "q": 0.25, "weight": 1.0, "multiplicity": 1, "flags": "",
            "part": part,
        }
        for unit, text in texts.items()
        for draw, image in enumerate(images)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def images(tmp_path: Path) -> pd.DataFrame:
    """Six images in a folder of the user's."""
    rows = []
    for number in range(6):
        path = tmp_path / "own" / f"cat {number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
        rows.append(
            {
                "image_id": f"im{number}", "checksum": sha256(path), "source": "root", "path": path.name,
                "member": "", "root": str(path.parent), "synset": "",
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def drawn_of(draws: pd.DataFrame, images: pd.DataFrame, checks: pd.DataFrame = NO_CHECKS) -> Drawn:
    undrawn = pd.DataFrame({"method": [], "unit": [], "reason": [], "part": []})
    return Drawn(
        draws, undrawn, pd.DataFrame(), {"d/a/l/m": {"n_images": 6, "split": "test"}}, images, checks
    )


def written(tmp_path: Path, drawn: Drawn, name: str = "one") -> FrozenStudy:
    folder = tmp_path / "studies" / name
    folder.mkdir(parents=True)
    write_study(drawn, SETTINGS, folder, name)
    return open_study(tmp_path / "studies", name)


@pytest.fixture
def study(tmp_path: Path, images: pd.DataFrame) -> FrozenStudy:
    draws = draws_of("d/a/l/m", {1: "red", 4: 'a "b", <c>'}, ["im0", "im1", "im2", "im3"])
    return written(tmp_path, drawn_of(draws, images))


def test_only_the_images_that_are_asked_about_are_listed(study: FrozenStudy) -> None:
    assert study.images.table["image_id"].tolist() == ["im0", "im1", "im2", "im3"]
    assert "cat" not in "".join(study.images.table["url"])


def test_images_in_a_folder_of_the_users_are_not_copied_and_a_changed_one_is_named(
    study: FrozenStudy,
) -> None:
    assert not (study.folder / "images").exists()
    encoded, media_type = study.images.encoded("im0")
    assert media_type == "image/png"
    (Path(study.images.table["root"][0]) / "cat 0.png").write_bytes(encoded + b" ")
    with pytest.raises(AssayError, match="changed"):
        study.images.encoded("im0")


def test_other_addresses_change_no_task(study: FrozenStudy) -> None:
    before, asked = study.tasks, study.asked
    write_urls(study, "https://b.example/{path}")
    after = FrozenStudy(study.folder)
    assert after.asked == asked
    changed = [column for column in before if not before[column].equals(after.tasks[column])]
    assert changed == ["image_url0", "image_url1"]
    assert after.tasks["image_url0"][0].startswith("https://b.example/cat%20")
    assert after.settings.image_base_url == "https://b.example/{path}"
    data = json.loads((study.folder / "label_studio.json").read_text())[0]["data"]
    assert data["image_url"].startswith("https://b.example/cat%20")


def test_a_wrong_address_changes_nothing(study: FrozenStudy) -> None:
    before = (study.folder / "tasks.csv").read_bytes()
    with pytest.raises(AssayError, match="unknown place"):
        write_urls(study, "https://b.example/{nothing}")
    assert (study.folder / "tasks.csv").read_bytes() == before


def extended(
    study: FrozenStudy, images: pd.DataFrame, more: pd.DataFrame, checks: pd.DataFrame = NO_CHECKS
) -> FrozenStudy:
    folder = study.folder.with_name("wider")
    folder.mkdir()
    write_extension(drawn_of(pd.concat([study.draws, more]), images, checks), study, folder, "wider")
    return FrozenStudy(folder)


def asked_by(tasks: pd.DataFrame) -> pd.DataFrame:
    return tasks[["task_id", "study", "description", *slot_columns(tasks, "input_id")]]


def test_an_extension_keeps_tasks_and_asks_a_shared_pair_once(
    study: FrozenStudy, images: pd.DataFrame
) -> None:
    wider = extended(study, images, draws_of("d/a/l/n", {1: "red", 2: "blue"}, ["im0", "im5"]))
    pd.testing.assert_frame_equal(asked_by(wider.tasks.head(len(study.tasks))), asked_by(study.tasks))
    asked = [cell for row in wider.asked.tasks.values() for cell in row if cell]
    assert len(asked) == len(set(asked)) == len(wider.inputs) == len(study.inputs) + 3


def test_the_tasks_of_an_extended_study_hold_every_draw_of_every_unit(
    study: FrozenStudy, images: pd.DataFrame
) -> None:
    wider = extended(study, images, draws_of("d/a/l/n", {1: "red", 2: "blue"}, ["im0", "im5"]))
    held = set()
    for task in wider.tasks.to_dict("records"):
        users = list(zip(task["part"].split(";"), task["unit"].split(";"), strict=True))
        for j in range(SETTINGS.inputs_per_task):
            cells = task[f"weight{j}"].split(";")
            for (part, unit), cell in zip(
                users, cells if task[f"input_id{j}"] else [""] * len(users), strict=True
            ):
                if cell:
                    held.add((part, int(unit), wider.asked.inputs[task[f"input_id{j}"]].image_id))
    columns = ["part", "unit", "image_id"]
    assert held == set(wider.draws[columns].itertuples(index=False, name=None))


def test_a_check_that_is_drawn_later_becomes_an_ordinary_input(tmp_path: Path, images: pd.DataFrame) -> None:
    check = pd.DataFrame([{"image_id": "im5", "description": "red", "answer": "yes"}])
    old = written(tmp_path, drawn_of(draws_of("d/a/l/m", {1: "red"}, ["im0", "im1"]), images, check))
    wider = extended(old, images, draws_of("d/a/l/m", {2: "red"}, ["im5", "im4"]))
    answers = wider.inputs.set_index("image_id")["answer"]
    assert answers.to_dict() == {"im0": "", "im1": "", "im5": "", "im4": ""}
    assert len(wider.tasks) == len(old.tasks) + 1


def test_new_tasks_of_an_extension_hold_the_new_checks(study: FrozenStudy, images: pd.DataFrame) -> None:
    check = pd.DataFrame([{"image_id": "im4", "description": "blue", "answer": "no"}])
    wider = extended(study, images, draws_of("d/a/l/n", {2: "blue"}, ["im0", "im5"]), check)
    (last,) = wider.tasks.tail(1).to_dict("records")
    asked = [wider.asked.inputs[last[f"input_id{j}"]] for j in range(3)]
    assert sorted(one.image_id for one in asked) == ["im0", "im4", "im5"]
    assert [one.answer for one in asked if one.image_id == "im4"] == [False]


def test_an_edited_table_is_noticed_and_another_address_is_none(study: FrozenStudy) -> None:
    require_as_frozen(study)
    write_urls(study, "https://b.example/{file}")
    require_as_frozen(FrozenStudy(study.folder))
    path = study.folder / "tasks.csv"
    path.write_text(path.read_text().replace("red", "blue"))
    with pytest.raises(AssayError, match=r"tasks\.csv was edited after the study was frozen"):
        require_as_frozen(FrozenStudy(study.folder))


def test_an_edited_or_lost_population_is_noticed(tmp_path: Path, images: pd.DataFrame) -> None:
    drawn = drawn_of(draws_of("d/a/l/m", {1: "red"}, ["im0", "im1"]), images)
    known = pd.DataFrame({"part": ["d/a/l/m"], "bin": [3], "n_images": [6]})
    study = written(tmp_path, replace(drawn, population=known))
    require_as_frozen(study)
    known.assign(n_images=7).to_parquet(study.folder / "population.parquet")
    with pytest.raises(AssayError, match=r"population\.parquet was edited after the study was frozen"):
        require_as_frozen(FrozenStudy(study.folder))
    (study.folder / "population.parquet").unlink()
    with pytest.raises(AssayError, match=r"population\.parquet was edited"):
        require_as_frozen(FrozenStudy(study.folder))


def test_another_picture_under_the_same_name_is_another_input(
    tmp_path: Path, study: FrozenStudy, images: pd.DataFrame
) -> None:
    other = images.assign(checksum=[f"{number:064d}" for number in range(6)])
    again = written(tmp_path, drawn_of(study.draws, other), "again")
    assert not set(again.inputs["input_id"]) & set(study.inputs["input_id"])


def test_studies_of_one_name_are_told_apart_at_mturk(tmp_path: Path, images: pd.DataFrame) -> None:
    drawn = drawn_of(draws_of("d/a/l/m", {1: "red"}, ["im0"]), images)
    one, two = written(tmp_path / "a", drawn, "pilot"), written(tmp_path / "b", drawn, "pilot")
    assert one.tasks["task_id"][0] == two.tasks["task_id"][0]
    assert one.tasks["study"][0] != two.tasks["study"][0]


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
def test_any_text_comes_back_from_the_tables_as_it_is(images: pd.DataFrame, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = written(Path(folder), drawn_of(draws_of("d/a/l/m", {1: text}, ["im0", "im1"]), images))
        assert set(study.inputs["description"]) == set(study.tasks["description"]) == {text}
        assert len(study.inputs) == 2


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "my study", ".hidden", "x.csv", "a\nb"])
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AssayError, match="is no name for a study"):
        open_study(tmp_path, name)
    with pytest.raises(ValidationError):
        FilesSettings(name="files", study=name)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "no JSON object"), ("[1]", "no JSON object"), ('{"n_raters": "three"}', "n_raters is 'three'"),
     ('{"colour": 1}', "unknown key 'colour'")],
)  # fmt: skip
def test_settings_that_were_edited_by_hand_are_read_with_care(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(AssayError, match=message):
        read_settings(path)


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    chosen = StudySettings(n_raters=5, stop="decisive", prior=0.1, image_base_url="https://x.org")
    write_settings(tmp_path / "settings.json", chosen)
    assert read_settings(tmp_path / "settings.json") == chosen


def test_a_check_on_an_image_that_the_dataset_lacks_is_refused(tmp_path: Path, images: pd.DataFrame) -> None:
    checks = pd.DataFrame([{"image_id": "im9", "description": "red", "answer": "yes"}])
    drawn = drawn_of(draws_of("d/a/l/m", {1: "red"}, ["im0"]), images, checks)
    with pytest.raises(AssayError, match="the dataset has no image 'im9'"):
        written(tmp_path, drawn)


def test_what_label_studio_exports_for_our_tasks_is_ingested(study: FrozenStudy, tmp_path: Path) -> None:
    def choice(number: int) -> dict[str, object]:
        value = {"choices": ["yes" if number % 2 else "no"]}
        return {"from_name": "rating", "to_name": "image", "type": "choices", "value": value}

    tasks = json.loads((study.folder / "label_studio.json").read_text())
    given = {"completed_by": 7, "was_cancelled": False}
    export = [
        {"id": n, **task, "annotations": [{"id": n, **given, "result": [choice(n)]}]}
        for n, task in enumerate(tasks)
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export))
    result = ingest([path], study.asked, n_raters=3)
    columns = ["image_id", "description", "rating"]
    said = {(image, text): vote for image, text, vote in result.ratings[columns].itertuples(index=False)}
    pairs = [study.asked.inputs[task["data"]["input_id"]] for task in tasks]
    assert said == {(pair.image_id, pair.description): bool(n % 2) for n, pair in enumerate(pairs)}


def test_a_folder_that_is_no_whole_study_is_named(study: FrozenStudy) -> None:
    (study.folder / "inputs.csv").unlink()
    with pytest.raises(AssayError, match=r"lacks inputs\.csv"):
        open_study(study.folder.parent, "one")


def test_an_unknown_study_lists_those_that_are_there(study: FrozenStudy) -> None:
    with pytest.raises(AssayError, match=r"no study 'two' .* there are: one"):
        open_study(study.folder.parent, "two")
