"""A written study: what is asked stays the same wherever its images lie and whatever is added."""

import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.files import sha256
from pipeline.ingest.ingesting import ingest
from pipeline.study.frozen import FrozenStudy, open_study
from pipeline.study.settings import StudySettings
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
    return Drawn(draws, undrawn, {"d/a/l/m": {"n_images": 6, "split": "test"}}, images, checks)


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


def test_an_extension_keeps_tasks_and_asks_a_shared_pair_once(
    study: FrozenStudy, images: pd.DataFrame, tmp_path: Path
) -> None:
    more = draws_of("d/a/l/n", {1: "red", 2: "blue"}, ["im0", "im5"])
    folder = tmp_path / "studies" / "two"
    folder.mkdir()
    write_extension(drawn_of(pd.concat([study.draws, more]), images), study, folder, "two")
    wider = FrozenStudy(folder)
    pd.testing.assert_frame_equal(wider.tasks.head(len(study.tasks)), study.tasks)
    asked = [cell for row in wider.asked.tasks.values() for cell in row if cell]
    assert len(asked) == len(set(asked)) == len(wider.inputs) == len(study.inputs) + 3


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
