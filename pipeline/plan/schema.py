"""What a config may say: one typed model per variant, so that 1 and 1.0 are one value.

A group's `name` chooses the variant; each variant's settings are the keyword arguments of its
module's function, field by field. `CONTENT` says which files stand behind a path, stage by stage:
in a key a path is replaced by the checksums of those files.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Content = dict[str, dict[str, tuple[str, ...]]]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
IMAGE_FILES = tuple(f"**/*.{suffix}" for suffix in ("png", "jpg", "jpeg", "webp", "bmp", "gif"))
"""Suffixes at any depth, in any case."""


class Settings(BaseModel):
    """The base: an unknown key is an error, and nothing changes after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    CONTENT: ClassVar[Content] = {}


class Splits(Settings):
    """Shares of the images by split; what is left out of 1 belongs to no split."""

    train: Fraction = 0.4
    validation: Fraction = 0.1
    test: Fraction = 0.5

    @model_validator(mode="after")
    def _sum(self) -> Self:
        if (total := self.train + self.validation + self.test) > 1 + 1e-9:
            raise ValueError(f"train + validation + test is {total:.4g}; it must be at most 1")
        return self


# --- dataset -----------------------------------------------------------------------------------
class DatasetSettings(Settings):
    """What every dataset has: how images are split, and what an unreadable one does."""

    splits: Splits = Splits()
    split_seed: Seed = 0
    on_bad_image: Literal["stop", "skip"] = "stop"


class AttributeSettings(Settings):
    """Which attributes are kept: those with at least `min_count` positive images."""

    min_count: Annotated[int, Field(ge=0)] = 1


class ShapesSettings(DatasetSettings):
    """Rendered shapes with known factors."""

    name: Literal["shapes"]
    n_images: Count
    size: Annotated[int, Field(ge=16, le=1024)]
    seed: Seed
    labels: AttributeSettings = AttributeSettings()


class FolderSettings(DatasetSettings):
    """A folder of images, with images.csv and concepts.csv or with class subfolders."""

    name: Literal["folder"]
    root: Path
    labels: AttributeSettings = AttributeSettings()
    CONTENT: ClassVar[Content] = {
        "images": {"root": IMAGE_FILES},
        "labels": {"root": ("images.csv", "concepts.csv")},
    }


class ImagenetValSettings(DatasetSettings):
    """ImageNet validation images in any of the layouts that people have."""

    name: Literal["imagenet_val"]
    root: Path
    labels: AttributeSettings = AttributeSettings()
    CONTENT: ClassVar[Content] = {
        "images": {"root": (*IMAGE_FILES, "**/*.parquet")},
        "labels": {"root": ("**/*.txt", "**/*.mat", "**/*.csv", "**/*.parquet")},
    }


class ParquetAttributeSettings(AttributeSettings):
    """Columns of a table that hold labels and captions."""

    columns: tuple[str, ...] = ()
    caption_column: str | None = None


class ParquetSettings(DatasetSettings):
    """Parquet files with an image column."""

    name: Literal["parquet"]
    root: Path
    image_column: str = "image"
    id_column: str | None = None
    labels: ParquetAttributeSettings = ParquetAttributeSettings()
    CONTENT: ClassVar[Content] = {
        "images": {"root": ("**/*.parquet", *IMAGE_FILES)},
        "labels": {"root": ("**/*.parquet",)},
    }


class CubAttributeSettings(AttributeSettings):
    """Labels below this certainty (1 to 4) count as absent."""

    min_certainty: Annotated[int, Field(ge=1, le=4)] = 1


class CubSettings(DatasetSettings):
    """CUB-200-2011 in its official layout; a share of its training images, by class, validates."""

    name: Literal["cub"]
    root: Path
    validation_share: Fraction = 0.15
    validation_seed: Seed = 42
    labels: CubAttributeSettings = CubAttributeSettings()
    CONTENT: ClassVar[Content] = {
        "images": {
            "root": (
                *IMAGE_FILES,
                "**/images.txt",
                "**/train_test_split.txt",
                "**/image_class_labels.txt",
                "**/classes.txt",
            )
        },
        "labels": {"root": ("**/*.txt", "../attributes.txt")},
    }


class CocoAttributeSettings(AttributeSettings):
    """Whether an annotation also needs a mask that covers something."""

    masks: Literal["ignored", "non_empty"] = "ignored"


