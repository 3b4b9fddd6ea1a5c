"""Settings of datasets: images, splits and labels."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pipeline.plan.settings.base import IMAGE_FILES, Content, Count, Fraction, Seed, Settings


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
