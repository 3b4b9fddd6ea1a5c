"""Where and how exactly SAEs are trained."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from pipeline.models.device import PRECISIONS, choose, threads_of


@contextmanager
def computing(device: str, *, precision: str, tf32: bool, threads: int | None) -> Iterator[torch.device]:
    """Run the block with gradients and the stated exactness; every setting is restored.

    `precision` below float32 is autocast of the matrix products; sums and steps stay in float32.
    """
    target = choose(device)
    lower: Any = nullcontext()
    if precision != "float32":
        lower = torch.autocast(target.type, dtype=PRECISIONS[precision])
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        with threads_of(threads), torch.enable_grad(), lower:
            yield target
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