class CocoSettings(DatasetSettings):
    """COCO 2017: train2017, and val2017 halved into validation and test."""

    name: Literal["coco"]
    root: Path
    validation_seed: Seed = 42
    labels: CocoAttributeSettings = CocoAttributeSettings()
    CONTENT: ClassVar[Content] = {
        "images": {"root": (*IMAGE_FILES, "**/instances_train2017.json", "**/instances_val2017.json")},
        "labels": {
            "root": tuple(
                f"**/{kind}_{split}2017.json"
                for kind in ("instances", "captions")
                for split in ("train", "val")
            )
        },
    }


# --- weights and models ------------------------------------------------------------------------
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


# --- scorer ------------------------------------------------------------------------------------
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


# --- units and explanations --------------------------------------------------------------------
class NeuronSettings(Settings):
    """Which neurons of the layer are judged: a seeded sample, or those named."""

    name: Literal["neuron"]
    n: Count | None = None
    seed: Seed = 0
    indices: tuple[Annotated[int, Field(ge=0)], ...] | None = None


class CsvSettings(Settings):
    """Texts from a CSV file."""

    name: Literal["csv"]
    method: str
    path: Path
    unit_column: str = "unit"
    description_column: str = "description"
    layer_column: str | None = None
    first_unit: Literal[0, 1] = 0
    on_duplicate: Literal["stop", "first"] = "stop"


class ClipDissectSettings(Settings):
    """CLIP-Dissect with soft-WPMI."""

    name: Literal["clip_dissect"]
    vocabulary: Path | None = None
    split: Literal["train", "all"] = "train"
    top: Count = 100
    lam: float = 1.0
    temperature: Annotated[float, Field(gt=0)] = 10.0


class TopConceptSettings(Settings):
    """The concept whose labels correlate most with the unit."""

    name: Literal["top_concept"]
    split: Literal["train", "all"] = "train"


class RandomSettings(Settings):
    """A random concept for each unit: the control."""

    name: Literal["random"]
    seed: Seed = 0


# --- sampling, people, scores ------------------------------------------------------------------
class DrawingSettings(Settings):
    """Draws with or without replacement; coordinated: methods' draws for one unit share images."""

    n_inputs: Count
    seed: Seed = 0
    replacement: bool = True
    coordinated: bool = False

    @model_validator(mode="after")
    def _coordinated(self) -> Self:
        if self.coordinated and self.replacement:
            raise ValueError("coordinated draws are without replacement: give sampler.replacement=false")
        return self


class MgisSettings(DrawingSettings):
    """Importance sampling by |activation x probability| mixed with uniform."""

    name: Literal["mgis"]
    uniform_share: Annotated[float, Field(gt=0, le=1)] = 0.2


class ActiveSettings(DrawingSettings):
    """Where the scorer is unsure and the answer moves the correlation, mixed with uniform."""

    name: Literal["active"]
    uniform_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    mgis_share: Fraction = 0.5
    floor: Annotated[float, Field(ge=0)] = 0.1


class StratifiedSettings(DrawingSettings):
    """Strata of the active score, the most draws where it is highest."""

    name: Literal["stratified"]
    n_strata: Count = 10
    floor: Annotated[float, Field(ge=0)] = 0.1


class UniformSettings(DrawingSettings):
    """Every image equally likely."""

    name: Literal["uniform"]


class TopSettings(Settings):
    """The most active images: the old protocol."""

    name: Literal["top"]
    n_inputs: Count
    seed: Seed = 0


def _cents(value: float) -> float:
    if abs(value * 100 - round(value * 100)) > 1e-9:
        raise ValueError(f"a reward is in whole cents; {value:g} is not")
    return value


class SimulatedSettings(Settings):
    """Simulated raters with known error rates, and how people would be asked once the study is frozen."""

    name: Literal["simulated"]
    n_raters: Count
    miss: Fraction
    false_alarm: Fraction
    seed: Seed = 0
    stop: Literal["none", "decisive"] = "none"
    inputs_per_task: Annotated[int, Field(ge=2, le=100)] = 15
    reward: Annotated[float, Field(ge=0.01), AfterValidator(_cents)] = 0.06
    image_base_url: str | None = None
    attention_checks: Path | None = None
    error_rate: Literal["gold", "disagreement"] | None = None


def _no_table(value: str) -> str:
    if value.lower().endswith(".csv"):
        raise ValueError("a study is a folder under studies/; its name has no ending .csv")
    return value


class FilesSettings(Settings):
    """Ratings of real people, read from a frozen study."""

    name: Literal["files"]
    study: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), AfterValidator(_no_table)]
    error_rate: Literal["gold", "disagreement"] | None = None


class AvgSettings(Settings):
    """The share of yes."""

    name: Literal["avg"]


