"""An OpenAI-compatible endpoint: its address, its key, and who must say prices."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pipeline.errors import AssayError
from pipeline.llm.cost import Prices

CHAT = "/chat/completions"


@dataclass(frozen=True)
class Endpoint:
    """Where questions go. `key` is a secret: blank where the server wants none; never shown or written."""

    base_url: str
    key: str = field(default="", repr=False)
    key_name: str = ""

    @property
    def url(self) -> str:
        """The address of chat completions."""
        return self.base_url.rstrip("/") + CHAT

    def without_key(self, text: str) -> str:
        """Return a text in which the key, should the server repeat it, is blacked out."""
        return text.replace(self.key, "[key]") if self.key else text


def open_endpoint(base_url: str, api_key_env: str, environment: Mapping[str, str]) -> Endpoint:
    """Return the endpoint at `base_url` with the key that the variable `api_key_env` holds, if any.

    Raises AssayError for an address that is none, a key that no header can carry, and a key that would
    travel unencrypted to another network.
    """
    _require_address(base_url)
    key = environment.get(api_key_env, "").strip() if api_key_env else ""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise AssayError(f"the environment's {api_key_env} holds a space or an unprintable sign: set it anew")
    if key and urlsplit(base_url).scheme == "http" and not is_local(base_url):
        raise AssayError(
            f"explainer.base_url={base_url} would send the key in {api_key_env} unencrypted; use https, or "
            "set explainer.api_key_env='' if the server needs none"
        )
    return Endpoint(base_url, key, api_key_env)


def prices_of(
    base_url: str, price_input: float | None, price_output: float | None, image_tokens: int
) -> Prices:
    """Return the prices; those not given are 0 at a local address, and an AssayError at any other."""
    for name, price in (("price_input", price_input), ("price_output", price_output)):
        if price is None and not is_local(base_url):
            raise AssayError(
                f"explainer.{name} is not set and {base_url} is not a local address: set it to the dollars "
                "that a million tokens cost there (0 if they are free)"
            )
    return Prices(price_input or 0.0, price_output or 0.0, image_tokens)


def is_local(base_url: str) -> bool:
    """Say whether an address is this computer or its private network: a private number or a bare name."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".localhost")


def _require_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise AssayError(f"explainer.base_url={base_url} is no address such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise AssayError(
            "explainer.base_url holds a user, a password, a query or a fragment: give the bare address, and "
            "the key in the environment (explainer.api_key_env names the variable)"
        )
    bare = base_url.rstrip("/")
    if bare.endswith(CHAT):
        raise AssayError(
            f"explainer.base_url={base_url} ends in {CHAT}, which is added to it: leave it off "
            f"({bare.removesuffix(CHAT)})"
        )
