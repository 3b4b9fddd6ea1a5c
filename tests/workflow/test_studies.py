"""What people are paid to rate outlives every key."""

import json
from io import BytesIO

import pandas as pd
import pytest
from mturk_results import said_by, write_results
from PIL import Image
from workflow_project import TinyProject

from pipeline.errors import AssayError
from pipeline.study.frozen import FrozenStudy, open_study, slot_columns

PEOPLE = ("crowd=files", "crowd.study=pilot")
RATERS = ("rater1", "rater2", "rater3")


@pytest.fixture
def frozen(copy: TinyProject) -> TinyProject:
    copy.run("study", "freeze", "pilot", "sweep=tiny")
    return copy


def study_of(project: TinyProject, name: str = "pilot") -> FrozenStudy:
    return open_study(project.root / "studies", name)


def simulated(project: TinyProject) -> pd.DataFrame:
    folders = (project.root / "results" / "crowd").glob("k*/ratings.parquet")
    ratings = pd.concat([pd.read_parquet(path) for path in folders])
    return ratings.drop_duplicates(["image_id", "description", "worker"])


def give_ratings(project: TinyProject, name: str = "pilot", workers: tuple[str, ...] = RATERS) -> str:
    """Hand in the simulated ratings as the file that MTurk gives; return what ingest prints."""
    study, path = study_of(project, name), project.root / f"results-of-{name}.csv"
    write_results(study, workers, said_by(simulated(project), study), path)
    return project.run("ingest", str(path), "--study", name)


def scores(project: TinyProject) -> pd.DataFrame:
    return pd.read_csv(project.root / "results" / "sweeps" / "tiny" / "latest" / "scores.csv")


def estimates_against(ours: pd.DataFrame, direct: bytes) -> tuple[pd.Series, pd.Series]:
    """Return both tables' estimates of the same units."""
    columns = ["layer", "method", "unit"]
    both = ours.merge(pd.read_csv(BytesIO(direct)), on=columns, suffixes=("", "_direct"))
    assert len(both) == len(ours)
    return both["estimate"], both["estimate_direct"]


def test_a_frozen_study_holds_draws_tasks_checksums_and_pages(frozen: TinyProject) -> None:
    study = study_of(frozen)
    assert {"draw", "q", "weight", "multiplicity", "image_id", "part"} <= set(study.draws)
    pairs = study.draws[["image_id", "description"]].drop_duplicates()
    asked = study.tasks[slot_columns(study.tasks, "input_id")].to_numpy().ravel()
    assert sorted(cell for cell in asked if cell) == sorted(study.inputs["input_id"])
    assert len(study.inputs) == len(pairs)
    assert set(study.images.table["image_id"]) == set(study.draws["image_id"])
    assert {"task.html", "task_plain.html", "label_studio.xml"} <= {p.name for p in study.folder.iterdir()}
    first = json.loads((study.folder / "label_studio.json").read_text())[0]["data"]
    assert first["input_id"] == study.inputs["input_id"][0]


def test_a_study_keeps_rendered_images_when_results_are_gone(frozen: TinyProject) -> None:
    study = study_of(frozen)
    image = study.inputs["image_id"][0]
    before = study.images.encoded(image)
    for folder in (frozen.root / "results" / "images").glob("k*"):
        folder.rename(folder.with_name("gone"))
    assert study_of(frozen).images.encoded(image) == before
    assert before[1] == "image/png"


def test_a_study_never_changes(frozen: TinyProject) -> None:
    assert "never changes" in frozen.run("study", "freeze", "pilot", "sweep=tiny", code=2)


def test_the_cost_counts_distinct_inputs_and_shows_other_budgets(frozen: TinyProject) -> None:
    printed, study = frozen.run("cost", "--study", "pilot"), study_of(frozen)
    assert f"{len(study.inputs)} distinct inputs" in printed
    n_assignments = 3 * len(study.tasks)
    assert f"x 3 raters = {n_assignments} assignments" in printed
    assert f"raters ${0.06 * n_assignments:.2f} ($0.06 an assignment) + MTurk's fee" in printed
    assert len([line for line in printed.splitlines() if line.startswith("* ")]) == 1


