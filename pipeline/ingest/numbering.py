"""Whether a file counts its slots from 0 or from 1: told by the numbers that it has, never guessed."""

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """The numbers in a file's columns, and what is known about its tasks.

    asked: of the columns that hold inputs; answers: of those that hold answers; shown: what
    `Answer.shown` lists in any row. width: the slots of the longest task that is possible, longest: of
    the longest in the file. every_box: the page answers for every box, ticked or not. as_asked: its
    answers are numbered as its inputs are.
    """

    asked: Set[int]
    answers: Set[int]
    shown: Set[int]
    width: int
    every_box: bool
    as_asked: bool

    @property
    def has_zero(self) -> bool:
        """Whether answers surely count from 0."""
        return 0 in self.answers or 0 in self.shown

    def first_input(self) -> int:
        """Return the number of the input in slot 0.

        Columns of inputs come from the file that was uploaded and are all there. Without a 0 they count
        from 1, unless the answers show that the first column was lost.
        """
        if not self.asked or 0 in self.asked:
            return 0
        last = max(self.asked)
        lost = self.has_zero and (last in self.answers or (last < self.width and not self.every_box))
        return 0 if lost else 1

    def first_answer(self, longest: int) -> int | None:
        """Return the number of the answer to slot 0, None where both 0 and 1 are possible."""
        first = self.first_input()
        if self.has_zero or not (self.answers or self.shown):
            return 0 if self.has_zero else first
        if self._reach_last_from_one(longest):
            return 1
        return first if first == 1 or self.as_asked else None

    def _reach_last_from_one(self, longest: int) -> bool:
        """Say whether there is a number that no slot counted from 0 has."""
        last = max(self.answers, default=0)
        beyond = longest if self.every_box else self.width
        return longest in (last, max(self.shown, default=0)) or last >= beyond


def doubt(longest: int, ending: str) -> str:
    """Return the reason for rejecting rows whose slots may count from 0 or from 1, with the fix."""
    zero, last = f"Answer.image0{ending}", f"Answer.image{longest}{ending}"
    return (
        f"cannot tell whether slots count from 0 or 1: no column {zero}, and none {last}; "
        f"add an empty column, {zero} if they count from 0 and {last} if from 1"
    )
