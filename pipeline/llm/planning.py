"""What the questions of a point would cost, before anything runs."""

from collections.abc import Mapping
from typing import Any

from pipeline.llm.cost import Estimate, estimate
from pipeline.llm.endpoint import prices_of
from pipeline.llm.prompt import prompt_text, read_prompt


def planned(settings: Mapping[str, Any], n_units: int) -> Estimate:
    """Return what `n_units` questions cost with an explainer's settings if none was answered before.

    Raises AssayError where prices are needed and not set, or the prompt cannot be read.
    """
    prices = prices_of(*(settings[n] for n in ("base_url", "price_input", "price_output", "image_tokens")))
    prompt = prompt_text(read_prompt(settings["prompt"]), settings["n_top"], settings["n_random"])
    return estimate(n_units, prompt, settings["max_tokens"], prices)


def plan_text(settings: Mapping[str, Any], n_units: int | None) -> str:
    """Return a line on the most that a point can cost; of one unit where their number is not known yet."""
    name = f"{settings['method']} ({settings['model']} at {settings['base_url']})"
    if n_units is None:
        one = f"a unit takes {planned(settings, 1)}"
        return f"{name}: {one}; all units of the layer are asked, less those answered before"
    return f"{name}: at most {planned(settings, n_units)}, less what was answered before"