def test_missing_ratings_are_waited_for_and_are_no_error(frozen: TinyProject) -> None:
    counts = frozen.prepare(*PEOPLE).status.counts()
    assert counts["crowd"]["waiting"] == counts["scoring"]["waiting"] == 8
    assert counts["comparison"]["waiting"] == 1
    printed = frozen.run("run", "sweep=tiny", *PEOPLE)
    assert "ratings.parquet" in printed
    assert frozen.prepare(*PEOPLE).status.counts()["sampling"]["fresh"] == 8


def test_a_simulated_crowd_sent_through_an_mturk_file_scores_exactly_as_it_does_directly(
    frozen: TinyProject,
) -> None:
    direct = frozen.tables()["scores.csv"]
    frozen.run("run", "sweep=tiny", *PEOPLE)
    give_ratings(frozen)
    frozen.run("run", "sweep=tiny", *PEOPLE)
    assert frozen.to_run(*PEOPLE) == {}
    pd.testing.assert_series_equal(
        *estimates_against(scores(frozen), direct), check_names=False, check_exact=True
    )


def test_every_row_of_every_file_is_used_or_rejected_with_a_reason(frozen: TinyProject) -> None:
    printed = give_ratings(frozen)
    study = study_of(frozen)
    ratings = pd.read_parquet(study.folder / "ratings.parquet")
    assert len(ratings) == 3 * len(study.inputs)
    assert len(pd.read_parquet(study.folder / "rejected.parquet")) == 0
    assert str(len(ratings)) in printed
    twice = give_ratings(frozen)
    assert str(len(ratings)) in twice
    pd.testing.assert_frame_equal(pd.read_parquet(study.folder / "ratings.parquet"), ratings)


@pytest.mark.parametrize("change", [["sampler.seed=5"], ["scorer.epochs=3"], ["model.pool=max"]])
def test_another_sampler_or_scorer_never_redraws_a_study(frozen: TinyProject, change: list[str]) -> None:
    give_ratings(frozen)
    stages = ("sampling", "crowd", "scoring")
    before = {job for job in frozen.prepare(*PEOPLE).build.jobs if job[0] in stages}
    after = {job for job in frozen.prepare(*PEOPLE, *change).build.jobs if job[0] in stages}
    assert before == after


def test_a_refactor_of_sampling_redraws_nothing(frozen: TinyProject) -> None:
    study = frozen.root / "studies" / "pilot" / "study.parquet"
    before = study.read_bytes()
    with frozen.edited("pipeline/crowd/proposal.py", "0.2", "0.25"):
        frozen.run("run", "sweep=tiny", *PEOPLE)
    assert study.read_bytes() == before


def test_an_unknown_study_is_named(copy: TinyProject) -> None:
    assert "crowd.study=nothing: no folder" in copy.run(
        "plan", "sweep=tiny", "crowd=files", "crowd.study=nothing", code=2
    )


METHODS = ("explainer=clip_dissect,top_concept", "tracking=none")


def test_an_extended_study_keeps_draws_tasks_and_ratings_and_asks_only_what_is_new(copy: TinyProject) -> None:
    copy.run("study", "freeze", "pilot", "sweep=tiny", *METHODS)
    give_ratings(copy)
    copy.run("study", "extend", "wider", "--from", "pilot", "sweep=tiny")
    old, new = study_of(copy), study_of(copy, "wider")
    assert set(old.draws["part"]) < set(new.draws["part"])
    pd.testing.assert_frame_equal(new.draws.head(len(old.draws)), old.draws)
    pd.testing.assert_frame_equal(new.tasks.head(len(old.tasks)), old.tasks)
    asked = [cell for row in new.asked.tasks.values() for cell in row if cell]
    assert len(asked) == len(set(asked)) == len(new.inputs)
    kept = pd.read_parquet(new.folder / "ratings.parquet")
    columns = ["worker", "image_id", "description", "rating"]
    pd.testing.assert_frame_equal(kept[columns], pd.read_parquet(old.folder / "ratings.parquet")[columns])


