"""What questions cost: an upper estimate before the first one, and a meter that stops at the limit."""

import threading
from dataclasses import dataclass
from math import ceil

from pipeline.errors import AssayError
from pipeline.llm.answer import Answer

CHARACTERS_PER_TOKEN = 3
"""Fewer than the usual four of English text, so that the estimate is not too low."""
MILLION = 1_000_000
ROUNDING = 1e-9


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens, and how many tokens a sheet is taken to have."""

    input: float
    output: float
    image_tokens: int

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of some tokens."""
        return (self.input * input_tokens + self.output * output_tokens) / MILLION


@dataclass(frozen=True)
class Estimate:
    """Requests, the tokens that they send and at most get, and US dollars for these."""

    n_requests: int
    input_tokens: int
    output_tokens: int
    dollars: float

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            self.n_requests + other.n_requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.dollars + other.dollars,
        )

    def __str__(self) -> str:
        requests = f"{self.n_requests:,} request" + ("" if self.n_requests == 1 else "s")
        return (
            f"{requests}, about {self.input_tokens:,} input and at most {self.output_tokens:,} output "
            f"tokens, {dollars_text(self.dollars)}"
        )


def dollars_text(dollars: float) -> str:
    """Return an amount with cents, or with as many places as a small amount needs."""
    return f"${dollars:,.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.2g}"


def estimate(n_requests: int, prompt: str, max_tokens: int, prices: Prices) -> Estimate:
    """Estimate n requests of one sheet and `prompt` each, if every answer is as long as it may be."""
    input_tokens = n_requests * (prices.image_tokens + ceil(len(prompt) / CHARACTERS_PER_TOKEN))
    output_tokens = n_requests * max_tokens
    return Estimate(n_requests, input_tokens, output_tokens, prices.dollars(input_tokens, output_tokens))


def require_affordable(planned: Estimate, max_cost: float) -> None:
    """Raise AssayError where an estimate is above `max_cost` dollars."""
    if planned.dollars > max_cost + ROUNDING:
        raise AssayError(
            f"explainer.max_cost={max_cost:g}: {planned} is more than that. Raise explainer.max_cost, or "
            "lower unit.n, explainer.max_tokens or explainer.image_tokens (an estimate for each sheet)"
        )


class Meter:
    """Adds up what answers cost, for several threads at once, and refuses a request above the limit.

    Until it is answered a request counts at `each` dollars, and at more once an answer cost more; so the
    total passes the limit by no more than the requests under way cost above that.
    """

    def __init__(self, prices: Prices, each: float, max_cost: float) -> None:
        self._prices = prices
        self._each = each
        self._max_cost = max_cost
        self._under_way = 0
        self._lock = threading.Lock()
        self.spent = 0.0
        self.input_tokens = 0
        self.output_tokens = 0

    def reserve(self) -> None:
        """Count a request that is about to be sent; AssayError where it could pass the limit."""
        with self._lock:
            if self.spent + (self._under_way + 1) * self._each > self._max_cost + ROUNDING:
                raise AssayError(
                    f"explainer.max_cost={self._max_cost:g} is reached: {dollars_text(self.spent)} are spent "
                    f"and a request costs up to {dollars_text(self._each)}. Raise explainer.max_cost"
                )
            self._under_way += 1

    def answered(self, answer: Answer) -> None:
        """Count an answer; where the endpoint does not say its tokens, at the estimate."""
        if answer.prompt_tokens is None or answer.completion_tokens is None:
            return self._settle(self._each)
        with self._lock:
            self.input_tokens += answer.prompt_tokens
            self.output_tokens += answer.completion_tokens
        return self._settle(self._prices.dollars(answer.prompt_tokens, answer.completion_tokens))

    def refused(self) -> None:
        """Count a request that the endpoint turned down: it is free."""
        self._settle(0)

    def lost(self) -> None:
        """Count a request that was sent and never answered at the estimate: it may have been billed."""
        self._settle(self._each)

    def _settle(self, cost: float) -> None:
        with self._lock:
            self._under_way -= 1
            self.spent += cost
            self._each = max(self._each, cost)
