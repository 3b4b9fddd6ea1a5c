"""What people are paid to rate outlives every key."""

from io import BytesIO

import pandas as pd
import pytest
from workflow_project import TinyProject

PEOPLE = ("crowd=files", "crowd.study=pilot")


@pytest.fixture
def frozen(copy: TinyProject) -> TinyProject:
    copy.run("study", "freeze", "pilot", "sweep=tiny")
    return copy


def give_ratings(project: TinyProject) -> None:
    """Put the simulated ratings where those of people are expected."""
    folders = (project.root / "results" / "crowd").glob("k*/ratings.parquet")
    ratings = pd.concat([pd.read_parquet(path) for path in folders])
    columns = ["image_id", "description", "worker"]
    ratings.drop_duplicates(columns).to_parquet(
        project.root / "studies" / "pilot" / "ratings.parquet", index=False
    )


def test_a_frozen_study_holds_draws_tasks_and_checksums(frozen: TinyProject) -> None:
    folder = frozen.root / "studies" / "pilot"
    study = pd.read_parquet(folder / "study.parquet")
    assert {"draw", "q", "weight", "multiplicity", "image_id", "part"} <= set(study)
    tasks = pd.read_csv(folder / "tasks.csv", keep_default_na=False)
    assert len(tasks) == len(study[["image_id", "description"]].drop_duplicates())
    checksums = pd.read_csv(folder / "images.csv", dtype=str)
    assert set(checksums["image_id"]) == set(study["image_id"])


def test_a_study_never_changes(frozen: TinyProject) -> None:
    assert "never changes" in frozen.run("study", "freeze", "pilot", "sweep=tiny", code=2)


def test_missing_ratings_are_waited_for_and_are_no_error(frozen: TinyProject) -> None:
    counts = frozen.prepare(*PEOPLE).status.counts()
    assert counts["crowd"]["waiting"] == counts["scoring"]["waiting"] == 8
    assert counts["comparison"]["waiting"] == 1
    printed = frozen.run("run", "sweep=tiny", *PEOPLE)
    assert "ratings.parquet" in printed
    assert not list((frozen.root / "results" / "comparison").glob("k*/never"))
    assert frozen.prepare(*PEOPLE).status.counts()["sampling"]["fresh"] == 8


def test_given_ratings_are_scored_as_the_simulation_was(frozen: TinyProject) -> None:
    direct = frozen.tables()["scores.csv"]
    frozen.run("run", "sweep=tiny", *PEOPLE)
    give_ratings(frozen)
    frozen.run("run", "sweep=tiny", *PEOPLE)
    assert frozen.to_run(*PEOPLE) == {}
    ours = pd.read_csv(frozen.root / "results" / "sweeps" / "tiny" / "latest" / "scores.csv")
    columns = ["layer", "method", "unit"]
    both = ours.merge(pd.read_csv(BytesIO(direct)), on=columns, suffixes=("", "_direct"))
    assert len(both) == len(ours)
    pd.testing.assert_series_equal(both["estimate"], both["estimate_direct"], check_names=False)


@pytest.mark.parametrize("change", [["sampler.seed=5"], ["scorer.epochs=3"], ["model.pool=max"]])
def test_another_sampler_or_scorer_never_redraws_a_study(frozen: TinyProject, change: list[str]) -> None:
    give_ratings(frozen)
    before = {job for job in frozen.prepare(*PEOPLE).build.jobs if job[0] in ("sampling", "crowd", "scoring")}
    after = {
        job
        for job in frozen.prepare(*PEOPLE, *change).build.jobs
        if job[0] in ("sampling", "crowd", "scoring")
    }
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
