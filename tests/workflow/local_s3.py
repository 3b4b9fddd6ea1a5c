"""An S3 server on loopback, and what tells a process to keep results there."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from moto.server import ThreadedMotoServer

from pipeline.plan.bucket import Bucket


@contextmanager
def serving() -> Iterator[str]:
    """Serve S3 within the block; yield the server's address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def new_bucket(monkeypatch: pytest.MonkeyPatch, server: str) -> str:
    """Let this process and its children keep results in a new bucket of a server; return their address."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SNAKEMAKE_STORAGE_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "ENDPOINT_URL": server,
        "ACCESS_KEY_ID": "somebody",
        "SECRET_ACCESS_KEY": "guarded-secret",
        "SHARED_CREDENTIALS_FILE": "/nowhere",
        "CONFIG_FILE": "/nowhere",
        "EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"results-{uuid4().hex[:12]}"
    url = f"s3://{name}/of/assay"
    Bucket(url)._client.create_bucket(Bucket=name)
    monkeypatch.setenv("ASSAY_RESULTS", url)
    return url