class MajoritySettings(Settings):
    """More yes than no; a tie is a half."""

    name: Literal["majority"]


class BraggUniformSettings(Settings):
    """Bayesian aggregation with one prior for every image."""

    name: Literal["bragg_uniform"]
    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 0.23
    prior: Annotated[float, Field(gt=0, lt=1)] = 0.05


class BraggSiglipSettings(Settings):
    """Bayesian aggregation with the scorer's probability as prior."""

    name: Literal["bragg_siglip"]
    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 0.23


ErrorRate = Annotated[float, Field(gt=0, lt=1)]


def _below_one(value: tuple[float, float]) -> tuple[float, float]:
    if sum(value) >= 1:
        raise ValueError("misses and false alarms sum to 1 or more: a yes would speak against the concept")
    return value


class BraggEmSettings(Settings):
    """Misses, false alarms, and the scorer's recalibration, estimated from the ratings."""

    name: Literal["bragg_em"]
    error_rate: (
        Annotated[float, Field(gt=0, lt=0.5)]
        | Annotated[tuple[ErrorRate, ErrorRate], AfterValidator(_below_one)]
        | None
    ) = None


class CrowdKitSettings(Settings):
    """An aggregation of crowd-kit, for comparison."""

    name: Literal["dawid_skene", "glad", "mace"]


class EstimatorSettings(Settings):
    """How a score and its interval are computed from draws and aggregated ratings."""

    name: Literal[
        "importance", "self_normalised", "horvitz_thompson", "difference", "disattenuated", "combined"
    ]
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    interval: Literal["delta", "bootstrap"] = "delta"
    seed: Seed = 0


class ScoringSettings(Settings):
    """Where a concept's presence comes from: people, the scorer, or the attributes."""

    name: Literal["crowd", "automatic", "oracle"]


class EvaluationSettings(Settings):
    """The images that units are judged on."""

    split: Literal["test", "validation", "train", "all"] = "test"


# --- sparse autoencoders: training, matching, pairs, sanity --------------------------------------
class TrainedSaeSettings(Settings):
    """How a sparse autoencoder is trained: dictionary, Adam, early stopping that keeps the best weights."""

    dictionary_size: Count
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    epochs: Count = 50
    batch_size: Count = 1024
    patience: Count | None = 5
    dead_after: Count = 20
    seed: Seed = 0


class SparseSaeSettings(TrainedSaeSettings):
    """K codes an image, and an auxiliary loss that revives dead latents."""

    k: Count = 32
    l1: Annotated[float, Field(ge=0)] = 0.0
    aux_k: Annotated[int, Field(ge=0)] = 512
    aux_coefficient: Annotated[float, Field(ge=0)] = 1 / 32


class TopkSettings(SparseSaeSettings):
    """The K largest codes: of each image (topk), or on average over a batch (batchtopk)."""

    name: Literal["topk", "batchtopk"]


class MatryoshkaSettings(SparseSaeSettings):
    """BatchTopK whose prefixes reconstruct on their own."""

    name: Literal["matryoshka"]
    n_prefixes: Count = 6


class JumpreluSettings(TrainedSaeSettings):
    """A learned threshold a latent, with a penalty on how many fire."""

    name: Literal["jumprelu"]
    l0_coefficient: Annotated[float, Field(ge=0)] = 1e-3
    bandwidth: Annotated[float, Field(gt=0)] = 0.5
    initial_threshold: Annotated[float, Field(gt=0)] = 0.5
    threshold_learning_rate: Annotated[float, Field(gt=0)] = 0.02


class UntrainedSaeSettings(Settings):
    """A baseline at the density K / D: an untrained encoder, or noise codes."""

    name: Literal["frozen", "random"]
    dictionary_size: Count
    k: Count = 32
    seed: Seed = 0


class FileSaeSettings(Settings):
    """An SAE from a file: one of ours, of sae-lens, or of dictionary-learning."""

    name: Literal["file"]
    path: Path
    format: Literal["auto", "assay", "sae_lens", "dictionary_learning"] = "auto"


class SanitySettings(Settings):
    """Metrics that are checked, not trusted."""

    name: Literal["default"]
    metrics: tuple[Literal["monosemanticity", "cknna", "fms"], ...] = ("monosemanticity", "cknna", "fms")
    cknna_k: Count = 10
    max_images: Count = 6000
    seed: Seed = 0


class ProbeSettings(Settings):
    """Linear probes of the attributes on the activations: the upper bound."""

    name: Literal["linear"]
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    batch_size: Count = 256
    max_epochs: Count = 500
    patience: Count = 10
    seed: Seed = 0


