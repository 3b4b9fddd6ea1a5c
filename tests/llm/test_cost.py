"""What questions cost, before and while they are asked."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.llm.answer import Answer
from pipeline.llm.cost import Estimate, Meter, Prices, dollars_text, estimate, require_affordable
from pipeline.llm.planning import plan_text, planned

PRICES = Prices(input=2.5, output=10.0, image_tokens=1000)
SETTINGS = {
    "method": "llm",
    "model": "vlm",
    "base_url": "https://api.example.org/v1",
    "prompt": None,
    "n_top": 9,
    "n_random": 9,
    "max_tokens": 100,
    "price_input": 2.5,
    "price_output": 10.0,
    "image_tokens": 1000,
}


def answer(prompt: int | None, completion: int | None) -> Answer:
    return Answer("a", "", "m", "stop", prompt, completion, "")


def test_an_estimate_is_tokens_times_prices():
    found = estimate(24, "x" * 300, 50, PRICES)
    assert found == Estimate(24, 24 * 1100, 24 * 50, pytest.approx(24 * (1100 * 2.5 + 50 * 10) / 1e6))
    assert str(found) == "24 requests, about 26,400 input and at most 1,200 output tokens, $0.078"


def test_estimates_add_up():
    one = estimate(1, "xyz", 10, PRICES)
    three, thrice = estimate(3, "xyz", 10, PRICES), one + one + one
    assert (three.n_requests, three.input_tokens) == (thrice.n_requests, thrice.input_tokens)
    assert three.dollars == pytest.approx(thrice.dollars)


@pytest.mark.parametrize(
    ("dollars", "text"), [(0, "$0.00"), (0.00042, "$0.00042"), (0.5, "$0.50"), (1234.5, "$1,234.50")]
)
def test_small_amounts_keep_their_digits(dollars, text):
    assert dollars_text(dollars) == text


def test_what_costs_as_much_as_allowed_is_allowed_and_more_is_not():
    planned = estimate(10, "", 0, PRICES)
    require_affordable(planned, planned.dollars)
    with pytest.raises(AssayError, match=r"explainer.max_cost=0.02: 10 requests, .* \$0.025 is more"):
        require_affordable(planned, 0.02)


def test_a_free_server_needs_no_limit():
    require_affordable(estimate(10_000, "x" * 999, 999, Prices(0, 0, 1500)), 0.0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 40), st.integers(1, 5))
def test_the_limit_is_passed_by_less_than_one_surprise(costs, limit, each):
    """Answers of `costs` dollars, asked one after the other, where each was taken to cost `each`."""
    meter = Meter(Prices(1e6, 0, 0), each, limit)
    dearest = each
    for number, cost in enumerate(costs):
        if sum(costs[:number]) + dearest > limit:
            with pytest.raises(AssayError, match="is reached"):
                meter.reserve()
            return
        meter.reserve()
        meter.answered(answer(cost, 0))
        assert meter.spent == sum(costs[: number + 1])
        assert meter.spent <= limit + max(0, cost - dearest)
        dearest = max(dearest, cost)


def test_an_estimate_that_was_kept_to_is_never_stopped():
    planned = estimate(1000, "what?", 7, PRICES)
    meter = Meter(PRICES, planned.dollars / 1000, planned.dollars)
    for _ in range(1000):
        meter.reserve()
        meter.answered(answer(1002, 7))
    assert meter.spent == pytest.approx(planned.dollars)
    with pytest.raises(AssayError, match="is reached"):
        meter.reserve()


def test_an_answer_that_cost_more_than_thought_raises_what_the_next_is_taken_to_cost():
    meter = Meter(Prices(1e6, 0, 0), each=1.0, max_cost=10.0)
    meter.reserve()
    meter.answered(answer(6, 0))
    with pytest.raises(AssayError, match=r"\$6.00 are spent and a request costs up to \$6.00"):
        meter.reserve()


def test_requests_under_way_count():
    meter = Meter(Prices(1e6, 0, 0), each=1.0, max_cost=2.0)
    meter.reserve()
    meter.reserve()
    with pytest.raises(AssayError):
        meter.reserve()
    meter.refused()
    meter.reserve()


def test_threads_lose_no_cent():
    meter = Meter(Prices(1e6, 0, 0), each=1.0, max_cost=1e9)

    def work() -> None:
        for _ in range(500):
            meter.reserve()
            meter.answered(answer(1, 0))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (meter.spent, meter.input_tokens) == (4000, 4000)


def test_a_plan_says_what_a_point_costs():
    text = plan_text(SETTINGS, 64)
    assert text.startswith("llm (vlm at https://api.example.org/v1): at most 64 requests, about ")
    assert text.endswith("less what was answered before")
    assert planned(SETTINGS, 64).dollars == pytest.approx(64 * planned(SETTINGS, 1).dollars)
    unknown = plan_text(SETTINGS, None)
    assert "a unit takes 1 request, about " in unknown and "less those answered before" in unknown


def test_a_plan_without_prices_asks_for_them_where_they_matter():
    with pytest.raises(AssayError, match=r"explainer.price_output is not set"):
        planned(SETTINGS | {"price_output": None}, 1)
    local = SETTINGS | {"base_url": "http://localhost:1/v1", "price_input": None, "price_output": None}
    assert planned(local, 99).dollars == 0
