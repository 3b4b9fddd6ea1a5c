"""A key names a result: equal things, equal keys; anything else, another key."""

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.files import canonical
from pipeline.plan.accepted import Acceptance, Accepted
from pipeline.plan.compose import Composer
from pipeline.plan.keys import Slicer, make_key
from pipeline.plan.memory import Memory
from pipeline.plan.stages import ROUTES, STAGES, SWEEP_ENDS, UNITS, _needed, stage_for, stages_of
from pipeline.plan.sweep import expand_sweep
from pipeline.plan.validation import Validator

ROOT = Path(__file__).parents[2]

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def key(slice_, **changes):
    parts = {
        "stage": "units",
        "inputs": {"a": "k1"},
        "code": {"m": "1"},
        "libraries": {"l": "1"},
        "files": {},
    }
    parts |= changes
    return make_key(
        parts["stage"], slice_, parts["inputs"], parts["code"], parts["libraries"], parts["files"]
    )


@given(plain)
def test_a_key_is_a_k_and_twelve_hex_digits_and_depends_on_values_alone(value):
    assert re.fullmatch("k[0-9a-f]{12}", key(value))
    assert key(value) == key(value)


@given(plain, plain)
def test_other_slices_have_other_keys(one, other):
    assert (key(one) == key(other)) == (canonical(one) == canonical(other))


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "crowd"},
        {"inputs": {"a": "k2"}},
        {"inputs": {"b": "k1"}},
        {"code": {"m": "2"}},
        {"libraries": {"l": "2"}},
        {"files": {"f": "1"}},
    ],
)
def test_stage_inputs_code_libraries_and_files_are_part_of_a_key(change):
    assert key({}) != key({}, **change)


def test_the_order_of_a_sweeps_points_is_not():
    assert key({}, inputs={"s": ["k1", "k2"]}) == key({}, inputs={"s": ["k2", "k1"]})


def test_a_key_never_changes_between_versions_of_this_code():
    assert key({"a": 1, "b": [1.5, "x"]}) == "k40c1bac42a95"


def test_an_accepted_version_counts_as_the_oldest_of_its_class(tmp_path):
    accepted = Accepted(tmp_path / "accepted.json")
    accepted.add([Acceptance("units", "code", "m", "v1", "v2"), Acceptance("units", "code", "m", "v2", "v3")])
    again = Accepted(tmp_path / "accepted.json")
    assert [again.oldest("units", "code", "m", v) for v in ("v1", "v2", "v3", "v4")] == [
        "v1",
        "v1",
        "v1",
        "v4",
    ]
    assert again.oldest("crowd", "code", "m", "v3") == "v3"
    assert again.oldest("units", "library", "m", "v3") == "v3"
    assert again.used("units", "code", "m", "v3")
    assert not again.used("units", "code", "m", "v1")


def test_accepting_a_change_and_its_way_back_is_no_endless_loop(tmp_path):
    accepted = Accepted(tmp_path / "accepted.json")
    accepted.add([Acceptance("units", "code", "m", "v1", "v2"), Acceptance("units", "code", "m", "v2", "v1")])
    assert accepted.oldest("units", "code", "m", "v2") in ("v1", "v2")


@pytest.fixture
def slicer(tmp_path):
    return Slicer(tmp_path, Memory(tmp_path / "memory.sqlite"), Accepted(tmp_path / "accepted.json"))


def test_a_target_is_hashed_by_its_code_or_version_or_refused(slicer):
    assert re.fullmatch("[0-9a-f]{12}", slicer.target("pipeline.files.sha256"))
    assert slicer.target("numpy.linalg.norm").startswith("numpy==")
    with pytest.raises(AssayError, match=r"_target_=nowhere\.thing"):
        slicer.target("nowhere.thing")


def test_every_row_of_the_stage_table_names_stages_that_are_there():
    ends = {name for stages in SWEEP_ENDS.values() for name in stages}
    for name, rows in STAGES.items():
        for row in rows:
            assert set(row.after) <= {*STAGES, UNITS}, name
            assert (row.scope == "sweep") == (name in ends)


def test_a_row_is_chosen_by_the_config():
    row = stage_for("scoring", {"scoring": {"name": "oracle"}})
    assert "labels" in row.after
    assert "crowd" in stage_for("scoring", {"scoring": {"name": "crowd"}}).after


class Recorded(dict):
    """A config that notes which of its keys are looked up."""

    def __init__(self, values, seen, prefix=""):
        super().__init__({k: Recorded(v, seen, f"{prefix}{k}.") if isinstance(v, dict) else v
                          for k, v in values.items()})  # fmt: skip
        self.seen, self.prefix = seen, prefix

    def __getitem__(self, key):
        if not isinstance(super().__getitem__(key), dict):
            self.seen.add(f"{self.prefix}{key}")
        return super().__getitem__(key)


@pytest.mark.parametrize("name", ["demo", "emoji", "sae_demo", "vlm_demo", "latents"])
def test_which_stages_a_point_has_depends_on_the_listed_keys_alone(name):
    composer, validator = Composer(ROOT / "conf"), Validator(ROOT)
    for point in expand_sweep(ROOT / "conf", name, []).points[:8]:
        composed = composer.compose(point)
        seen: set[str] = set()
        values = Recorded(validator.validate(composed.config, composed.where).values, seen)
        assert stages_of(values) == _needed(values)
        assert seen <= {".".join(steps) for steps in ROUTES}
        assert stages_of(values) is stages_of(dict(values))


@given(plain, st.dictionaries(st.text(), st.text() | st.lists(st.text(), max_size=3), max_size=3))
def test_a_key_is_of_the_canonical_text_of_all_its_parts(value, inputs):
    ordered = {name: keys if isinstance(keys, str) else sorted(keys) for name, keys in inputs.items()}
    text = canonical(["s", value, ordered, {"m": "1"}, {}, {"f": "é"}])
    expected = "k" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    assert make_key("s", value, inputs, {"m": "1"}, {}, {"f": "é"}) == expected
