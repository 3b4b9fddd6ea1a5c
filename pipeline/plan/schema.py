"""What a config may say: for each group the typed models of its variants, so that 1 and 1.0 are one value.

A group's `name` chooses the variant; each variant's settings are the keyword arguments of its
module's function, field by field.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.plan.settings.crowd import (
    ActiveSettings,
    AvgSettings,
    BraggEmSettings,
    BraggSiglipSettings,
    BraggUniformSettings,
    CrowdKitSettings,
    EstimatorSettings,
    FilesSettings,
    LatentSettings,
    MajoritySettings,
    MgisSettings,
    NeuronSettings,
    ScoringSettings,
    SimulatedSettings,
    StratifiedSettings,
    TopSettings,
    UniformSettings,
)
from pipeline.plan.settings.data import (
    CocoSettings,
    CubSettings,
    FolderSettings,
    ImagenetValSettings,
    ParquetSettings,
    ShapesSettings,
)
from pipeline.plan.settings.explainers import (
    ClipDissectSettings,
    CsvSettings,
    InvertSettings,
    LeLabelSettings,
    LeSiglipSettings,
    LlmSettings,
    NetworkDissectionSettings,
    PublishedSettings,
    RandomSettings,
    TopConceptSettings,
)
from pipeline.plan.settings.models import (
    DinoTextSettings,
    OpenClipModelSettings,
    OpenClipSettings,
    SharedScorerSettings,
    SiglipTinySettings,
    TimmSettings,
    TorchvisionSettings,
)
from pipeline.plan.settings.run import (
    EvaluationSettings,
    LoaderSettings,
    NoTrackingSettings,
    NumericsSettings,
    StatsSettings,
    WandbSettings,
)
from pipeline.plan.settings.sae import (
    EditedPairsSettings,
    FileSaeSettings,
    JumpreluSettings,
    MatchingSettings,
    MatryoshkaSettings,
    NoPairsSettings,
    ProbeSettings,
    SanitySettings,
    ShapesPairsSettings,
    TopkSettings,
    UntrainedSaeSettings,
)
from pipeline.plan.settings.vlm import (
    AttnlrpSettings,
    FolderQuestionsSettings,
    GameSettings,
    GradcamSettings,
    GradientAttributionSettings,
    IgSettings,
    LlavaCamSettings,
    PlainAttributionSettings,
    PretrainedVlmSettings,
    QwenSettings,
    RandomAttributionSettings,
    RepopeSettings,
    ShapesVqaSettings,
    SiiSettings,
    SynergySettings,
    TamSettings,
    TinyLlavaSettings,
)

GROUPS: dict[str, Any] = {
    "dataset": Annotated[
        ShapesSettings | FolderSettings | ImagenetValSettings | ParquetSettings | CubSettings | CocoSettings,
        Field(discriminator="name"),
    ],
    "model": Annotated[
        TimmSettings | TorchvisionSettings | OpenClipModelSettings, Field(discriminator="name")
    ],
    "scorer": Annotated[
        OpenClipSettings | SiglipTinySettings | DinoTextSettings, Field(discriminator="name")
    ],
    "explainer_scorer": Annotated[
        SharedScorerSettings | OpenClipSettings | SiglipTinySettings | DinoTextSettings,
        Field(discriminator="name"),
    ],
    "unit": Annotated[NeuronSettings | LatentSettings, Field(discriminator="name")],
    "explainer": Annotated[
        CsvSettings
        | PublishedSettings
        | ClipDissectSettings
        | TopConceptSettings
        | NetworkDissectionSettings
        | InvertSettings
        | LeLabelSettings
        | LeSiglipSettings
        | LlmSettings
        | RandomSettings,
        Field(discriminator="name"),
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
    "vlm": Annotated[TinyLlavaSettings | PretrainedVlmSettings | QwenSettings, Field(discriminator="name")],
    "questions": Annotated[
        ShapesVqaSettings | FolderQuestionsSettings | RepopeSettings, Field(discriminator="name")
    ],
    "attribution": Annotated[
        PlainAttributionSettings
        | RandomAttributionSettings
        | GradientAttributionSettings
        | GradcamSettings
        | IgSettings
        | AttnlrpSettings
        | LlavaCamSettings
        | TamSettings,
        Field(discriminator="name"),
    ],
    "game": GameSettings,
    "synergy": SynergySettings,
    "sii": SiiSettings,
    "evaluation": EvaluationSettings,
    "stats": StatsSettings,
    "tracking": Annotated[WandbSettings | NoTrackingSettings, Field(discriminator="name")],
    "loader": LoaderSettings,
    "numerics": NumericsSettings,
    "track": Literal["crowd", "sae", "vlm"],
    "layer": Annotated[str, Field(min_length=1)],
    "device": Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$")],
}
