"""What people are paid to rate outlives every key."""

import json
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from mturk_results import said_by, write_results
from workflow_project import TinyProject

from pipeline.rating.page import RatingPage
from pipeline.rating.store import Store
from pipeline.studies import _create, _drawn
from pipeline.study.frozen import FrozenStudy, open_study, slot_columns
from pipeline.study.settings import StudySettings
from pipeline.study.writing import Drawn, write_study

PEOPLE = ("crowd=files", "crowd.study=pilot")
RATERS = ("rater1", "rater2", "rater3")


@pytest.fixture(scope="module")
def frozen_once(built: TinyProject, tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The built sweep with a frozen study; nobody may change it."""
    project = built.copy_to(tmp_path_factory.mktemp("frozen") / "assay")
    project.run("study", "freeze", "pilot", "sweep=tiny")
    return project


@pytest.fixture
def frozen(frozen_once: TinyProject, tmp_path: Path) -> TinyProject:
    return frozen_once.copy_to(tmp_path / "assay")


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
    return project.run_here("ingest", str(path), "--study", name)


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
    assert "never changes" in frozen.run_here("study", "freeze", "pilot", "sweep=tiny", code=2)


def test_the_cost_counts_distinct_inputs_and_shows_other_budgets(frozen: TinyProject) -> None:
    printed, study = frozen.run_here("cost", "--study", "pilot"), study_of(frozen)
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
    frozen.run_here("run", "sweep=tiny", *PEOPLE)
    give_ratings(frozen)
    printed = frozen.run_here("run", "sweep=tiny", *PEOPLE)
    assert "no rating yet" not in printed
    assert "drawn with" not in printed
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


def test_a_partly_rated_study_and_other_settings_than_it_was_drawn_with_are_told(frozen: TinyProject) -> None:
    study, path = study_of(frozen), frozen.root / "some.csv"
    some = set(list(study.asked.tasks)[:5])
    asked = {key for task in some for key in study.asked.tasks[task] if key}
    write_results(study, ("w1",), lambda _, key: True if key in asked else None, path)
    frozen.run_here("ingest", str(path), "--study", "pilot")
    printed = frozen.run_here("run", "sweep=tiny", *PEOPLE, "model.pool=max", "tracking=none")
    assert "inputs have no rating yet" in printed
    assert "a preview (unrated_draws)" in printed
    assert "drawn with model.pool=avg, now max" in printed


def test_a_refactor_of_sampling_redraws_nothing(frozen: TinyProject) -> None:
    study = frozen.root / "studies" / "pilot" / "study.parquet"
    before = study.read_bytes()
    with frozen.edited("pipeline/crowd/proposal.py", "0.2", "0.25"):
        frozen.run("run", "sweep=tiny", *PEOPLE)
    assert study.read_bytes() == before


def test_an_unknown_study_is_named(copy: TinyProject) -> None:
    assert "crowd.study=nothing: no folder" in copy.run_here(
        "plan", "sweep=tiny", "crowd=files", "crowd.study=nothing", code=2
    )


METHODS = ("explainer=clip_dissect,top_concept", "layer=blocks.1", "tracking=none")


def test_an_extended_study_keeps_draws_tasks_and_ratings_and_asks_only_what_is_new(copy: TinyProject) -> None:
    copy.run_here("study", "freeze", "pilot", "sweep=tiny", *METHODS)
    give_ratings(copy)
    copy.run_here("study", "extend", "wider", "--from", "pilot", "sweep=tiny")
    old, new = study_of(copy), study_of(copy, "wider")
    assert set(old.draws["part"]) < set(new.draws["part"])
    pd.testing.assert_frame_equal(new.draws.head(len(old.draws)), old.draws)
    pd.testing.assert_series_equal(new.tasks["task_id"].head(len(old.tasks)), old.tasks["task_id"])
    asked = [cell for row in new.asked.tasks.values() for cell in row if cell]
    assert len(asked) == len(set(asked)) == len(new.inputs)
    kept = pd.read_parquet(new.folder / "ratings.parquet")
    columns = ["worker", "image_id", "description", "rating"]
    pd.testing.assert_frame_equal(kept[columns], pd.read_parquet(old.folder / "ratings.parquet")[columns])


def test_an_extended_study_can_add_units_without_redrawing(copy: TinyProject) -> None:
    """The older study asks about all units of the sweep but one, in other draws."""
    prepared = copy.prepare(*METHODS)
    drawn = _drawn(prepared)
    last = drawn.draws["unit"].max()
    fewer = drawn.draws[drawn.draws["unit"] != last].iloc[::-1].reset_index(drop=True)

    def write(small: Drawn, folder: Path) -> None:
        write_study(small, StudySettings(), folder, "pilot")

    _create(copy.root / "studies", "pilot", replace(drawn, draws=fewer), write)
    copy.run_here("study", "extend", "wider", "--from", "pilot", "sweep=tiny", *METHODS)
    old, new = study_of(copy), study_of(copy, "wider")
    pd.testing.assert_frame_equal(new.draws.head(len(old.draws)), old.draws)
    added = new.draws.iloc[len(old.draws) :]
    assert set(added["unit"]) == {last}
    assert not new.draws.duplicated(["part", "unit", "draw"]).any()


def rate_on_the_page(study: FrozenStudy, n_assignments: int) -> None:
    """Let the first rater mark the first input of some assignments."""
    with closing(Store(study.folder)) as store:
        (rater,) = store.ensure_raters(1)
        page = RatingPage(study, store)
        for _ in range(n_assignments):
            assignment = page.state(rater)["assignment"]
            page.submit(rater, assignment["id"], [assignment["inputs"][0]["id"]], 5.0)


def test_an_extension_takes_over_what_was_rated_on_the_page_however_often_it_was_exported(
    copy: TinyProject,
) -> None:
    copy.run_here("study", "freeze", "pilot", "sweep=tiny", *METHODS)
    study = study_of(copy)
    rate_on_the_page(study, 2)
    export = copy.root / "early.csv"
    copy.run_here("rate", "--study", "pilot", "--export", str(export))
    rate_on_the_page(study, 2)
    copy.run_here("ingest", str(export), "--study", "pilot")
    before = pd.read_parquet(study.folder / "ratings.parquet")
    copy.run_here("study", "extend", "wider", "--from", "pilot", "sweep=tiny")
    after = pd.read_parquet(study_of(copy, "wider").folder / "ratings.parquet")
    columns = ["worker", "image_id", "description", "rating"]
    assert len(before) > 20
    pd.testing.assert_frame_equal(after[columns], before[columns])


def test_an_extension_that_adds_nothing_is_refused(frozen: TinyProject) -> None:
    printed = frozen.run_here("study", "extend", "wider", "--from", "pilot", "sweep=tiny", code=2)
    assert "adds neither a method nor a unit" in printed
    assert not (frozen.root / "studies" / "wider").exists()


def test_another_networks_activations_extend_no_study(frozen: TinyProject) -> None:
    """As if the study had been drawn over other activations than those that are there."""
    path = frozen.root / "studies" / "pilot" / "facts.json"
    facts = json.loads(path.read_text())
    part = next(iter(facts["parts"].values()))
    part["origin"]["activations"] = {"key": "k0", "contents": "other"}
    part["settings"]["model.weights.seed"] = 7
    path.write_text(json.dumps(facts))
    printed = frozen.run_here("study", "extend", "wider", "--from", "pilot", "sweep=tiny", code=2)
    assert "activations" in printed
    assert "model.weights.seed differ" in printed


def test_a_study_that_was_edited_or_is_not_drawn_here_is_refused(frozen: TinyProject) -> None:
    printed = frozen.run_here("study", "freeze", "again", "sweep=tiny", *PEOPLE, code=2)
    assert "draws no images" in printed
    assert "is no name for a study" in frozen.run_here("study", "freeze", "../evil", "sweep=tiny", code=2)
    inputs = frozen.root / "studies" / "pilot" / "inputs.csv"
    inputs.write_text(inputs.read_text().replace("red", "blue"))
    assert "inputs.csv was edited" in frozen.run_here("cost", "--study", "pilot", code=2)


def test_points_that_ask_people_differently_are_two_studies(copy: TinyProject) -> None:
    printed = copy.run_here("study", "freeze", "two", "sweep=tiny", "crowd.n_raters=3,5", code=2)
    assert "in different ways" in printed


def test_attention_checks_are_asked_and_never_scored(copy: TinyProject) -> None:
    copy.run_here("study", "freeze", "pilot", "sweep=tiny", *METHODS)
    draws = study_of(copy).draws
    text = draws["description"].iloc[0]
    drawn = set(draws.loc[draws["description"] == text, "image_id"])
    free = sorted(set(draws["image_id"]) - drawn)[:2]
    checks = copy.root / "checks.csv"
    checks.write_text(f"image_id,description,answer\n{free[0]},{text},yes\n{free[1]},{text},no\n")
    copy.run_here("study", "freeze", "checked", "sweep=tiny", *METHODS, f"crowd.attention_checks={checks}")
    study, path = study_of(copy, "checked"), copy.root / "results.csv"
    assert (study.inputs["answer"] != "").sum() == 2
    cost = copy.run_here("cost", "--study", "checked")
    (own,) = [line for line in cost.splitlines() if line.startswith("* ")]
    assert own.split()[3] == str(len(study.tasks))
    write_results(study, ("w1",), lambda _, key: study.asked.inputs[key].answer is True, path)
    printed = copy.run_here("ingest", str(path), "--study", "checked")
    assert "attention" in printed
    ratings = pd.read_parquet(study.folder / "ratings.parquet")
    assert not set(zip(ratings["image_id"], ratings["description"], strict=True)) & {(i, text) for i in free}
