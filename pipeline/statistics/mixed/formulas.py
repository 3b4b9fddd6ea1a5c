"""lme4's formulas, as far as they are supported: additive fixed factors and random intercepts."""

import re
from dataclasses import dataclass

from pipeline.errors import AssayError

SUPPORTED = 'a formula reads like "f ~ explainer + (1|sample) + (1|vlm:explainer)"'
_NAME = r"(?:`[^`]+`|[^\W\d][\w.]*)"
_BAR = re.compile(r"\(([^()|]*)\|(\|?)([^()]*)\)")


@dataclass(frozen=True)
class Formula:
    """A score, its fixed factors in order, and its random intercepts: one tuple of columns each."""

    score: str
    fixed: tuple[str, ...]
    random: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The formula as lme4 writes it; a name that is no plain word stands in backticks."""
        fixed = [_quoted(name) for name in self.fixed] or ["1"]
        bars = [f"(1|{':'.join(map(_quoted, group))})" for group in self.random]
        return f"{_quoted(self.score)} ~ {' + '.join([*fixed, *bars])}"


def parse(text: str) -> Formula:
    """Return the formula of a text; what stands twice counts once.

    (1|a/b) is (1|a) + (1|a:b). Names that are no plain words stand in backticks. Random slopes, fixed
    interactions, products, functions, numbers and formulas without an intercept: AssayError.
    """
    left, tilde, right = text.partition("~")
    if not tilde or "~" in right:
        raise AssayError(f"formula {text!r} needs one ~ with the score on its left; {SUPPORTED}")
    bars = [group for bar in _BAR.finditer(right) for group in _groups(bar, text)]
    terms = _BAR.sub("", right).split("+")
    fixed = [_fixed(term.strip(), text) for term in terms if term.strip() not in ("", "1")]
    return Formula(_name(left.strip(), text), tuple(dict.fromkeys(fixed)), tuple(dict.fromkeys(bars)))


def _groups(bar: re.Match[str], text: str) -> list[tuple[str, ...]]:
    effects, double, factor = bar.groups()
    if effects.strip() != "1" or double:
        raise AssayError(
            f"{bar.group()} in {text!r}: only random intercepts (1|factor) are supported, no slopes"
        )
    nested = [tuple(_name(name.strip(), text) for name in part.split(":")) for part in factor.split("/")]
    return [sum(nested[: depth + 1], ()) for depth in range(len(nested))]


def _fixed(term: str, text: str) -> str:
    if ":" in term or "*" in term:
        raise AssayError(
            f"{term!r} in {text!r}: interactions of fixed factors are not supported; "
            f"put it as a random intercept, (1|{term.replace('*', ':')}), or join the columns into one"
        )
    return _name(term, text)


def _name(word: str, text: str) -> str:
    if not re.fullmatch(_NAME, word):
        raise AssayError(
            f"{word!r} in {text!r} is no column's name; {SUPPORTED}; other names stand in backticks"
        )
    return word.strip("`")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d][\w.]*", name) else f"`{name}`"
