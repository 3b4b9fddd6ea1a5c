"""Settings of the crowd track: units, texts, draws, people, scores."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pipeline.plan.settings.base import Count, Fraction, Seed, Settings


class NeuronSettings(Settings):
    """Which neurons of the layer are judged: a seeded sample, or those named."""

    name: Literal["neuron"]
    n: Count | None = None
    seed: Seed = 0
    indices: tuple[Annotated[int, Field(ge=0)], ...] | None = None


class LatentSettings(Settings):
    """Which latents of the SAE on the layer are judged: a seeded sample, or those named."""

    name: Literal["latent"]
    n: Count | None = None
    seed: Seed = 0
    indices: tuple[Annotated[int, Field(ge=0)], ...] | None = None


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
