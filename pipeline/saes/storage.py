"""One SAE in one safetensors file whose header says all that the tensors do not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.files import canonical, replacing

FORMAT, VERSION = "assay.sae", 1
HEADER = "sae"
REQUIRED = ("variant", "activation", "normalisation", "centred", "d", "dictionary_size", "settings")


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write float32 tensors and a JSON header as one safetensors file, atomically."""
    from safetensors.torch import save_file

    stored = {name: value.detach().cpu().float().contiguous() for name, value in tensors.items()}
    metadata = {"format": FORMAT, "version": str(VERSION), HEADER: canonical(header)}
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata=metadata)
        _sort_header(temporary)


def _sort_header(path: Path) -> None:
    """Give a file's header one order in place: safetensors writes metadata in a random one."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = canonical(json.loads(file.read(size))).encode()
        file.seek(8)
        file.write(header.ljust(size))


def is_own(path: Path) -> bool:
    """Return whether a safetensors file says in its header that it was written here."""
    return _metadata(path).get("format") == FORMAT


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (float32) and the header of a file written here.

    Raises AssayError, naming the file and the key, for another format or version, a key that is
    missing, and a tensor that holds no number.
    """
    from safetensors.torch import load_file

    metadata = _metadata(path)
    if metadata.get("format") != FORMAT:
        raise AssayError(f"{path}: format {metadata.get('format')!r} is not {FORMAT!r}; use sae.format=auto")
    if metadata.get("version") != str(VERSION):
        raise AssayError(
            f"{path}: version {metadata.get('version')} of {FORMAT}; this program reads {VERSION}"
        )
    header: dict[str, Any] = json.loads(metadata.get(HEADER, "{}"))
    if missing := [key for key in REQUIRED if key not in header]:
        raise AssayError(f"{path}: the header lacks {', '.join(missing)}; save the SAE again with Sae.save")
    if "kind" not in header["activation"]:
        raise AssayError(
            f"{path}: the header's activation lacks its kind, so codes cannot be computed; save the SAE again"
        )
    tensors = {name: value.float() for name, value in load_file(path).items()}
    if bad := [name for name, value in tensors.items() if not torch.isfinite(value).all()]:
        raise AssayError(f"{path}: {', '.join(bad)} holds NaN or infinity; train the SAE again")
    return tensors, header


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise AssayError(f"{path} is not a file")
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise AssayError(f"{path}: not a safetensors file ({str(error)[:200]})") from error
