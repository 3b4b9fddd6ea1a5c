"""loader.batch_size=auto: the size is found by memory, once, and no number depends on it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.activations import write_activations
from pipeline.models.agreement import deviation
from pipeline.models.batch_size import LARGEST, Pieces, is_out_of_memory
from pipeline.models.loaded import Loaded
from pipeline.models.weights import seeded


class Small(nn.Module):
    """A network on a device that takes at most `fits` images at once."""

    def __init__(self, fits: int) -> None:
        super().__init__()
        self.fits, self.tried = fits, list[int]()
        with seeded(0):
            self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, images: Tensor) -> Tensor:
        self.tried.append(len(images))
        if len(images) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has ...")
        return self.conv(images).relu()


def transform(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255)


def activations(model: Small, pictures: list[Image.Image], path: Path, batch_size: object) -> np.ndarray:
    write_activations(
        Loaded(model, transform, input_size=40, n_prefix_tokens=0),
        pictures,
        ["conv"],
        {"conv": path},
        pool="avg",
        dtype="float32",
        batch_size=batch_size,  # type: ignore[arg-type]
        workers=0,
        device="cpu",
        precision="float32",
        tf32=False,
        threads=1,
        progress=False,
    )
    return np.load(path, allow_pickle=False)


@pytest.mark.parametrize("fits", [1, 2, 3, 5, 11, 100])
def test_the_numbers_are_those_of_any_other_size(
    fits: int, pictures: list[Image.Image], tmp_path: Path
) -> None:
    plain = activations(Small(100), pictures, tmp_path / "a.npy", 4)
    found = activations(Small(fits), pictures, tmp_path / "b.npy", "auto")
    assert found.shape == (11, 8)
    assert deviation(found, plain).relative < 1e-6


def test_a_size_is_halved_until_it_fits_and_never_tried_again(
    pictures: list[Image.Image], tmp_path: Path
) -> None:
    model = Small(3)
    activations(model, pictures, tmp_path / "a.npy", "auto")
    assert model.tried == [11, 6, 3, 3, 3, 2]


def test_the_search_is_bounded() -> None:
    tried: list[int] = []

    def run(rows: slice) -> None:
        tried.append(rows.stop - rows.start)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried")

    with pytest.raises(torch.OutOfMemoryError):
        list(Pieces("auto", "cuda").over(10_000, run))
    assert tried == [LARGEST // 2**i for i in range(9)]


def test_a_given_size_that_does_not_fit_is_a_message_with_the_key(
    pictures: list[Image.Image], tmp_path: Path
) -> None:
    model = Small(3)
    with pytest.raises(
        AssayError, match=r"device=cpu: CUDA out of memory; lower loader\.batch_size=8 .* auto"
    ):
        activations(model, pictures, tmp_path / "a.npy", 8)
    assert model.tried == [8]


def test_one_image_that_does_not_fit_is_a_message(pictures: list[Image.Image], tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="too little for one input: take device=cpu"):
        activations(Small(0), pictures, tmp_path / "a.npy", "auto")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("x"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_which_errors_are_of_memory(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory


def test_another_error_is_not_taken_for_memory() -> None:
    def run(rows: slice) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="multiplied"):
        list(Pieces("auto", "cpu").over(8, run))


def test_images_for_a_gpu_come_from_pinned_memory(
    pictures: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.models import images

    asked: list[bool] = []
    real: Callable[..., object] = images.loader

    def loader(*given: object, pin_memory: bool, **options: object) -> object:
        asked.append(pin_memory)
        return real(*given, **options)

    monkeypatch.setattr(images, "loader", loader)
    for kind in ("cpu", "cuda"):
        found = images.batches(pictures, transform, batch_size=4, workers=0, device=torch.device(kind))
        if kind == "cpu":
            next(iter(found))
        else:
            with pytest.raises((RuntimeError, AssertionError)):
                next(iter(found))
    assert asked == [False, True]
