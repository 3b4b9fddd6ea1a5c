"""Measure speed and agreement on a GPU: `python scripts/gpu_check.py`.

Each computation runs on the CPU in float32 and then on the device at each precision. A table shows the
largest deviation, the median one, what share of the numbers' scale the largest is, whether that is within the
stated tolerance (pipeline/models/agreement.py), the speed, and the device's peak memory. Exit code 1 where a
tolerance is broken, 0 with a reason where there is no GPU. `--device cpu --precision bfloat16 --small` tries
the script itself where there is none. All weights are random: agreement and speed need no trained ones.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from pipeline.matching.fbmp import fbmp
from pipeline.models import timm
from pipeline.models.agreement import Deviation, deviation
from pipeline.models.capture import capture
from pipeline.models.device import inference
from pipeline.models.weights import seeded
from pipeline.saes.encoding import encode_csr
from pipeline.saes.training import fit_together
from pipeline.scorers import open_clip
from pipeline.scorers.calibration import probabilities
from pipeline.vlms.game import VlmGame
from pipeline.vlms.tiny_llava import TinyLlava, TinyShape, build
from pipeline.vlms.vlm import Answer
from pipeline.vqa.shape_questions import WORDS
from pipeline.vqa.shapes_vqa import read

PRECISIONS = ("float32", "tf32", "bfloat16")
RANDOM = {"source": "random", "seed": 0}
SCALE, SHIFT = 20.0, -0.1
"""A calibration that spreads probabilities over (0, 1)."""
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Size:
    """How much each check computes."""

    conv: tuple[str, str]
    vit: tuple[str, str]
    scorer: str
    n_images: int
    batch_size: int
    n_rows: int
    d: int
    n_latents: int
    n_states: int
    side: int


LARGE = Size(
    ("resnet50", "layer4"), ("vit_base_patch16_224", "blocks.11"), "ViT-B-32",
    2048, 128, 65_536, 768, 8192, 2000, 336,
)  # fmt: skip
SMALL = Size(
    ("test_resnet", "layer4"), ("test_vit", "blocks.5"), "ViT-S-32-alt", 16, 8, 512, 24, 64, 60, 64
)  # fmt: skip


@dataclass(frozen=True)
class Mode:
    """Where and how exactly something is computed."""

    device: str
    precision: str

    @property
    def numerics(self) -> dict[str, Any]:
        """The settings as the library takes them: TF32 is float32 with other products."""
        tf32 = self.precision == "tf32"
        return {"precision": "float32" if tf32 else self.precision, "tf32": tf32}

    @property
    def dtype(self) -> str:
        """The type of a language model's weights."""
        return str(self.numerics["precision"])


@dataclass(frozen=True)
class Check:
    """A computation: its name, what it counts, how many of them, and what it returns in a mode."""

    name: str
    unit: str
    n: int
    run: Callable[[Mode], Array]


@dataclass(frozen=True)
class Row:
    """What one check gave in one mode."""

    check: Check
    mode: Mode
    found: Deviation
    seconds: float
    peak_bytes: int


REFERENCE = Mode("cpu", "float32")


def checks(size: Size) -> Iterator[Check]:
    """Yield the checks, cheapest first."""
    yield Check(
        f"activations {size.conv[0]}", "images", size.n_images, partial(activations, *size.conv, size)
    )
    yield Check(f"activations {size.vit[0]}", "images", size.n_images, partial(activations, *size.vit, size))
    yield Check("scorer probabilities", "images", size.n_images, partial(scorer_probabilities, size))
    yield Check("SAE training, reconstruction", "rows", 3 * size.n_rows, partial(sae_reconstruction, size))
    yield Check("FBMP of its codes, F1", "attributes", 64, partial(matching_f1, size))
    yield Check("F_syn states", "states", size.n_states, partial(states, size))


def activations(arch: str, layer: str, size: Size, mode: Mode) -> Array:
    """Return a layer's pooled activations (N, U)."""
    model = timm.load(arch=arch, weights=RANDOM, input_size=None)
    with inference(mode.device, **mode.numerics) as target:
        module = model.module.to(target).to(memory_format=torch.channels_last)
        with capture(module, [layer], "avg", n_prefix_tokens=model.n_prefix_tokens) as forward:
            batches = pictures(size.n_images, model.input_size).split(size.batch_size)
            found = [forward(each.to(target))[layer].cpu() for each in batches]
    return torch.cat(found).numpy()


