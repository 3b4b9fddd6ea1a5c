"""What can be chosen, and what a run's config comes to."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli import cli
from pipeline.config_command import Resolved, reference_page, resolved
from pipeline.config_help import config_group, config_groups
from pipeline.plan.compose import Composer
from pipeline.plan.schema import GROUPS
from pipeline.plan.validation import Validator

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"


def assay(*arguments: str, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> str:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "160")
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == code, done.output
    return done.output


def rows_of(*points: list[str]) -> dict[str, Resolved]:
    composer, validator = Composer(CONF), Validator(ROOT)
    composed = [composer.compose(point) for point in points]
    values = [validator.validate(each.config, each.where).values for each in composed]
    return {row.key: row for row in resolved(values)}


def test_every_group_of_the_schema_that_has_choices_is_listed() -> None:
    folders = {path.name for path in CONF.iterdir() if path.is_dir()} - {"sweep"}
    assert {group.name for group in config_groups(CONF)} == folders <= set(GROUPS)


def test_every_choice_says_in_words_what_it_is() -> None:
    silent = [f"{g.name}={c.name}" for g in config_groups(CONF) for c in g.choices if len(c.words) < 5]
    assert silent == []


def test_every_group_has_one_default_and_a_stage_that_reads_it() -> None:
    for group in config_groups(CONF):
        assert sum(choice.is_default for choice in group.choices) == 1, group.name
        assert group.stages, group.name


def test_a_group_and_a_choice_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "attribution" in assay("config", monkeypatch=monkeypatch)
    shown = assay("config", "sampler", monkeypatch=monkeypatch)
    assert "mgis (default)" in shown and "sampling" in shown
    text = assay("config", "sampler", "mgis", monkeypatch=monkeypatch)
    assert text == (CONF / "sampler" / "mgis.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["config", "smapler"], "did you mean sampler"),
        (["config", "sampler", "mgsi"], "did you mean mgis"),
    ],
)
def test_a_misspelt_name_gets_the_right_one(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words in assay(*arguments, monkeypatch=monkeypatch, code=2)


def test_a_key_names_the_stages_whose_results_depend_on_it() -> None:
    rows = rows_of(["sampler.seed=3"])
    assert rows["sampler.seed"].value == 3
    assert rows["sampler.seed"].readers == ("sampling",)
    assert rows["stats.confidence"].readers == ("comparison",)
    assert rows["loader.batch_size"].readers == ("speed only",)
    assert rows["crowd.reward"].readers == rows["sae.k"].readers == ()


def test_a_key_that_only_some_points_have_is_shown_with_its_value_there() -> None:
    vlm = ["track=vlm", "attribution=rollout"], ["track=vlm", "attribution=ig"]
    rows = rows_of(*vlm)
    assert rows["attribution.n_steps"].value == 32
    assert rows["attribution.name"].varies and not rows["vlm.seed"].varies


def test_the_resolved_config_of_a_sweep_is_printed_and_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = assay("run", "sweep=vlm_demo", "--cfg", monkeypatch=monkeypatch)
    assert "attribution.name: occlusion" in printed
    assert "varies; attributions" in printed
    assert "not read by them: aggregation, crowd, dataset" in printed


def test_the_page_of_the_reference_is_what_conf_says() -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert page == reference_page(CONF), "run: assay config --markdown > docs/config.md"


def test_the_page_holds_every_file_of_conf() -> None:
    page = reference_page(CONF)
    for group in config_groups(CONF):
        for choice in group.choices:
            assert choice.path.read_text(encoding="utf-8").rstrip() in page
    assert config_group(CONF, "vlm").choice("llava").words in page
