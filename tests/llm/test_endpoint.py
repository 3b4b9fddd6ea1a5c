"""Addresses, keys and prices."""

import pytest

from pipeline.errors import AssayError
from pipeline.llm.endpoint import is_local, open_endpoint, prices_of

SECRET = "sk-secret"


def test_the_key_comes_from_the_variable_that_is_named():
    endpoint = open_endpoint("https://a.org/v1/", "MY_KEY", {"MY_KEY": f" {SECRET}\n", "OTHER": "x"})
    assert (endpoint.key, endpoint.url) == (SECRET, "https://a.org/v1/chat/completions")


@pytest.mark.parametrize(("name", "environment"), [("", {"": SECRET}), ("KEY", {}), ("KEY", {"KEY": "  "})])
def test_no_variable_and_a_blank_one_mean_no_key(name, environment):
    assert open_endpoint("http://localhost:8000/v1", name, environment).key == ""


@pytest.mark.parametrize("key", ["sk-a b", "sk-a\nb", "sk-ä", "sk-\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_unshown(key):
    with pytest.raises(AssayError, match="KEY holds a space or an unprintable sign") as caught:
        open_endpoint("http://localhost/v1", "KEY", {"KEY": key})
    assert key not in str(caught.value)


def test_a_key_never_travels_unencrypted_to_another_network():
    with pytest.raises(AssayError, match="unencrypted; use https"):
        open_endpoint("http://api.example.org/v1", "KEY", {"KEY": SECRET})
    assert open_endpoint("http://api.example.org/v1", "KEY", {}).key == ""
    assert open_endpoint("http://10.0.0.5:8000/v1", "KEY", {"KEY": SECRET}).key == SECRET


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://a.org", "http://", "https://a.org:99999/v1", "http://[::1/v1"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(AssayError, match="is no address such as"):
        open_endpoint(url, "", {})


@pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/"])
def test_an_address_that_ends_in_what_is_added_is_told_its_right_form(end):
    with pytest.raises(AssayError, match=r"leave it off \(http://localhost:8000/v1\)"):
        open_endpoint(f"http://localhost:8000/v1{end}", "", {})


@pytest.mark.parametrize("url", [f"https://me:{SECRET}@a.org/v1", f"https://a.org/v1?key={SECRET}"])
def test_an_address_with_a_secret_in_it_is_refused_unshown(url):
    with pytest.raises(AssayError, match="give the bare address") as caught:
        open_endpoint(url, "", {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.4/v1", True),
        ("http://gpu01:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://localhost.example.org/v1", False),
    ],
)
def test_local_addresses(url, local):
    assert is_local(url) is local


def test_prices_are_free_at_home_and_must_be_said_elsewhere():
    assert prices_of("http://localhost/v1", None, None, 5).dollars(10**6, 10**6) == 0
    with pytest.raises(AssayError, match=r"explainer.price_input is not set and https://a.org/v1"):
        prices_of("https://a.org/v1", None, 1.0, 5)
    assert prices_of("https://a.org/v1", 0.0, 2.0, 5).dollars(10**6, 10**6) == 2.0
