"""A stub endpoint for each test."""

from collections.abc import Iterator

import pytest

from tests.llm.stub_endpoint import StubEndpoint


@pytest.fixture
def stub() -> Iterator[StubEndpoint]:
    endpoint = StubEndpoint()
    yield endpoint
    endpoint.close()
