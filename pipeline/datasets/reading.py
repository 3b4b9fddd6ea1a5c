"""Read a manifest's images, checked against their checksums, from files, zips and Parquet."""

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from pipeline.datasets.decoding import Undecodable, decode
from pipeline.datasets.parquet_rows import RowGroups, encoded_in
from pipeline.errors import AssayError


class ImageReader:
    """The images of a manifest, by position.

    table: the images table; root: the dataset's folder (None where every image lies in `folder`);
    folder: the images stage's result. It pickles, and each process opens its own files when it
    first reads, so a DataLoader may fork or spawn it. Zips stay open; of Parquet files one row
    group of the last one used is in memory.
    """

    def __init__(self, table: pd.DataFrame, root: Path | None, folder: Path) -> None:
        self._ids: list[str] = table["image_id"].tolist()
        self._sources: list[str] = table["source"].tolist()
        self._paths: list[str] = table["path"].tolist()
        self._members: list[str] = table["member"].tolist()
        self._checksums: list[str] = table["checksum"].tolist()
        self._folders = {"result": Path(folder).absolute()}
        if root is not None:
            self._folders["root"] = Path(root).absolute()
        self._reset()

    @property
    def ids(self) -> list[str]:
        """The image ids, by position."""
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, i: int) -> Image.Image:
        """Return image `i` in RGB, upright, flattened on white.

        Raises AssayError naming the image and its file if it is gone, changed or broken.
        """
        encoded = self.encoded(i)
        try:
            return decode(encoded)
        except Undecodable as error:
            raise AssayError(
                f"image {self._ids[i]!r} ({self._place(i)}) cannot be decoded: {error}"
            ) from error

    def encoded(self, i: int) -> bytes:
        """Return the encoded bytes of image `i`; AssayError if they are gone or not those of the manifest."""
        try:
            encoded = self._bytes(i)
        except (AssayError, OSError, LookupError, ValueError, zipfile.BadZipFile, Undecodable) as error:
            raise AssayError(f"image {self._ids[i]!r} ({self._place(i)}) cannot be read: {error}") from error
        if hashlib.sha256(encoded).hexdigest() != self._checksums[i]:
            raise AssayError(
                f"image {self._ids[i]!r} changed since its manifest was made: {self._place(i)} has another "
                "checksum now. Put the old file back, or run again from the images stage"
            )
        return encoded

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_zips", "_group")}
        return {**kept, "_process": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._zips: dict[Path, zipfile.ZipFile] = {}
        self._group: tuple[Path, str, RowGroups] | None = None

    def _file(self, i: int) -> Path:
        if self._sources[i] not in self._folders:
            raise AssayError(f"image {self._ids[i]!r} lies under dataset.root, which was not given")
        return self._folders[self._sources[i]] / self._paths[i]

    def _place(self, i: int) -> str:
        member = self._members[i]
        return f"{self._file(i)}, {member}" if member else str(self._file(i))

    def _bytes(self, i: int) -> bytes:
        if self._process != os.getpid():
            self._reset()
        path, member = self._file(i), self._members[i]
        if not member:
            return path.read_bytes()
        if path.suffix.lower() == ".zip":
            return self._zip(path).read(member)
        row, _, column = member.partition(":")
        return encoded_in(self._rows(path, column).cell(int(row)))

    def _zip(self, path: Path) -> zipfile.ZipFile:
        if path not in self._zips:
            self._zips[path] = zipfile.ZipFile(path)
        return self._zips[path]

    def _rows(self, path: Path, column: str) -> RowGroups:
        if self._group is None or self._group[:2] != (path, column):
            self._group = (path, column, RowGroups(path, column))
        return self._group[2]
