"""The two files of dino.txt's release, every tensor of them put into its module."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.weights import State, local_path, read, seeded
from pipeline.scorers.dino_text_towers import HEAD_WIDTH, Sizes, TextHeads

HEAD, TEXT = "visual_model.head.", "text_model.backbone."
PROJECTION = "text_model.head.linear_projection.weight"
TIMM_NAMES = (("storage_tokens", "reg_token"), (".ls1.gamma", ".gamma_1"), (".ls2.gamma", ".gamma_2"))
PERIODS, MASK_TOKEN = "rope_embed.periods", "mask_token"
BIAS, BIAS_MASK = ".attn.qkv.bias", ".attn.qkv.bias_mask"
PERIOD_TOLERANCE = 0.01
"""The release holds the periods in bfloat16, which has 8 bits; another base differs by far more."""
SHOWN = 5


def load_network(arch: str, weights: Mapping[str, Any]) -> Any:
    """Return timm's DINOv3 `arch` with the tensors of the released backbone file.

    `mask_token` alone is left out: it stands for masked patches in training. Raises AssayError for an
    unknown architecture, a file that cannot be read, and tensors that are missing, unknown, of another shape,
    or that timm's network has no place for (a bias of the keys).
    """
    known = timm.list_models("*dinov3*")
    if arch not in known:
        near = difflib.get_close_matches(arch, known, n=3)
        raise AssayError(f"scorer.arch={arch!r} is not a DINOv3 network of timm; nearest: {near or known}")
    path, state = _state(weights, "weights")
    state.pop(MASK_TOKEN, None)
    periods = _needed(state, PERIODS, path)
    del state[PERIODS]
    biased = any(name.endswith(BIAS) for name in state)
    with seeded(0):
        network: Any = timm.create_model(arch, num_classes=0, qkv_bias=biased)
    _set_periods(network.rope.periods, periods, path)
    _fill(network, _timm_names(state, path), path)
    return network


def load_heads(weights: Mapping[str, Any], image_width: int) -> TextHeads:
    """Return the vision head and the text encoder of the released file; its shapes say how large they are.

    Raises AssayError for a file that cannot be read, for tensors that are missing, unknown or of another
    shape, and for a head that was trained on a network of another width than `image_width`.
    """
    path, state = _state(weights, "text_weights")
    sizes = _sizes(state, path)
    if sizes.image_width != image_width or sizes.n_dimensions != 2 * image_width:
        raise AssayError(
            f"{path}: its vision head is {sizes.image_width} wide and its texts have {sizes.n_dimensions} "
            f"dimensions; an image network of width {image_width} needs {image_width} and {2 * image_width}; "
            "check scorer.arch and scorer.text_weights"
        )
    with torch.device("meta"):
        heads = TextHeads(sizes)
    _fill(heads, {name: value.float() for name, value in state.items()}, path, assign=True)
    return heads


def _state(weights: Mapping[str, Any], key: str) -> tuple[Path, State]:
    """Return the file that scorer.`key` names, and its tensors."""
    if weights["source"] != "file" or weights.get("match", "name") != "name":
        raise AssayError(f"scorer.{key}: dino_text reads local files, tensors matched by name (source: file)")
    try:
        path = local_path(weights)
        return path, read(path)
    except AssayError as error:
        raise AssayError(f"scorer.{key}: {error}") from None


def _sizes(state: State, path: Path) -> Sizes:
    def length(name: str, axis: int = 0) -> int:
        return int(_needed(state, name, path).shape[axis])

    def blocks(prefix: str) -> int:
        start = f"{prefix}blocks."
        return len({name.removeprefix(start).split(".")[0] for name in state if name.startswith(start)})

    sizes = Sizes(
        image_width=length(f"{HEAD}ln_final.weight"),
        image_hidden=length(f"{HEAD}blocks.0.mlp.w1.weight"),
        image_blocks=blocks(HEAD),
        text_width=length(f"{TEXT}token_embedding.weight", 1),
        text_hidden=length(f"{TEXT}blocks.0.feed_forward.fc1.weight"),
        text_blocks=blocks(TEXT),
        n_words=length(f"{TEXT}token_embedding.weight"),
        context_length=length(f"{TEXT}positional_embedding"),
        n_dimensions=length(PROJECTION),
    )
    for width in (sizes.image_width, sizes.text_width):
        if width % HEAD_WIDTH:
            raise AssayError(
                f"{path}: a width of {width} is no multiple of {HEAD_WIDTH}, an attention head's"
            )
    return sizes


def _needed(state: State, name: str, path: Path) -> Tensor:
    if name in state:
        return state[name]
    shown = ", ".join(list(state)[:SHOWN])
    raise AssayError(
        f"{path}: no tensor {name}; it holds {len(state)} others ({shown}, ...). scorer.weights is the "
        "released backbone, scorer.text_weights the released vision head and text encoder"
    )


def _timm_names(state: State, path: Path) -> State:
    """Return the backbone's tensors under timm's names; masked biases are multiplied by their mask."""
    renamed: State = {}
    for name, value in state.items():
        if name.endswith(BIAS):
            mask = state.get(f"{name}_mask", torch.ones_like(value))
            query, key, values = (value * mask).float().chunk(3)
            if not torch.equal(key, torch.zeros_like(key)):
                raise AssayError(f"{path}: {name} has a bias of the keys, and timm's DINOv3 has none")
            stem = name.removesuffix("qkv.bias")
            renamed |= {f"{stem}q_bias": query, f"{stem}v_bias": values}
        elif not (name.endswith(BIAS_MASK) and name.removesuffix("_mask") in state):
            renamed[_swapped(name)] = value
    return renamed


def _swapped(name: str, back: bool = False) -> str:
    for theirs, ours in TIMM_NAMES:
        name = name.replace(ours, theirs) if back else name.replace(theirs, ours)
    return name


def _set_periods(ours: Tensor, theirs: Tensor, path: Path) -> None:
    """Take the rounded periods that the network was trained with, where they are those of this network."""
    same = ours.shape == theirs.shape and torch.allclose(ours, theirs.float(), rtol=PERIOD_TOLERANCE, atol=0)
    if not same:
        raise AssayError(f"{path}: {PERIODS} are not the rotary periods of this network; check scorer.arch")
    ours.copy_(theirs)


def _fill(module: nn.Module, state: State, path: Path, *, assign: bool = False) -> None:
    target = module.state_dict()
    wrong = {
        "missing": target.keys() - state.keys(),
        "unknown": state.keys() - target.keys(),
        "of another shape": {n for n in target.keys() & state.keys() if target[n].shape != state[n].shape},
    }
    found = [f"{what}: {_listed(names)}" for what, names in wrong.items() if names]
    if found:
        raise AssayError(
            f"{path} does not fit; tensors {'; '.join(found)}. Take the released file, and the scorer.arch "
            "that it is of"
        )
    module.load_state_dict(state, assign=assign)


def _listed(names: set[str]) -> str:
    shown = [_swapped(name, back=True) for name in sorted(names)[:SHOWN]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
