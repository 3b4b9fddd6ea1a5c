"""Settings of the SAE track: training, matching, pairs, sanity."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pipeline.plan.settings.base import IMAGE_FILES, Content, Count, Seed, Settings


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
    CONTENT: ClassVar[Content] = {"sae": {"path": ("cfg.json", "config.json", "*.safetensors", "*.pt")}}


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
