"""Settings of the VLM track: models, questions, explainers, the metric and the exact value beside it."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.plan.settings.base import IMAGE_FILES, Content, Count, Fraction, Seed, Settings
from pipeline.plan.settings.models import HubWeights

Kind = Literal["object", "colour", "shape", "left", "above"]
Target = Literal["log_probability", "logit"]


class VlmSettings(Settings):
    """What every model has: how attention is computed, and how long an answer may be."""

    attention: Literal["eager", "sdpa"] = "eager"
    max_new_tokens: Count = 8


class TinyLlavaSettings(VlmSettings):
    """A small LLaVA, trained here on rendered shapes."""

    name: Literal["tiny_llava"]
    kinds: tuple[Kind, ...] = ("object",)
    n_steps: Count = 2000
    n_images: Count = 32
    n_questions: Count = 8
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    seed: Seed = 0

    @field_validator("kinds")
    @classmethod
    def _always_asked(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Raise ValueError for kinds of which some scenes have no question with a yes and one with a no."""
        if "object" not in kinds:
            raise ValueError(
                f"some scenes have no question of the kinds {', '.join(kinds)} with a yes and one with a no; "
                "add `object`"
            )
        return kinds


class FolderWeights(Settings):
    """A local folder as transformers saves it: config, safetensors, tokenizer and processor."""

    source: Literal["folder"]
    path: Path


class PretrainedVlmSettings(VlmSettings):
    """A model of transformers, from a folder or the hub."""

    name: Literal["llava", "internvl"]
    weights: Annotated[HubWeights | FolderWeights, Field(discriminator="source")]
    CONTENT: ClassVar[Content] = {
        "vlm": {"weights.path": ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")}
    }


class QwenSettings(PretrainedVlmSettings):
    """Qwen2.5-VL; max_pixels bounds the canvas, and so the number of visual tokens."""

    name: Literal["qwen2_5_vl"]  # type: ignore[assignment]
    max_pixels: Count | None = None


class ShapesVqaSettings(Settings):
    """Yes/no questions about rendered scenes of the test split."""

    name: Literal["shapes_vqa"]
    n_samples: Count = 100
    seed: Seed = 0
    size: Annotated[int, Field(ge=16, le=1024)] = 64
    kinds: tuple[Kind, ...] = ("object",)
    fewest: Count = 1
    most: Count = 4
    noise: Annotated[float, Field(ge=0)] = 8.0


class FolderQuestionsSettings(Settings):
    """A published set of questions in a local folder; n_samples of them, spread over its categories."""

    name: Literal["cv_bench", "mmstar"]
    root: Path
    suffix: str = ""
    n_samples: Count | None = None
    seed: Seed = 0
    CONTENT: ClassVar[Content] = {"questions": {"root": ("**/*.parquet", "**/*.tsv", *IMAGE_FILES)}}


class RepopeSettings(FolderQuestionsSettings):
    """RePOPE, with COCO's val2014 in its root or elsewhere."""

    name: Literal["repope"]  # type: ignore[assignment]
    images: Path | None = None
    CONTENT: ClassVar[Content] = {
        "questions": {"root": ("**/*.parquet", "**/*.json", *IMAGE_FILES), "images": IMAGE_FILES}
    }


class PlainAttributionSettings(Settings):
    """Explainers without settings."""

    name: Literal["rollout", "occlusion", "inverted_occlusion"]


class RandomAttributionSettings(Settings):
    """Two seeded permutations: the floor."""

    name: Literal["random"]
    seed: Seed = 0


class GradientAttributionSettings(Settings):
    """Explainers that differ in the score whose gradient they take."""

    name: Literal["input_x_gradient", "grad_rollout"]
    target: Target = "log_probability"


class GradcamSettings(Settings):
    """Grad-CAM where a decoder layer begins; -1 is the last."""

    name: Literal["gradcam"]
    layer: int = -1
    target: Target = "log_probability"


class IgSettings(Settings):
    """Integrated gradients: nodes double from n_steps to max_steps until completeness holds."""

    name: Literal["ig"]
    target: Target = "log_probability"
    n_steps: Count = 32
    max_steps: Count = 256
    tolerance: Annotated[float, Field(gt=0)] = 0.05

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_steps < self.n_steps:
            raise ValueError(f"max_steps={self.max_steps} is below n_steps={self.n_steps}: raise max_steps")
        return self


class AttnlrpSettings(Settings):
    """AttnLRP; attention=detached is CP-LRP."""

    name: Literal["attnlrp"]
    attention: Literal["attnlrp", "detached"] = "attnlrp"


class LlavaCamSettings(Settings):
    """LLaVA-CAM; n_smooth above 0 is SmoothGrad."""

    name: Literal["llava_cam"]
    layer: int = -1
    target: Target = "logit"
    threshold: Fraction = 0.5
    n_smooth: Annotated[int, Field(ge=0)] = 0
    noise: Annotated[float, Field(ge=0)] = 0.1
    seed: Seed = 0


class TamSettings(Settings):
    """Token activation maps; the side of the denoising window is odd."""

    name: Literal["tam"]
    kernel: Count = 3

    @model_validator(mode="after")
    def _odd(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel={self.kernel} has no middle: use an odd number")
        return self


class GameSettings(Settings):
    """The zero state of the image: the canvas under PIL's Gaussian blur of this radius (pixels)."""

    blur_radius: Annotated[float, Field(gt=0)] = 30.0


class SynergySettings(Settings):
    """F_syn: points of the path, rule of the sum, tie-breaks to average over, unimodal insertion."""

    steps: Annotated[int, Field(ge=2)] = 11
    rule: Literal["trapezoid", "mean", "left"] = "trapezoid"
    n_tie_breaks: Count = 5
    insertion: bool = False
    seed: Seed = 0


class SiiSettings(Settings):
    """Exact Shapley interactions of rank groups, on n_samples of the samples; 0: none."""

    patch_groups: Count = 5
    token_groups: Count = 5
    n_samples: Annotated[int, Field(ge=0)] = 0
    seed: Seed = 0

    @model_validator(mode="after")
    def _affordable(self) -> Self:
        if (total := self.patch_groups + self.token_groups) > 16:
            raise ValueError(
                f"patch_groups + token_groups is {total}, so {2**total} coalitions; take 16 or fewer"
            )
        return self
