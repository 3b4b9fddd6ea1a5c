"""Batches of transformed images, in the order of the image table."""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from pipeline.errors import AssayError

Transform = Callable[[Image.Image], Tensor]
Item = tuple[Tensor | None, str]


class Images(Protocol):
    """RGB images by position: row i of every array is image i."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Image.Image: ...


class TransformedImages(Dataset[Item]):
    """Images after the model's transform; an unreadable one becomes the text of its error.

    A loader process may not raise: its error would reach the user with a traceback inside.
    """

    def __init__(self, images: Images, transform: Transform) -> None:
        self.images = images
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        try:
            return self.transform(self.images[index]), ""
        except AssayError as error:
            return None, str(error)


def collate(items: list[Item]) -> Item:
    """Stack B images (3, H, W) into (B, 3, H, W), or pass on the first error."""
    tensors = [tensor for tensor, _ in items if tensor is not None]
    if len(tensors) == len(items):
        return torch.stack(tensors), ""
    return None, next(message for tensor, message in items if tensor is None)


def loader(
    images: Images, transform: Transform, *, batch_size: int, workers: int, pin_memory: bool = False
) -> "DataLoader[Item]":
    """Return a loader that keeps the order and leaves the global random state alone."""
    return DataLoader(
        TransformedImages(images, transform),
        batch_size=batch_size,
        num_workers=workers,
        collate_fn=collate,
        pin_memory=pin_memory,
        generator=torch.Generator(),
    )


def batches(
    images: Images,
    transform: Transform,
    *,
    batch_size: int,
    workers: int,
    device: torch.device,
    progress: str = "",
) -> Iterator[tuple[slice, Tensor]]:
    """Yield (rows, images (B, 3, H, W)) on `device`, channels last, until every image was seen.

    `progress` names the bar on standard error; "" shows none. Raises AssayError where there is
    no image at all, and the reader's own AssayError where an image cannot be read.
    """
    if len(images) == 0:
        raise AssayError("there are zero images to run the model on; check dataset.root and dataset.splits")
    pin_memory = device.type == "cuda"
    source = loader(images, transform, batch_size=batch_size, workers=workers, pin_memory=pin_memory)
    start = 0
    with tqdm(total=len(images), desc=progress, unit="image", disable=not progress) as bar:
        for batch, message in source:
            if batch is None:
                raise AssayError(message)
            rows = slice(start, start + len(batch))
            yield rows, batch.to(device, memory_format=torch.channels_last, non_blocking=True)
            start = rows.stop
            bar.update(len(batch))
