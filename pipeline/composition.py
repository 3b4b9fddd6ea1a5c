"""Composite explanations: a weighted sum of concepts, or a formula with AND, OR and NOT."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import AssayError

FloatArray = NDArray[np.float64]
MAX_REPEATED = 12
"""Concepts that a formula may name more than once: their truth values are enumerated."""
SIGNIFICANT = 4


@dataclass(frozen=True)
class Linear:
    """A sum of weighted concepts: terms of (weight, concept), each concept once, weights not 0."""

    terms: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Not:
    """True where `part` is not."""

    part: "Formula"


@dataclass(frozen=True)
class And:
    """True where all parts are; two parts at least."""

    parts: tuple["Formula", ...]


@dataclass(frozen=True)
class Or:
    """True where some part is; two parts at least."""

    parts: tuple["Formula", ...]


Formula = str | Not | And | Or
"""A concept's text, or formulas joined."""
Composition = Linear | Formula


def linear(terms: Iterable[tuple[float, str]]) -> Linear:
    """Return a weighted sum with weights rounded to 4 significant digits: the text that is shown is exact."""
    return Linear(tuple((float(f"{weight:.{SIGNIFICANT}g}"), concept) for weight, concept in terms))


def describe(composition: Composition) -> str:
    """Return the text of a composition: `1.2 dog - 0.3 wet fur`, `(red OR blue) AND NOT round`."""
    if isinstance(composition, Linear):
        (first, concept), *rest = composition.terms
        joined = "".join(f" {'-' if w < 0 else '+'} {abs(w):.{SIGNIFICANT}g} {text}" for w, text in rest)
        return f"{first:.{SIGNIFICANT}g} {concept}{joined}"
    return _text(composition)


def _text(formula: Formula, inside: bool = False) -> str:
    if isinstance(formula, str):
        return formula
    if isinstance(formula, Not):
        return f"NOT {_text(formula.part, inside=True)}"
    word = " AND " if isinstance(formula, And) else " OR "
    joined = word.join(_text(part, inside=True) for part in formula.parts)
    return f"({joined})" if inside else joined


def concepts_of(composition: Composition) -> tuple[str, ...]:
    """Return the distinct concepts, by first appearance."""
    if isinstance(composition, Linear):
        return tuple(dict.fromkeys(concept for _, concept in composition.terms))
    return tuple(dict.fromkeys(_leaves(composition)))


def _leaves(formula: Formula) -> list[str]:
    if isinstance(formula, str):
        return [formula]
    parts = (formula.part,) if isinstance(formula, Not) else formula.parts
    return [leaf for part in parts for leaf in _leaves(part)]


def polarity(composition: Composition) -> dict[str, int]:
    """Return by concept 1 where more of it never lowers the value, -1 where it never raises it, else 0."""
    if isinstance(composition, Linear):
        return {concept: 1 if weight > 0 else -1 for weight, concept in composition.terms}
    signs: dict[str, set[int]] = {}
    for concept, sign in _signed(composition, 1):
        signs.setdefault(concept, set()).add(sign)
    return {concept: found.pop() if len(found) == 1 else 0 for concept, found in signs.items()}


def _signed(formula: Formula, sign: int) -> list[tuple[str, int]]:
    if isinstance(formula, str):
        return [(formula, sign)]
    if isinstance(formula, Not):
        return _signed(formula.part, -sign)
    return [leaf for part in formula.parts for leaf in _signed(part, sign)]


