"""Where and how exactly SAEs are trained."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from pipeline.models.device import PRECISIONS, choose, threads_of

THREADED = 1 << 19
"""The codes of a batch (rows x latents) from which on more than one thread pays."""


def threads_for(n_codes: int, threads: int | None) -> int | None:
    """Return how many of `threads` work on batches of `n_codes` codes: one where they are few.

    Threads that meet after every short operation wait for each other; where other jobs hold the cores
    they take many times as long as one thread alone.
    """
    return 1 if n_codes < THREADED else threads


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
