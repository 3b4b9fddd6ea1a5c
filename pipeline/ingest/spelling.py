"""Every spelling of yes and no. What is not listed here is named, never guessed."""

Vote = bool | str
"""A vote, or the reason why there is none."""

YES = frozenset({"true", "t", "yes", "y", "1", "1.0", "on"})
NO = frozenset({"false", "f", "no", "n", "0", "0.0", "off", "{}"})
SHOWN = 40


def spelled(text: str) -> bool | None:
    """Return what a text says, None where it says neither yes nor no."""
    word = text.strip().lower()
    if word in YES:
        return True
    return False if word in NO else None


def vote(text: str, column: str) -> Vote:
    """Return the vote in a cell that is not blank, or the reason why it is none."""
    said = spelled(text)
    return unknown(text, column) if said is None else said


def unknown(text: str, column: str) -> str:
    """Return the reason for a spelling that is not known."""
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return f"neither yes nor no: {column} is {shown!a}"