def combine(composition: Composition, values: Mapping[str, NDArray[Any]]) -> FloatArray:
    """Return the composition's value (N,) from its concepts' values (N,), in float64.

    A weighted sum of the values; or the probability of the formula where the concepts are independent
    given the image, exact also where a formula names a concept twice. With values of 0 and 1 that is the
    formula's truth. Raises AssayError where more than 12 concepts are named more than once.
    """
    if isinstance(composition, Linear):
        terms = [weight * np.asarray(values[text], dtype=np.float64) for weight, text in composition.terms]
        return np.asarray(sum(terms[1:], terms[0]))
    exact = {text: np.asarray(values[text], dtype=np.float64) for text in concepts_of(composition)}
    repeated = [text for text, times in Counter(_leaves(composition)).items() if times > 1]
    if len(repeated) > MAX_REPEATED:
        raise AssayError(
            f"the formula {describe(composition)!r} names {len(repeated)} concepts more than once, and "
            f"at most {MAX_REPEATED} can be; write it shorter"
        )
    total = np.zeros(len(next(iter(exact.values()))))
    for truths in product((0.0, 1.0), repeat=len(repeated)):
        fixed = dict(zip(repeated, truths, strict=True))
        chance = np.ones_like(total)
        for text, truth in fixed.items():
            chance *= exact[text] if truth else 1 - exact[text]
        given = exact | {text: np.full_like(total, truth) for text, truth in fixed.items()}
        total += chance * _probability(composition, given)
    return np.clip(total, 0, 1)


def _probability(formula: Formula, values: Mapping[str, FloatArray]) -> FloatArray:
    """Return the probability of a formula whose parts are independent."""
    if isinstance(formula, str):
        return values[formula]
    if isinstance(formula, Not):
        return 1 - _probability(formula.part, values)
    parts = [_probability(part, values) for part in formula.parts]
    if isinstance(formula, And):
        return np.asarray(np.prod(parts, axis=0))
    return np.asarray(1 - np.prod([1 - part for part in parts], axis=0))


def to_json(composition: Composition) -> str:
    """Return one line of JSON: `{"linear": [[1.2, "dog"], ...]}`, `{"and": ["red", {"not": "round"}]}`."""
    return json.dumps(_plain(composition), ensure_ascii=False)


def _plain(composition: Composition) -> Any:
    if isinstance(composition, Linear):
        return {"linear": [[weight, concept] for weight, concept in composition.terms]}
    if isinstance(composition, str):
        return composition
    if isinstance(composition, Not):
        return {"not": _plain(composition.part)}
    word = "and" if isinstance(composition, And) else "or"
    return {word: [_plain(part) for part in composition.parts]}


def from_json(text: str, place: str) -> Composition:
    """Read what `to_json` writes; `place` says where it was read ("le.csv, line 3").

    Raises AssayError for text that is no composition: no JSON, an unknown word, a blank concept, a concept
    twice in a sum, a weight that is 0 or no finite number, fewer than two parts.
    """
    try:
        node = json.loads(text)
    except ValueError as error:
        raise _wrong(place, f"it is no JSON ({error})") from None
    if isinstance(node, dict) and set(node) == {"linear"}:
        return _linear(node["linear"], place)
    return _formula(node, place)


def _linear(terms: Any, place: str) -> Linear:
    if not isinstance(terms, list) or not terms:
        raise _wrong(place, "'linear' holds no list of [weight, concept]")
    found = []
    for term in terms:
        if not (isinstance(term, list) and len(term) == 2 and _is_weight(term[0])):
            raise _wrong(place, f"{term!r} is no [weight, concept] with a finite weight that is not 0")
        found.append((float(term[0]), _concept(term[1], place)))
    if len({concept for _, concept in found}) < len(found):
        raise _wrong(place, "a concept stands twice in the sum")
    return linear(found)


def _is_weight(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value) and value)
    )


def _formula(node: Any, place: str) -> Formula:
    if isinstance(node, str):
        return _concept(node, place)
    if not isinstance(node, dict) or len(node) != 1 or next(iter(node)) not in ("not", "and", "or"):
        raise _wrong(place, f"{node!r} is neither a concept nor one of not, and, or, linear")
    word, inner = next(iter(node.items()))
    if word == "not":
        return Not(_formula(inner, place))
    if not isinstance(inner, list) or len(inner) < 2:
        raise _wrong(place, f"{word!r} joins two formulas or more, and {inner!r} is not a list of those")
    parts = tuple(_formula(part, place) for part in inner)
    return And(parts) if word == "and" else Or(parts)


def _concept(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(place, f"{value!r} is no concept's text")
    return value.strip()


def _wrong(place: str, why: str) -> AssayError:
    return AssayError(
        f"{place}: {why}. A composition is "
        '{"linear": [[0.8, "dog"], [0.3, "grass"]]} or {"and": ["red", {"not": "round"}]}'
    )
