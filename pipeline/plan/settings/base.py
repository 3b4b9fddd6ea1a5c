"""What all settings share: frozen models without unknown keys, and what stands behind a path.

`CONTENT` says which files stand behind a path, stage by stage: in a key a path is replaced by the
checksums of those files.
"""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

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
