"""What a study costs on MTurk."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

FEE_SHARE, FEE_SHARE_MANY = Decimal("0.2"), Decimal("0.4")
MANY_ASSIGNMENTS = 10
LEAST_FEE = Decimal("0.01")
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Bill:
    """Tasks, assignments (tasks x raters), and US dollars: what raters get, and MTurk's fee."""

    n_tasks: int
    n_assignments: int
    reward: Decimal
    fee: Decimal

    @property
    def total(self) -> Decimal:
        """Reward and fee together."""
        return self.reward + self.fee


def bill(n_tasks: int, n_raters: int, reward: float) -> Bill:
    """Return the bill of n_tasks tasks, each done by n_raters people for `reward` US dollars.

    The fee is 20% of the reward, 40% from 10 assignments a task on, and at least $0.01 an
    assignment. Source: MTurk's pricing page; the reward of .06 is the paper's.
    """
    n_assignments = n_tasks * n_raters
    paid = Decimal(str(reward))
    share = FEE_SHARE_MANY if n_raters >= MANY_ASSIGNMENTS else FEE_SHARE
    fee = max(paid * share, LEAST_FEE) * n_assignments
    return Bill(n_tasks, n_assignments, _cents(paid * n_assignments), _cents(fee))


def _cents(dollars: Decimal) -> Decimal:
    return dollars.quantize(CENT, ROUND_HALF_UP)
