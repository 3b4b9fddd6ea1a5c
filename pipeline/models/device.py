"""Where and how exactly numbers are computed."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from pipeline.errors import AssayError

PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def choose(device: str) -> torch.device:
    """Return the device; "auto" is CUDA, else Apple's MPS, else the CPU.

    Raises AssayError where a named device is not there.
    """
    if device == "auto":
        device = (
            "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        )
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise AssayError(f"device={device}: torch sees no CUDA device here; use device=cpu or device=auto")
    if device == "mps" and not torch.backends.mps.is_available():
        raise AssayError("device=mps: torch sees no MPS device here; use device=cpu or device=auto")
    return torch.device(device)


@contextmanager
def threads_of(threads: int | None) -> Iterator[None]:
    """Run the block with this many torch threads (None: as many as now), then restore."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _exactness(tf32: bool) -> Iterator[None]:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = tf32, tf32, True, False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = before


@contextmanager
def exact(*, tf32: bool, threads: int | None) -> Iterator[None]:
    """Run the block with the stated exactness, with or without gradients; every setting is restored."""
    with threads_of(threads), _exactness(tf32):
        yield


@contextmanager
def inference(
    device: str, *, precision: str = "float32", tf32: bool = False, threads: int | None = None
) -> Iterator[torch.device]:
    """Run the block without gradients, with the stated exactness; every setting is restored.

    `precision` below float32 is autocast; cuDNN uses its deterministic algorithms.
    """
    target = choose(device)
    lower: Any = nullcontext()
    if precision != "float32":
        lower = torch.autocast(target.type, dtype=PRECISIONS[precision])
    with exact(tf32=tf32, threads=threads), torch.inference_mode(), lower:
        yield target