class MatchingSettings(Settings):
    """How latents are matched to attributes, and how many of a coalition count."""

    name: Literal["fbmp", "one_to_one", "ranked_or", "nn_omp"]
    mode: Literal["corrected", "reference"] = "corrected"
    k: Count = 3
    beta: Annotated[float, Field(gt=0)] = 0.5
    betas: tuple[Annotated[float, Field(gt=0)], ...] = (0.25, 0.5, 1.0)
    max_latents: Count = 20

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.beta not in self.betas:
            raise ValueError(f"beta={self.beta:g} is not among betas={list(self.betas)}: add it there")
        if self.k > self.max_latents:
            raise ValueError(f"k={self.k} is more than max_latents={self.max_latents}: raise max_latents")
        return self


class ShapesPairsSettings(Settings):
    """Rendered pairs that differ in exactly one factor."""

    name: Literal["shapes"]
    n_pairs: Count
    size: Annotated[int, Field(ge=16, le=1024)]
    seed: Seed


class EditedPairsSettings(Settings):
    """Pairs of images and their edits, in a folder."""

    name: Literal["syncub", "syncoco", "edited"]
    root: Path
    other_size: Literal["skip", "keep"] = "skip"
    CONTENT: ClassVar[Content] = {"pairs": {"root": (*IMAGE_FILES, "**/*.csv", "**/*.txt")}}


class NoPairsSettings(Settings):
    """No pairs: nothing is perturbed."""

    name: Literal["none"]


class StatsSettings(Settings):
    """The comparison of methods over units."""

    name: Literal["default"]
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    n_bootstrap: Count = 2000
    seed: Seed = 0
    rce_min_truth: Annotated[float, Field(ge=0)] = 0.05


class WandbSettings(Settings):
    """A Weights & Biases run per point, written by one final job."""

    name: Literal["wandb"]
    mode: Literal["offline", "online"] = "offline"
    project: str = "assay"
    entity: str | None = None


class NoTrackingSettings(Settings):
    """No tracking."""

    name: Literal["none"]


# --- speed and numbers -------------------------------------------------------------------------
class LoaderSettings(Settings):
    """Inference batches: speed only, never part of a key."""

    batch_size: Count = 64
    workers: Annotated[int, Field(ge=0)] = 0


class NumericsSettings(Settings):
    """What may change the last bits of a result."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    tf32: bool = False
    threads: Count = 2


GROUPS: dict[str, Any] = {
    "dataset": Annotated[
        ShapesSettings | FolderSettings | ImagenetValSettings | ParquetSettings | CubSettings | CocoSettings,
        Field(discriminator="name"),
    ],
    "model": Annotated[
        TimmSettings | TorchvisionSettings | OpenClipModelSettings, Field(discriminator="name")
    ],
    "scorer": Annotated[OpenClipSettings | SiglipTinySettings, Field(discriminator="name")],
    "unit": NeuronSettings,
    "explainer": Annotated[
        CsvSettings | ClipDissectSettings | TopConceptSettings | RandomSettings, Field(discriminator="name")
    ],
    "sampler": Annotated[
        MgisSettings | ActiveSettings | StratifiedSettings | UniformSettings | TopSettings,
        Field(discriminator="name"),
    ],
    "crowd": Annotated[SimulatedSettings | FilesSettings, Field(discriminator="name")],
    "aggregation": Annotated[
        AvgSettings
        | MajoritySettings
        | BraggUniformSettings
        | BraggSiglipSettings
        | BraggEmSettings
        | CrowdKitSettings,
        Field(discriminator="name"),
    ],
    "estimator": EstimatorSettings,
    "scoring": ScoringSettings,
    "sae": Annotated[
        TopkSettings | MatryoshkaSettings | JumpreluSettings | UntrainedSaeSettings | FileSaeSettings,
        Field(discriminator="name"),
    ],
    "pairs": Annotated[
        ShapesPairsSettings | EditedPairsSettings | NoPairsSettings, Field(discriminator="name")
    ],
    "matching": MatchingSettings,
    "sanity": SanitySettings,
    "probe": ProbeSettings,
    "evaluation": EvaluationSettings,
    "stats": StatsSettings,
    "tracking": Annotated[WandbSettings | NoTrackingSettings, Field(discriminator="name")],
    "loader": LoaderSettings,
    "numerics": NumericsSettings,
    "track": Literal["crowd", "sae"],
    "layer": Annotated[str, Field(min_length=1)],
    "device": Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$")],
}
