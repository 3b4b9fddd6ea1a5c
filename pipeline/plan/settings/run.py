"""Settings of what every track has: evaluation, statistics, tracking, speed and numbers."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.plan.settings.base import Count, Seed, Settings


class EvaluationSettings(Settings):
    """The images that units are judged on."""

    split: Literal["test", "validation", "train", "all"] = "test"


class StatsSettings(Settings):
    """The comparison of methods; name: which mixed model stands first."""

    name: Literal["default", "paper", "fixed"]
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


class LoaderSettings(Settings):
    """Inference batches: speed only, never part of a key; auto: as many as the device's memory takes."""

    batch_size: Count | Literal["auto"] = 64
    workers: Annotated[int, Field(ge=0)] = 0


class NumericsSettings(Settings):
    """What may change the last bits of a result."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    tf32: bool = False
    threads: Count = 2
