"""The code fingerprint sees every real change and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.plan import fingerprint
from pipeline.plan.fingerprint import Fingerprints, import_names, serialise
from pipeline.plan.stages import STAGES

ROOT = Path(__file__).parents[2]
GOLDEN_SOURCE = '''
"""Module docstring."""
import math  # why

def area(radius: float, *, scale=1.0) -> float:
    """Docstring."""
    if radius < 0:
        raise ValueError(f"negative {radius!r}")
    return math.pi * radius ** 2 * scale

class Shape:
    """Class docstring."""
    sides: int = 3
    names = ("a", b"b", 1, 1.5, None, True, ...)
'''
GOLDEN = "70fcbb49acd181f6"


def tree_hash(source: str) -> str:
    import hashlib

    return hashlib.sha256(serialise(ast.parse(source)).encode()).hexdigest()[:16]


def test_the_serialisation_of_a_tree_never_changes():
    assert tree_hash(GOLDEN_SOURCE) == GOLDEN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "# why\nx = 1  # one\n"),
        ("def f():\n    return 1\n", "def f():\n    'Says one.'\n    return 1\n"),
        ("class A:\n    'Old.'\n    x = 1\n", "class A:\n    'New.'\n\n    x = 1\n"),
        ("f(a, b)\n", "f(\n    a,\n    b,\n)\n"),
        ("x = 'a'\n", 'x = "a"\n'),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(before, after):
    assert tree_hash(before) == tree_hash(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "x = 2\n"),
        ("x = 1\n", "x = 1.0\n"),
        ("x = True\n", "x = 1\n"),
        ("x = 'a'\n", "x = b'a'\n"),
        ("def f(a, b): return a\n", "def f(b, a): return a\n"),
        ("def f(a): return a\n", "def f(a): return (yield a)\n"),
        ("x = a - b\n", "x = b - a\n"),
        ("def f():\n    x = 'not a docstring'\n", "def f():\n    x = 'another'\n"),
        ("if a:\n    b()\n", "if not a:\n    b()\n"),
    ],
)
def test_a_real_edit_counts(before, after):
    assert tree_hash(before) != tree_hash(after)


@given(st.text(alphabet=st.characters(exclude_characters="\r\n\\'\"\0", exclude_categories=["Cs"])))
def test_any_comment_leaves_the_hash(text):
    assert tree_hash(f"x = 1  # {text}\n".replace("\x0c", "")) == tree_hash("x = 1\n")


def test_relative_imports_are_followed():
    tree = ast.parse("from . import keys\nfrom .store import Store\nfrom ..errors import AssayError\n")
    names = {name.rsplit(":", 1)[0] for name in import_names("pipeline.plan.state", tree, False)}
    assert names == {"pipeline.plan:keys", "pipeline.plan.store:Store", "pipeline.errors:AssayError"}


def test_imports_inside_functions_are_followed():
    tree = ast.parse("def f():\n    from pipeline.files import sha256\n    return sha256\n")
    assert [name.split(":")[0] for name in import_names("pipeline.x", tree, False)] == ["pipeline.files"]


def test_a_name_from_a_package_init_is_refused(monkeypatch, tmp_path):
    package = tmp_path / "pipeline"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sub").mkdir()
    (package / "sub" / "__init__.py").write_text("from pipeline.sub.leaf import thing\n")
    (package / "sub" / "leaf.py").write_text("thing = 1\n")
    (package / "user.py").write_text("\nfrom pipeline.sub import thing\n")
    monkeypatch.setattr(fingerprint, "CODE", tmp_path)
    with pytest.raises(AssayError, match=r"pipeline\.user, line 2: 'thing'.*own module"):
        Fingerprints().fingerprint("pipeline.user")


def test_a_module_added_later_is_seen_though_the_tree_was_remembered(monkeypatch, tmp_path):
    package = tmp_path / "pipeline"
    package.mkdir()
    (package / "user.py").write_text("import pipeline.late\n")
    monkeypatch.setattr(fingerprint, "CODE", tmp_path)
    kept: dict[str, str] = {}
    remember = lambda name, make: kept.setdefault(name, make())  # noqa: E731
    before = Fingerprints(remember).fingerprint("pipeline.user")
    (package / "late.py").write_text("x = 1\n")
    assert Fingerprints(remember).fingerprint("pipeline.user") != before


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_reaches_no_variant_by_a_static_import(stage):
    """An edit to one dataset, scorer, explainer or sampler leaves the others' results alone."""
    closure = set(Fingerprints().closure(f"pipeline.stages.{stage}"))
    variants = {
        f"{package}.{path.stem}"
        for rows in STAGES.values()
        for row in rows
        for _, package in row.variants
        for name in _names_of(package)
        for path in [Path(name)]
    }
    assert not closure & variants


def _names_of(package: str) -> tuple[str, ...]:
    import importlib

    return importlib.import_module(f"{package}.registry").NAMES


def test_every_stage_has_its_module_and_no_stage_reaches_the_planner():
    prints = Fingerprints()
    for stage in STAGES:
        closure = prints.closure(f"pipeline.stages.{stage}")
        assert not [name for name in closure if name.startswith("pipeline.plan")], stage


def test_planning_imports_no_heavy_package():
    code = (
        "import sys, pipeline.plan, pipeline.plan.workflow, pipeline.cli\n"
        "names = {'torch', 'timm', 'transformers', 'wandb', 'pandas', 'numpy', 'open_clip'}\n"
        "heavy = names & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
