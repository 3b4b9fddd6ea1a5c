"""The names nearest to a misspelt one."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], n: int = 3) -> str:
    """Return "; nearest: 'a', 'b'" for the known names most like `name`, or an empty text."""
    names = list(known)
    by_case = {known_name.casefold(): known_name for known_name in reversed(names)}
    close = get_close_matches(name.casefold(), list(by_case), n=n, cutoff=0.5)
    return f"; nearest: {', '.join(repr(by_case[key]) for key in close)}" if close else ""