def test_an_extended_study_can_add_units_drawn_by_another_seed_without_redrawing(copy: TinyProject) -> None:
    copy.run("study", "freeze", "pilot", "sweep=tiny", *METHODS, "unit.n=4")
    more = (*METHODS, "unit.n=6", "sampler.seed=7")
    copy.run("run", "sweep=tiny", *more)
    copy.run("study", "extend", "wider", "--from", "pilot", "sweep=tiny", *more)
    old, new = study_of(copy), study_of(copy, "wider")
    pd.testing.assert_frame_equal(new.draws.head(len(old.draws)), old.draws)
    units = new.draws.groupby("part")["unit"].nunique()
    assert (units > old.draws.groupby("part")["unit"].nunique()).any()
    assert not new.draws.duplicated(["part", "unit", "draw"]).any()


def test_an_extension_that_adds_nothing_is_refused(frozen: TinyProject) -> None:
    printed = frozen.run("study", "extend", "wider", "--from", "pilot", "sweep=tiny", code=2)
    assert "adds neither a method nor a unit" in printed
    assert not (frozen.root / "studies" / "wider").exists()


def test_points_that_ask_people_differently_are_two_studies(copy: TinyProject) -> None:
    copy.run("run", "sweep=tiny", "tracking=none", "crowd.n_raters=3,5")
    printed = copy.run("study", "freeze", "two", "sweep=tiny", "crowd.n_raters=3,5", code=2)
    assert "in different ways" in printed


def test_attention_checks_are_asked_and_never_scored(copy: TinyProject) -> None:
    copy.run("study", "freeze", "pilot", "sweep=tiny", *METHODS)
    draws = study_of(copy).draws
    text = draws["description"].iloc[0]
    drawn = set(draws.loc[draws["description"] == text, "image_id"])
    free = sorted(set(draws["image_id"]) - drawn)[:2]
    checks = copy.root / "checks.csv"
    checks.write_text(f"image_id,description,answer\n{free[0]},{text},yes\n{free[1]},{text},no\n")
    copy.run("study", "freeze", "checked", "sweep=tiny", *METHODS, f"crowd.attention_checks={checks}")
    study, path = study_of(copy, "checked"), copy.root / "results.csv"
    assert (study.inputs["answer"] != "").sum() == 2
    write_results(study, ("w1",), lambda _, key: study.asked.inputs[key].answer is True, path)
    printed = copy.run("ingest", str(path), "--study", "checked")
    assert "attention" in printed
    ratings = pd.read_parquet(study.folder / "ratings.parquet")
    assert not set(zip(ratings["image_id"], ratings["description"], strict=True)) & {(i, text) for i in free}


OWN = """
- - dataset=folder
  - model=tiny
  - scorer=tiny
  - unit.n=2
  - sampler.n_inputs=6
  - numerics.threads=1
  - explainer=random
  - layer=blocks.1
  - tracking=none
"""


def test_a_study_of_a_folder_of_images_names_the_folder_and_copies_nothing(fresh: TinyProject) -> None:
    own = fresh.root / "own"
    for number in range(40):
        path = own / ("red", "blue")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((32, 32), 20 + number).convert("RGB").save(path)
    (fresh.root / "conf" / "sweep" / "own.yaml").write_text(OWN.strip() + "\n")
    fresh.run("run", "sweep=own", f"dataset.root={own}")
    fresh.run("study", "freeze", "own", "sweep=own", f"dataset.root={own}")
    study = study_of(fresh, "own")
    assert set(study.images.table["root"]) == {str(own)}
    assert not (study.folder / "images").exists()
    encoded, media_type = study.images.encoded(study.inputs["image_id"][0])
    assert media_type == "image/png"
    changed = own / study.images.table["path"][0]
    changed.write_bytes(encoded + b" ")
    with pytest.raises(AssayError, match="changed"):
        study.images.encoded(study.images.table["image_id"][0])
