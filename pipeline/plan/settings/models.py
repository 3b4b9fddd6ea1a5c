"""Settings of weights, models and scorers."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipeline.plan.settings.base import Count, Seed, Settings


def _revision(value: str) -> str:
    if len(value) != 40 or set(value) - set("0123456789abcdef"):
        raise ValueError(
            f"revision {value!r} is not a 40-digit commit hash; a tag or branch may move, so pin the commit "
            "(on the model's hub page under 'Files', 'History')"
        )
    return value


class HubWeights(Settings):
    """Weights from the hub: a pretrained tag and the commit it was read at."""

    source: Literal["hub"]
    tag: str
    revision: Annotated[str, AfterValidator(_revision)]


class TorchvisionWeights(Settings):
    """Weights that torchvision names; the file's name holds its checksum."""

    source: Literal["torchvision"]
    tag: str


class FileWeights(Settings):
    """Weights in a local file (.safetensors, .pth, .pt), known by their SHA-256."""

    source: Literal["file"]
    path: Path
    match: Literal["name", "order"] = "name"


class PackageWeights(Settings):
    """Weights that a Python package ships; tensors are matched by order, every shape checked."""

    source: Literal["package"]
    package: str
    file: str


class RandomWeights(Settings):
    """Untrained weights: a control."""

    source: Literal["random"]
    seed: Seed = 0


Pool = Literal["avg", "max", "cls", "none"]
Stored = Literal["float32", "float16"]


class TimmSettings(Settings):
    """Any timm model."""

    name: Literal["timm"]
    arch: str
    weights: Annotated[
        HubWeights | FileWeights | PackageWeights | RandomWeights, Field(discriminator="source")
    ]
    input_size: Count | None = None
    pool: Pool = "avg"
    dtype: Stored = "float32"


class TorchvisionSettings(Settings):
    """Any torchvision classification model."""

    name: Literal["torchvision"]
    arch: str
    weights: Annotated[TorchvisionWeights | FileWeights | RandomWeights, Field(discriminator="source")]
    input_size: Count | None = None
    pool: Pool = "avg"
    dtype: Stored = "float32"


class OpenClipModelSettings(Settings):
    """The image tower of any open_clip model."""

    name: Literal["open_clip"]
    arch: str
    weights: Annotated[HubWeights | FileWeights | RandomWeights, Field(discriminator="source")]
    input_size: Count | None = None
    pool: Pool = "avg"
    dtype: Stored = "float32"


class FixedCalibration(Settings):
    """P = sigmoid(a (cos + b)) with given a and b (spec: SigLIP)."""

    source: Literal["fixed"]
    a: float
    b: float


class FittedCalibration(Settings):
    """a and b fitted by maximum likelihood to the attributes of one split."""

    source: Literal["fitted"]
    split: Literal["train", "validation"] = "validation"


Calibration = Annotated[FixedCalibration | FittedCalibration, Field(discriminator="source")]


class OpenClipSettings(Settings):
    """Any open_clip model, with its calibration to probabilities."""

    name: Literal["open_clip"]
    arch: str
    weights: Annotated[HubWeights | FileWeights | RandomWeights, Field(discriminator="source")]
    template: str = "{}"
    calibration: Calibration


class SiglipTinySettings(Settings):
    """A small scorer trained here on the training split's captions."""

    name: Literal["siglip_tiny"]
    image_arch: str
    image_weights: Annotated[
        HubWeights | FileWeights | PackageWeights | RandomWeights, Field(discriminator="source")
    ]
    input_size: Count
    width: Count
    epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    seed: Seed
    calibration: Calibration


class DinoTextSettings(Settings):
    """A DINOv3 image network with its dino.txt head and text encoder, from local files."""

    name: Literal["dino_text"]
    arch: str
    weights: FileWeights
    text_weights: FileWeights
    input_size: Count = 224
    template: str = "{}"
    calibration: Calibration


class SharedScorerSettings(Settings):
    """The explainer sees images with the judge's scorer."""

    name: Literal["shared"]
