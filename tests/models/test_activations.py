import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from pipeline.errors import AssayError
from pipeline.models.activations import write_activations
from pipeline.models.device import choose, inference
from pipeline.models.loaded import Loaded
from pipeline.models.timm import load

DEFAULTS: dict[str, Any] = {
    "pool": "avg",
    "dtype": "float32",
    "batch_size": 4,
    "workers": 0,
    "device": "cpu",
    "precision": "float32",
    "tf32": False,
    "threads": 1,
    "progress": False,
}
LAYERS = ["layer2", "layer4"]


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load(arch="test_resnet", weights={"source": "random", "seed": 1}, input_size=64)


def written(loaded: Loaded, images: Any, folder: Path, layers: list[str] = LAYERS, **changed: Any) -> Any:
    outputs = {layer: folder / f"{layer}.npy" for layer in layers}
    write_activations(loaded, images, layers, outputs, **{**DEFAULTS, **changed})
    return {layer: np.load(path, allow_pickle=False) for layer, path in outputs.items()}


def plain(loaded: Loaded, layer: str, picture: Image.Image) -> Any:
    seen: list[torch.Tensor] = []
    submodule = loaded.module.get_submodule(layer)
    hook = submodule.register_forward_hook(lambda _m, _i, output: seen.append(output.clone()))
    with torch.inference_mode():
        loaded.module(loaded.transform(picture)[None])
    hook.remove()
    return seen[0].mean((2, 3)).numpy()


def test_every_layer_equals_a_plain_forward_pass_image_by_image(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path
) -> None:
    got = written(loaded, pictures, tmp_path)
    for layer in LAYERS:
        expected = np.concatenate([plain(loaded, layer, picture) for picture in pictures])
        assert got[layer].dtype == np.float32 and got[layer].shape == expected.shape
        np.testing.assert_allclose(got[layer], expected, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 11, 64])
def test_batch_size_changes_nothing_beyond_rounding(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path, batch_size: int
) -> None:
    got = written(loaded, pictures, tmp_path, batch_size=batch_size)
    expected = written(loaded, pictures, tmp_path)
    for layer in LAYERS:
        np.testing.assert_allclose(got[layer], expected[layer], rtol=1e-4, atol=1e-6)


def test_workers_change_no_bit(loaded: Loaded, pictures: list[Image.Image], tmp_path: Path) -> None:
    none, two = written(loaded, pictures, tmp_path), written(loaded, pictures, tmp_path, workers=2)
    assert all(np.array_equal(none[layer], two[layer]) for layer in LAYERS)


def test_another_layer_beside_it_changes_no_bit(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path
) -> None:
    both = written(loaded, pictures, tmp_path)
    alone = written(loaded, pictures, tmp_path, layers=["layer2"])
    assert np.array_equal(alone["layer2"], both["layer2"])


def test_float16_and_bfloat16_are_close_to_float32(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path
) -> None:
    exact = written(loaded, pictures, tmp_path)["layer4"]
    half = written(loaded, pictures, tmp_path, dtype="float16")["layer4"]
    brain = written(loaded, pictures, tmp_path, precision="bfloat16")["layer4"]
    assert half.dtype == np.float16 and brain.dtype == np.float32
    np.testing.assert_allclose(half, exact, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(brain, exact, rtol=0.2, atol=0.05 * np.abs(exact).max())
    assert not np.array_equal(brain, exact)


def test_settings_of_torch_come_back_and_the_random_state_is_left_alone(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    before = torch.random.get_rng_state()
    written(loaded, pictures, tmp_path, threads=1)
    with pytest.raises(AssayError):
        written(loaded, [], tmp_path, threads=1)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    torch.set_num_threads(1)


class Broken(nn.Module):
    """Gives each image's mean as two units, made bad where the image is white."""

    def __init__(self, bad: float) -> None:
        super().__init__()
        self.layer = nn.Identity()
        self.bad = bad

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x.mean((1, 2, 3))
        value = torch.where(value > 0.99, torch.full_like(value, self.bad), value)
        return self.layer(torch.stack([value, value], 1))


class Named(list[Image.Image]):
    """Images that know their names."""

    ids = ("a", "b", "c", "d", "e", "f")


def broken(bad: float) -> tuple[Loaded, Named]:
    from torchvision.transforms.functional import pil_to_tensor

    loaded = Loaded(Broken(bad), lambda image: pil_to_tensor(image).float() / 255, 8, 0)
    colours = ("black", "black", "black", "black", "white", "black")
    return loaded, Named(Image.new("RGB", (8, 8), colour) for colour in colours)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_an_activation_that_is_not_finite_names_layer_row_and_image(bad: float, tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=r"layer=layer: NaN or infinite activation at image row 4 \(e\)"):
        written(*broken(bad), tmp_path, layers=["layer"])


def test_float16_overflow_says_to_use_float32(tmp_path: Path) -> None:
    loaded, images = broken(7e4)
    with pytest.raises(AssayError, match=r"7e\+04 does not fit float16 at image row 4 \(e\); use model"):
        written(loaded, images, tmp_path, layers=["layer"], dtype="float16")
    assert written(loaded, images, tmp_path, layers=["layer"])["layer"][4, 0] == 7e4


def test_zero_images_and_an_unknown_layer_are_refused_before_anything_is_written(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path
) -> None:
    with pytest.raises(AssayError, match="zero images"):
        written(loaded, [], tmp_path)
    with pytest.raises(AssayError, match="layer4"):
        written(loaded, pictures, tmp_path, layers=["layer5"])
    assert list(tmp_path.iterdir()) == []


class Unreadable:
    """Ten images, of which number 7 cannot be read."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Image.Image:
        if index == 7:
            raise AssayError("image 'seven' (7.png) cannot be decoded")
        return Image.new("RGB", (64, 64))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_gives_its_own_message_from_any_process(
    loaded: Loaded, tmp_path: Path, workers: int
) -> None:
    with pytest.raises(AssayError) as caught:
        written(loaded, Unreadable(), tmp_path, workers=workers)
    assert str(caught.value) == "image 'seven' (7.png) cannot be decoded"


class Endless:
    """Many images, one at a time."""

    def __init__(self, n_images: int) -> None:
        self.n_images = n_images
        self.image = Image.new("RGB", (64, 64))

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, index: int) -> Image.Image:
        return self.image


def test_memory_is_bounded_by_the_batch(loaded: Loaded, tmp_path: Path) -> None:
    import psutil

    process = psutil.Process(os.getpid())
    written(loaded, Endless(64), tmp_path, batch_size=16)
    before = process.memory_info().rss
    written(loaded, Endless(1600), tmp_path, batch_size=16)
    grown = process.memory_info().rss - before
    inputs = 1600 * 3 * 64 * 64 * 4
    assert grown < inputs / 4


def test_progress_goes_to_standard_error(
    loaded: Loaded, pictures: list[Image.Image], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(loaded, pictures, tmp_path, progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "11/11" in shown.err


def test_a_device_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert choose("auto").type in ("cpu", "mps")
    with pytest.raises(AssayError, match="device=cuda:1"), inference("cuda:1"):
        pass
