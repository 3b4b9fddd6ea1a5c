"""How many inputs run at once: as many as were asked for, or as many as the device's memory takes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import torch
from torch import Tensor

from pipeline.errors import AssayError

BatchSize = int | Literal["auto"]
Result = TypeVar("Result")
LARGEST = 256
"""Where "auto" begins; from there a size that does not fit is halved, eight times at most."""
OUT_OF_MEMORY = ("out of memory", "can't allocate memory")
"""What the errors of devices without an error of their own say."""


def at_once(batch_size: BatchSize) -> int:
    """Return how many images a loader hands over at once."""
    return LARGEST if batch_size == "auto" else batch_size


class Pieces:
    """Cuts batches into pieces that fit the device. With "auto" a size that did not fit is never tried again.

    Only the speed depends on the size; numbers do no more than float32 sums depend on their order.
    """

    def __init__(self, batch_size: BatchSize, device: str) -> None:
        self.size = at_once(batch_size)
        self._given, self._device = batch_size, device

    def over(self, n: int, run: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """Yield (rows, what `run` returns of them) until n rows were run.

        The device's own error comes through where a given size does not fit, and where one row does not.
        """
        start = 0
        while start < n:
            rows = slice(start, min(start + self.size, n))
            try:
                found = [run(rows)]
            except RuntimeError as error:
                if not self._may_halve(error, rows):
                    raise
                found = []
            if found:
                yield rows, found[0]
                start = rows.stop
            else:  # the error is gone by now, and with it the frames that hold the memory
                self._halve(rows)

    def through(
        self, batches: Iterable[tuple[slice, Tensor]], run: Callable[[Tensor], Result]
    ) -> Iterator[tuple[slice, Result]]:
        """Yield (rows, what `run` returns of their inputs) of every batch.

        Raises AssayError where `over` lets the device's error through.
        """
        try:
            for rows, batch in batches:
                for piece, found in self.over(len(batch), _of_rows(run, batch)):
                    yield slice(rows.start + piece.start, rows.start + piece.stop), found
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise AssayError(self._told(str(error))) from error

    def _may_halve(self, error: RuntimeError, rows: slice) -> bool:
        return is_out_of_memory(error) and self._given == "auto" and rows.stop - rows.start > 1

    def _halve(self, rows: slice) -> None:
        self.size = (rows.stop - rows.start + 1) // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _told(self, said: str) -> str:
        first = said.split(". ")[0].splitlines()[0]
        if self._given == "auto":
            fix = "it is too little for one input: take device=cpu"
        else:
            fix = f"lower loader.batch_size={self._given} or set it to auto, which changes speed alone"
        return f"device={self._device}: {first}; {fix}; numerics.precision and the input size change results"


def _of_rows(run: Callable[[Tensor], Result], batch: Tensor) -> Callable[[slice], Result]:
    return lambda rows: run(batch[rows])


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error of torch is that a device has too little memory."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in OUT_OF_MEMORY)
