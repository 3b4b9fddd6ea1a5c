"""Settings of explanation methods: computed, read from files, or asked of a model."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.plan.settings.base import Content, Count, Fraction, Seed, Settings

Split = Literal["train", "all"]
Method = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]
Dollars = Annotated[float, Field(ge=0)]


class CsvSettings(Settings):
    """Texts from a CSV file."""

    name: Literal["csv"]
    method: Method
    path: Path
    unit_column: str = "unit"
    description_column: str = "description"
    composition_column: str | None = None
    layer_column: str | None = None
    first_unit: Literal[0, 1] = 0
    on_duplicate: Literal["stop", "first"] = "stop"


class PublishedSettings(Settings):
    """Texts from a file in the layout that a method's authors publish; null: as the format has it."""

    name: Literal["published"]
    format: Literal["milan", "dnd", "maia", "network_dissection", "clip_dissect", "linear_explanations"]
    method: Method
    path: Path
    layer_name: str | None = None
    first_unit: Literal[0, 1] | None = None
    on_duplicate: Literal["stop", "first"] = "first"
    max_concepts: Count | None = None
    label: Literal[1, 2, 3] | None = None
    text: Literal["label", "description"] | None = None
    min_iou: Fraction | None = None
    plain_labels: bool | None = None
    CONTENT: ClassVar[Content] = {
        "explanations": {"path": ("**/label.txt", "**/description.txt", "**/history.json")}
    }


class ClipDissectSettings(Settings):
    """CLIP-Dissect; null: the similarity's own default."""

    name: Literal["clip_dissect"]
    vocabulary: Path | None = None
    split: Split = "train"
    similarity: Literal["soft_wpmi", "wpmi", "rank_reorder", "cos", "cos_cubed"] = "soft_wpmi"
    top: Count | None = None
    lam: float | None = None
    temperature: Positive | None = None


class TopConceptSettings(Settings):
    """The concept whose labels correlate most with the unit."""

    name: Literal["top_concept"]
    split: Split = "train"


class NetworkDissectionSettings(Settings):
    """The attribute whose images overlap most with the unit's most active ones."""

    name: Literal["network_dissection"]
    split: Split = "train"
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.005


class InvertSettings(Settings):
    """The formula over attributes of highest AUC."""

    name: Literal["invert"]
    split: Split = "train"
    length: Annotated[int, Field(ge=1, le=10)] = 3
    beam: Count = 5
    min_fraction: Fraction = 0.0
    max_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5


class LinearExplanationSettings(Settings):
    """A sparse weighted sum of concepts."""

    split: Split = "train"
    max_concepts: Count = 10
    strength: Positive = 0.05
    l1_ratio: Annotated[float, Field(gt=0, le=1)] = 0.99
    min_gain: Annotated[float, Field(ge=0)] = 0.02
    min_top_mean: Fraction = 0.5
    min_sd: Annotated[float, Field(ge=0)] = 1e-5
    seed: Seed = 0


class LeLabelSettings(LinearExplanationSettings):
    """Linear Explanations over the dataset's attributes."""

    name: Literal["le_label"]


class LeSiglipSettings(LinearExplanationSettings):
    """Linear Explanations over the scorer's probabilities of a vocabulary."""

    name: Literal["le_siglip"]
    vocabulary: Path | None = None


class LlmSettings(Settings):
    """Texts that a vision-language model writes about a grid of a unit's images.

    Prices are dollars per million tokens; null: none at a local address. max_cost: dollars a point.
    """

    name: Literal["llm"]
    method: Method = "llm"
    model: Annotated[str, Field(min_length=1)]
    split: Literal["train", "validation", "test", "all"] = "train"
    prompt: Path | None = None
    n_top: Count = 9
    n_random: Annotated[int, Field(ge=0)] = 9
    cell: Annotated[int, Field(ge=16)] = 128
    detail: Literal["low", "high", "auto"] | None = None
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    max_tokens: Count = 100
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed: Seed | None = 0
    base_url: Annotated[str, Field(pattern=r"^https?://")] = "http://localhost:8000/v1"
    api_key_env: str = "OPENAI_API_KEY"
    timeout: Positive = 120.0
    max_retries: Annotated[int, Field(ge=0)] = 5
    concurrency: Count = 4
    price_input: Dollars | None = None
    price_output: Dollars | None = None
    image_tokens: Annotated[int, Field(ge=0)] = 1500
    max_cost: Dollars = 0.0


class RandomSettings(Settings):
    """A random concept for each unit: the control."""

    name: Literal["random"]
    seed: Seed = 0
