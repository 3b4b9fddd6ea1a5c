"""The bill is MTurk's."""

from decimal import Decimal

from pipeline.study.cost import bill


def test_the_papers_pair_costs_2_16_before_fees() -> None:
    own = bill(n_tasks=12, n_raters=3, reward=0.06)
    assert (own.n_assignments, own.reward) == (36, Decimal("2.16"))
    assert own.fee == Decimal("0.43")
    assert own.total == Decimal("2.59")


def test_from_ten_assignments_a_task_the_fee_doubles() -> None:
    assert bill(1, 9, 1.0).fee == Decimal("1.80")
    assert bill(1, 10, 1.0).fee == Decimal("4.00")


def test_the_fee_is_at_least_a_cent_an_assignment() -> None:
    assert bill(100, 1, 0.01).fee == Decimal("1.00")


def test_nothing_costs_nothing() -> None:
    assert bill(0, 3, 0.06).total == 0
