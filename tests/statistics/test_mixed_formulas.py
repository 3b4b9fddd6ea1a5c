"""Formulas in lme4's syntax: what is read, and what is refused with the reason."""

import pytest

from pipeline.errors import AssayError
from pipeline.statistics.mixed.formulas import Formula, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f ~ explainer + (1|sample)", Formula("f", ("explainer",), (("sample",),))),
        ("f~1+explainer+vlm+( 1 | sample )", Formula("f", ("explainer", "vlm"), (("sample",),))),
        ("f ~ a + (1|b:a) + (1|b:a) + a", Formula("f", ("a",), (("b", "a"),))),
        ("f ~ a + (1|b/c)", Formula("f", ("a",), (("b",), ("b", "c")))),
        ("f ~ (1|b)", Formula("f", (), (("b",),))),
        ("`my score` ~ synergy.rule + (1|`a b`:c)", Formula("my score", ("synergy.rule",), (("a b", "c"),))),
    ],
)
def test_a_formula_is_read_and_written_again(text: str, expected: Formula) -> None:
    assert parse(text) == expected
    assert parse(expected.text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f explainer", "needs one ~"),
        ("f ~ a + (x|b)", "only random intercepts"),
        ("f ~ a + (1 + x|b)", "only random intercepts"),
        ("f ~ a + (1||b)", "only random intercepts"),
        ("f ~ a*b + (1|c)", r"interactions of fixed factors are not supported; .*\(1\|a:b\)"),
        ("f ~ 0 + a + (1|c)", "'0'"),
        ("log(f) ~ a", r"'log\(f\)'"),
        ("f ~ a - 1", "'a - 1'"),
    ],
)
def test_what_is_not_supported_is_said(text: str, words: str) -> None:
    with pytest.raises(AssayError, match=words):
        parse(text)