@cache
def pictures(n: int, side: int) -> torch.Tensor:
    """Return n random images (n, 3, side, side) of coarse and fine structure, about standardised."""
    rng = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, 3, 7, 7, generator=rng)
    fine = torch.rand(n, 3, side // 4, side // 4, generator=rng)
    parts = [torch.nn.functional.interpolate(each, (side, side), mode="bilinear") for each in (coarse, fine)]
    return (parts[0] + 0.3 * parts[1] - 0.65) * 3


def scorer_probabilities(size: Size, mode: Mode) -> Array:
    """Return P(text is true of image) (N, 8) of an open_clip model without training."""
    scorer = untrained_scorer(size.scorer)
    texts = scorer.embed_texts([f"thing {i}" for i in range(8)], device=mode.device, **mode.numerics)
    blocks = []
    with inference(mode.device, **mode.numerics) as target:
        model: Any = scorer.model.to(target)
        for each in pictures(size.n_images, 224).split(size.batch_size):
            blocks.append(model.encode_image(each.to(target)).float().cpu().numpy())
    images = np.concatenate(blocks)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    return probabilities(images, texts, SCALE, SHIFT)


@cache
def untrained_scorer(arch: str) -> Any:
    """Return an open_clip model without training, one for all modes."""
    return open_clip.load(arch=arch, weights=RANDOM, template="a photo of {}")


@cache
def rows_and_attributes(size: Size) -> tuple[Array, NDArray[np.bool_]]:
    """Return rows (n, d) that are sparse sums of 64 directions, and which directions each has."""
    rng = np.random.default_rng(0)
    present = rng.random((size.n_rows, 64)) < 0.06
    directions = rng.standard_normal((64, size.d))
    noise = 0.05 * rng.standard_normal((size.n_rows, size.d))
    return ((present * rng.uniform(0.5, 1.5, present.shape)) @ directions + noise).astype(np.float32), present


def _trained(size: Size, mode: Mode) -> Any:
    rows, _ = rows_and_attributes(size)
    settings = {
        "name": "topk", "dictionary_size": size.n_latents, "k": 4, "epochs": 3, "batch_size": 256,
        "patience": None, "seed": 0,
    }  # fmt: skip
    options = {"device": mode.device, "threads": torch.get_num_threads(), **mode.numerics}
    (trained,) = fit_together(rows, rows[: len(rows) // 4], [settings], **options)
    return trained.sae


def sae_reconstruction(size: Size, mode: Mode) -> Array:
    """Return the explained variance (1,) after three epochs of training; single codes may differ by ties."""
    rows, _ = rows_and_attributes(size)
    found = _trained(size, mode).to("cpu").reconstruct(rows)
    return np.array(
        [1 - np.square(np.asarray(found) - rows).sum() / np.square(rows - rows.mean(axis=0)).sum()]
    )


def matching_f1(size: Size, mode: Mode) -> Array:
    """Return the mean F1 (1,) of each attribute's coalition, of codes that the mode computes of one SAE."""
    rows, present = rows_and_attributes(size)
    codes = encode_csr(reference_sae(size), rows, device=mode.device, **mode.numerics)
    return np.array([np.mean([path.max(initial=0) for path in fbmp(codes, present).f1])])


@cache
def reference_sae(size: Size) -> Any:
    """Return one SAE for all modes."""
    return _trained(size, REFERENCE)


def states(size: Size, mode: Mode) -> Array:
    """Return f (S,) of random states of one question to a small LLaVA."""
    shape = TinyShape(words=tuple(WORDS), side=size.side, width=64)
    (sample,) = read(n_samples=1, seed=0)
    with seeded(0):
        module: Any = build(shape, "eager")
    vlm = TinyLlava(module.to(mode.device, getattr(torch, mode.dtype)), shape, attention="eager")
    prepared = vlm.prepare(sample.image(), sample.question)
    rng = np.random.default_rng(0)
    patches = rng.random((size.n_states, prepared.n_patches)) < 0.5
    tokens = rng.random((size.n_states, prepared.n_tokens)) < 0.5
    game = VlmGame(vlm, prepared, Answer(np.array([10]), "", 0.0), batch_size="auto")
    with inference(mode.device, tf32=mode.numerics["tf32"]):
        return game(patches, tokens)


def measured(check: Check, mode: Mode, expected: Array) -> Row:
    """Run a check once to warm up and once on the clock."""
    check.run(mode)
    on_gpu = mode.device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    found = check.run(mode)
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    return Row(check, mode, deviation(found, expected), seconds, peak)


def table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    shown = Table()
    for name in (
        "computation",
        "device",
        "precision",
        "largest",
        "median",
        "of scale",
        "within",
        "speed",
        "peak",
    ):
        shown.add_column(name, justify="left" if name in ("computation", "device", "precision") else "right")
    for row in rows:
        within = "yes" if row.found.within(row.mode.precision) else "NO"
        speed = f"{row.check.n / row.seconds:,.0f} {row.check.unit}/s"
        peak = f"{row.peak_bytes / 2**20:,.0f} MiB" if row.peak_bytes else ""
        numbers = (f"{row.found.largest:.2g}", f"{row.found.median:.2g}", f"{row.found.relative:.2g}")
        shown.add_row(row.check.name, row.mode.device, row.mode.precision, *numbers, within, speed, peak)
    return shown


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", nargs="+", choices=[*PRECISIONS, "float16"], default=PRECISIONS)
    parser.add_argument("--small", action="store_true", help="Tiny sizes: to try the script.")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Print the table; return the exit code."""
    asked = arguments(given)
    if asked.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"no GPU: torch {torch.__version__} sees no CUDA device here, so nothing is measured")
        return 0
    if asked.device.startswith("cuda"):
        print(f"{torch.cuda.get_device_name(asked.device)}, torch {torch.__version__}")
    rows = []
    for check in checks(SMALL if asked.small else LARGE):
        expected = check.run(REFERENCE)
        rows += [measured(check, Mode(asked.device, precision), expected) for precision in asked.precision]
        print(f"{check.name}: done", file=sys.stderr, flush=True)
    Console(width=150).print(table(rows))
    broken = [row for row in rows if not row.found.within(row.mode.precision)]
    for row in broken:
        print(f"broken: {row.check.name} at {row.mode.precision}: {row.found.relative:.2g} of the scale")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
