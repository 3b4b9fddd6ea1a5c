"""The image towers of the open_clip library."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from pipeline.models.loaded import Loaded
from pipeline.models.open_clip_weights import architecture, build, find_weights, transform
from pipeline.models.weights import seeded


class ImageTower(nn.Module):
    """The visual tower of a model, so that layers have the names that they have in the whole."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor) -> Any:
        """Map (B, 3, H, W) to the pooled and projected embeddings (B, d), whatever their length."""
        return self.visual(images)


def load(*, arch: str, weights: Mapping[str, Any], input_size: int | None) -> Loaded:
    """Load the image tower of a built-in open_clip architecture with the transform of its weights.

    Layers are module paths from `visual`, such as visual.transformer.resblocks.11.mlp.gelu; the layer
    `visual` itself is the embedding, pooled and projected, not scaled to length 1. `weights` are the
    settings of the config (source hub, file or random). A file is read with the open_clip_config.json
    beside it, as in a hub repository. Another `input_size` resizes the positions. Raises AssayError for an
    unknown architecture or tag, for weights that do not fit, and where the weights were trained with
    another activation function (QuickGELU) or it cannot be known.
    """
    known = architecture(arch, "model.arch")
    found = find_weights(known, weights)
    with seeded(weights.get("seed", 0)):
        tower = ImageTower(build(known, found, input_size).visual)
    settings: dict[str, Any] = dict(tower.visual.preprocess_cfg)  # type: ignore[arg-type]
    size = settings["size"]
    side = int(size if isinstance(size, int) else size[0])
    return Loaded(tower.eval(), transform(settings), side, n_prefix_tokens=_n_prefix_tokens(tower.visual))


def _n_prefix_tokens(visual: nn.Module) -> int:
    if hasattr(visual, "class_embedding"):
        return 1
    return int(getattr(getattr(visual, "trunk", None), "num_prefix_tokens", 0) or 0)
