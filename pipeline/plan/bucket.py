"""Objects below `s3://bucket/prefix`: list, read, write, copy; what goes wrong is told with its fix.

The connection is that of snakemake-storage-plugin-s3: endpoint, region and credentials come from the
environment, as SNAKEMAKE_STORAGE_S3_... or as AWS's own variables and files.
"""

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from logging import ERROR, getLogger
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

from pipeline.errors import AssayError

VARIABLE = "ASSAY_RESULTS"
PLUGIN = "snakemake_storage_plugin_s3"
SETTINGS = "SNAKEMAKE_STORAGE_S3_"
PARALLEL = 10
"""Requests at once: as many connections as boto3 keeps open."""
MARK = ".assay"
"""The object that says that results may be written here."""
ABSENT = {"NoSuchKey", "404"}
REFUSED = {
    "403",
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
}
CREDENTIALS = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment (of jobs on other machines too), "
    "or a profile of `aws configure`"
)
T = TypeVar("T")
R = TypeVar("R")
_connecting = threading.Lock()


@dataclass(frozen=True)
class Listed:
    """What a listing says of an object: size in bytes, and a tag that changes with its contents."""

    size: int
    etag: str


class Bucket:
    """The objects below one address; names are relative to it. Raises AssayError where S3 cannot serve."""

    def __init__(self, url: str) -> None:
        match = re.fullmatch(r"s3://([^/]{3,63})((?:/[^/]+)*)/?", url)
        if not match:
            raise AssayError(
                f"{VARIABLE}={url}: give s3://BUCKET/PREFIX, a bucket's name has 3 to 63 letters"
            )
        self.url = url.rstrip("/")
        self._bucket = match[1]
        self._prefix = f"{match[2].strip('/')}/" if match[2] else ""
        try:
            self._client = _client()
        except ImportError:
            raise AssayError(f'{VARIABLE} needs the S3 plugin: pip install "assay[cluster]"') from None
        except ValueError as error:
            raise AssayError(f"{self.url}: {error}: correct AWS_ENDPOINT_URL and the region") from None

    def list(self, folder: str) -> dict[str, Listed]:
        """Return all objects whose names begin with `folder`."""
        pages = self._client.get_paginator("list_objects_v2")
        with self._told():
            return {
                entry["Key"].removeprefix(self._prefix): Listed(entry["Size"], entry["ETag"])
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + folder)
                for entry in page.get("Contents", [])
            }

    def folders(self) -> Sequence[str]:
        """Return the names of the first level that have a level below, sorted."""
        pages = self._client.get_paginator("list_objects_v2")
        with self._told():
            found = [
                entry["Prefix"].removeprefix(self._prefix).rstrip("/")
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix, Delimiter="/")
                for entry in page.get("CommonPrefixes", [])
            ]
        return sorted(found)

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return an object's bytes and tag, None where there is none."""
        with self._told(), _none_where_absent():
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            return answer["Body"].read(), answer["ETag"]
        return None

    def write(self, name: str, data: bytes) -> None:
        """Write a small object."""
        with self._told():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=data)

    def upload(self, path: Path, name: str) -> None:
        """Write a file as an object, large ones in parts; it is there whole or not at all."""
        with self._told(), path.open("rb") as stream:
            self._client.upload_fileobj(stream, self._bucket, self._prefix + name)

    def download(self, name: str, path: Path) -> bool:
        """Write an object to a file; return False where there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._told(), path.open("wb") as stream, _none_where_absent():
            self._client.download_fileobj(self._bucket, self._prefix + name, stream)
            return True
        return False

    def copy(self, name: str, to: str) -> None:
        """Copy an object within the bucket, on the server."""
        source = {"Bucket": self._bucket, "Key": self._prefix + name}
        with self._told():
            self._client.copy(source, self._bucket, self._prefix + to)

    def delete(self, name: str) -> None:
        """Delete an object; it need not be there."""
        with self._told():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def require_writable(self) -> None:
        """Write the mark: AssayError now rather than at the first result, hours later."""
        self.write(MARK, b"Results of assay: <stage>/<key>/meta.json says which are complete.\n")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn boto's errors into messages that name the bucket, the server and the fix."""
        from botocore.exceptions import BotoCoreError, ClientError
        from s3transfer.exceptions import RetriesExceededError

        try:
            yield
        except ClientError as error:
            raise AssayError(f"{self.url}: {self._answer(error.response['Error'])}") from None
        except (BotoCoreError, RetriesExceededError) as error:
            raise AssayError(f"{self.url}: {self._no_answer(error)}") from None

    def _answer(self, error: Mapping[str, str]) -> str:
        code, where = error["Code"], self._client.meta.endpoint_url
        if code == "NoSuchBucket":
            return f"{where} has no bucket {self._bucket!r}: make it, or correct {VARIABLE}"
        if code in REFUSED:
            return f"{where} refuses ({code}): give credentials that may read and write here: {CREDENTIALS}"
        return f"{where} answered {code}: {error.get('Message', '')}"

    def _no_answer(self, error: Exception) -> str:
        where, kind = self._client.meta.endpoint_url, type(error).__name__
        if "Credentials" in kind:
            return f"no credentials for {where}: give {CREDENTIALS}"
        return (
            f"{where} cannot be reached ({kind}): see to the network, and to AWS_ENDPOINT_URL where the "
            "server is not AWS's own"
        )


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
    """Return `work` of each item, some at once; the first error is raised."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(work, items))


@contextmanager
def _none_where_absent() -> Iterator[None]:
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in ABSENT:
            raise


def _client() -> Any:
    """Return one client a process and environment: making one takes 0.4 s and is not safe in threads."""
    import_module(PLUGIN)  # it sets variables of AWS, so before these are read
    environment = ((k, v) for k, v in os.environ.items() if k.startswith(("AWS_", SETTINGS)))
    with _connecting:
        return _connected(tuple(sorted(environment)))


@lru_cache(maxsize=8)
def _connected(environment: tuple[tuple[str, str], ...]) -> Any:
    plugin, given = import_module(PLUGIN), dict(environment)
    names = ("endpoint_url", "region", "access_key", "secret_key", "token")
    settings = {name: given.get(f"{SETTINGS}{name.upper()}") for name in names}
    provider = plugin.StorageProvider(
        Path(gettempdir()), getLogger(__name__), settings=plugin.StorageProviderSettings(**settings)
    )
    getLogger("urllib3.connectionpool").setLevel(ERROR)  # large files go in parts: more than it keeps open
    return provider.s3c.meta.client
