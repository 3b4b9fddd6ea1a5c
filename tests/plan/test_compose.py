"""Composing fast is composing: the same config, the same mistakes named."""

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from pipeline.errors import AssayError
from pipeline.plan.compose import Composer
from pipeline.plan.groups import GroupFiles
from pipeline.plan.sweep import PLAIN, _by_grammar, expand, expand_sweep, read_setting, replace, sweep_names
from pipeline.plan.validation import Validator

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"


def plainly(overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return OmegaConf.to_container(compose("config", overrides=list(overrides)), resolve=True)


@pytest.fixture(scope="module")
def composer():
    return Composer(CONF)


def mistake(overrides):
    with pytest.raises(AssayError) as caught:
        composed = Composer(CONF).compose(overrides)
        Validator(ROOT).validate(composed.config, composed.where)
    return str(caught.value)


IN_SECONDS = {"demo", "vlm_demo"}
"""Sweeps that Hydra composes plainly in a few seconds; the others are long tests."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in IN_SECONDS else pytest.param(name, marks=pytest.mark.long)
        for name in sweep_names(CONF)
    ],
)
def test_points_of_a_shipped_sweep_equal_plain_compose(composer, name):
    points = expand_sweep(CONF, name, []).points
    # A prime step, so that every key of a large grid varies in the sample.
    step = 1 if len(points) <= 40 else 5 if len(points) <= 100 else 37
    for point in points[::step]:
        assert composer.compose(point).config == plainly(point)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "sampler": st.sampled_from(["mgis", "uniform", "top"]),
            "sampler.n_inputs": st.integers(1, 10**6),
            "crowd.miss": st.floats(0, 1),
            "layer": st.sampled_from(["blocks.0", "'a b'", "layer4"]),
            "numerics.tf32": st.sampled_from(["true", "false", "True"]),
            "model.input_size": st.sampled_from(["null", "64"]),
            "dataset.splits": st.just("{train: 0.5}"),
            "+loader.batch_size": st.integers(1, 9),
            "explainer": st.sampled_from(["random", "top_concept"]),
        },
    )
)
@settings(max_examples=25, deadline=None)
def test_any_overrides_equal_plain_compose(composer, overrides):
    point = [f"{key}={value}" for key, value in overrides.items()]
    try:
        expected = plainly(point)
    except Exception:
        with pytest.raises(AssayError):
            composer.compose(point)
        return
    assert composer.compose(point).config == expected


GROUPS = {
    folder.name: sorted(path.stem for path in folder.glob("*.yaml"))
    for folder in sorted(CONF.iterdir())
    if folder.is_dir() and folder.name != "sweep"
}


@pytest.mark.parametrize("turn", range(max(map(len, GROUPS.values()))))
def test_every_file_of_every_group_equals_plain_compose(composer, turn):
    point = [f"{group}={options[turn % len(options)]}" for group, options in GROUPS.items()]
    expected = plainly(point)
    merged, choices = GroupFiles(CONF, lambda _, make: make()).merged(dict(text.split("=") for text in point))
    assert merged == expected
    assert list(merged) == list(expected)
    assert choices == {group: options[turn % len(options)] for group, options in GROUPS.items()}


@given(
    choices=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(all_) for name, all_ in GROUPS.items()}
    ),
    values=st.fixed_dictionaries(
        {},
        optional={
            "layer": st.sampled_from(["a.0", "'a b'", "1", "null"]),
            "device": st.sampled_from(["cpu", "cuda:1"]),
            "model.arch": st.sampled_from(["resnet18", "3", "1e3"]),
            "sae.k": st.integers(1, 64),
            "explainer.method": st.sampled_from(["a", "b c", "null"]),
            "explainer.path": st.just("texts.csv"),
            "crowd.seed": st.integers(0, 9),
            "numerics.threads": st.integers(1, 4),
            "game.blur_radius": st.sampled_from(["1", "1.5", "-2e1", "nan"]),
        },
    ),
)
@settings(max_examples=20, deadline=None)
def test_any_choice_of_groups_with_values_set_equals_plain_compose(composer, choices, values):
    point = [f"{key}={value}" for key, value in (choices | values).items()]
    try:
        expected = plainly(point)
    except Exception:
        with pytest.raises(AssayError):
            composer.compose(point)
        return
    try:
        found = composer.compose(point)
    except AssayError as error:  # a value that the point must give is missing, in both
        assert "is missing: set" in str(error)
        assert "???" in str(expected)
        return
    assert str(found.config) == str({key: expected[key] for key in found.config})
    assert found.config.keys() == expected.keys()
    assert {group: found.choices[group] for group in choices} == choices


SMALL = {
    "config": "defaults: [{a: one}, {b: one}, _self_]\ntop: 1\n",
    "a/one": "x: 1\ny: {z: 2}\n",
    "a/two": "x: 3\ny: {z: 1e-3}\n",
    "b/one": "w: null\n",
}
NOT_PLAIN = {
    "a package": {"a/two": "# @package _global_\nx: 3\n"},
    "a defaults list in a group": {"a/two": "defaults: [one]\nx: 3\n"},
    "a reference within the group": {"a/two": "x: 3\ny: {z: '${a.x}'}\n"},
    "a reference to a value above": {"a/two": "x: 3\ny: '${top}'\n", "config": SMALL["config"]},
    "an empty file": {"a/two": ""},
    "a list": {"a/two": "[1]"},
    "keys that are no text": {"a/two": "1: 2"},
    "a primary that goes over a group": {"config": SMALL["config"] + "a: {x: 7}\n"},
    "a group after the primary": {"config": "defaults: [{a: one}, _self_, {b: one}]\ntop: 1\n"},
    "a group elsewhere": {"config": "defaults: [{a@c: one}, {b: one}, _self_]\ntop: 1\n"},
    "an optional group": {"config": "defaults: [{optional a: one}, {b: one}, _self_]\ntop: 1\n"},
    "no choice": {"config": "defaults: [{a: null}, {b: one}, _self_]\ntop: 1\n"},
    "another search path": {"config": SMALL["config"] + "hydra: {searchpath: [file://elsewhere]}\n"},
}


def conf_of(folder, files):
    for name, text in (SMALL | files).items():
        (folder / f"{name}.yaml").parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_plain_tree_is_merged_without_hydra(tmp_path):
    files = GroupFiles(conf_of(tmp_path, {}), lambda _, make: make())
    config, choices = files.merged({"a": "two"})
    assert config == {"a": {"x": 3, "y": {"z": 0.001}}, "b": {"w": None}, "top": 1}
    assert choices == {"a": "two", "b": "one"}


@pytest.mark.parametrize("change", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_hydra(tmp_path, change):
    files = GroupFiles(conf_of(tmp_path, change), lambda _, make: make())
    assert files.merged({"a": "two"}) is None


def test_files_are_not_trusted_where_hydra_composes_something_else(tmp_path):
    composer = Composer(conf_of(tmp_path, {}))
    real = composer._plainly

    def with_a_plugin(overrides):
        record = json.loads(real(overrides))
        record["config"]["added"] = True
        return json.dumps(record)

    composer._plainly = with_a_plugin
    assert composer.compose(["a=two"]).config["added"] is True


@given(st.from_regex(PLAIN, fullmatch=True))
@settings(max_examples=300, deadline=None)
def test_a_plain_override_is_read_as_hydras_grammar_reads_it(text):
    found, expected = read_setting(text), _by_grammar(text)
    assert found == expected
    assert type(found.value) is type(expected.value)


def test_a_setting_that_only_other_choices_have_names_those(composer):
    message = mistake(["explainer=random", "explainer.path=x"])
    assert "explainer=random has no path; explainer=" in message
    assert "explainer=csv, " in message and "explainer=clip_dissect," not in message


def test_a_point_is_never_changed_by_the_next(composer):
    first = composer.compose(["layer=a", "dataset.splits.train=0.1"])
    composer.compose(["layer=b", "dataset.splits.train=0.2"])
    assert first.config["layer"] == "a"
    assert first.config["dataset"]["splits"]["train"] == 0.1


def test_one_and_one_point_zero_are_one_value():
    values = []
    for text in ("crowd.miss=1", "crowd.miss=1.0"):
        composed = Composer(CONF).compose([text])
        values.append(Validator(ROOT).validate(composed.config, composed.where).values["crowd"])
    assert values[0] == values[1]
    assert {type(v["miss"]) for v in values} == {float}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["sampler.n_input=3"], ["sampler.n_input=3", "sampler.n_inputs"]),
        (["sampler.n_inputs=abc"], ["sampler.n_inputs='abc'", "conf/sampler/mgis.yaml", "valid integer"]),
        (["model=resnet5"], ["conf/model/resnet5.yaml", "resnet50"]),
        (["dataset.splits.train=.9"], ["dataset.splits", "1.5", "at most 1"]),
        (["evaluation.split=all"], ["evaluation.split=all", "judge itself", "evaluation.split=test"]),
        (["explainer=top_concept", "explainer.split=all"], ["explainer.split=all", "judge itself"]),
        (["explainer=csv"], ["explainer.method", "explainer.path", "set explainer.path=..."]),
        (["crowd.miss=2"], ["crowd.miss=2", "less than or equal to 1"]),
        (["+sampler.speed=3"], ["sampler.speed", "unknown key 'speed'"]),
        (["layer"], ["'layer' is no override"]),
        (
            ["model=timm", "model.arch=a", "model.weights.tag=b", "model.weights.revision=main"],
            ["revision 'main'", "40-digit commit"],
        ),
        (["sampler.seed=${now:%S}"], ["now", "write the value itself"]),
        (["sampler.seed=${oc.env:HOME}"], ["oc.env is for paths only"]),
        (["sampler.seed=${crowd.seed}"], ["may not refer to another group"]),
    ],
)
def test_a_mistake_is_named_with_its_key_and_its_fix(overrides, words):
    message = mistake(overrides)
    assert all(word in message for word in words), message


def test_hub_weights_without_a_revision_are_a_mistake():
    message = mistake(["model=timm", "model.arch=a", "model.weights.tag=b"])
    assert "model.weights.revision" in message
    assert "missing" in message


def test_the_command_line_replaces_the_same_key_and_keeps_the_rest():
    assert replace(["a=1", "b=2,3"], ["b=4"]) == ["a=1", "b=4"]


def test_a_block_is_a_cartesian_product_by_hydras_grammar():
    assert expand(["a=1,2", "b=range(0,2)", "c=[1,2]"]) == [
        (f"a={a}", f"b={b}", "c=[1,2]") for a in (1, 2) for b in (0, 1)
    ]


def test_points_in_two_blocks_are_one_point(tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "twice.yaml").write_text("- [a=1, 'b=1,2']\n- [a=1, b=2]\n")
    assert len(expand_sweep(tmp_path, "twice", []).points) == 2


def test_an_unknown_sweep_names_the_nearest():
    with pytest.raises(AssayError, match="did you mean demo"):
        expand_sweep(CONF, "demmo", [])


def test_a_typo_in_a_setting_of_a_chosen_variant_is_named_and_not_its_group(composer):
    message = mistake(["explainer=invert", "explainer.min_fractoin=0.02"])
    assert "unknown key 'explainer.min_fractoin'; did you mean explainer.min_fraction" in message
