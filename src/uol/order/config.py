"""What a network is made of and how it is asked: the settings that a model folder stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from uol.images.face_cache import FaceCache
    from uol.images.framing import Framer


class Legacy(NamedTuple):
    """A deleted setting: the value at which it changed nothing, and why it was deleted."""

    neutral: Any
    why: str


LEGACY: Mapping[str, Legacy] = {
    "antisymmetric": Legacy(False, "no gain measured"),
    "pairs_within": Legacy("panel", "no gain measured"),
    "group_balance": Legacy(0.0, "no gain measured"),
    "dispersion": Legacy("printed", "no gain measured"),
    "augmentation.blur": Legacy(0.0, "no gain measured"),
    "augmentation.noise": Legacy(0.0, "no gain measured"),
    "model.border": Legacy("edge", "no gain measured"),
    "model.fixed_norms": Legacy(False, "no gain measured"),
    "scoring.level": Legacy(False, "no gain measured"),
    "ensemble.combine": Legacy("scores", "averaging outcomes made no difference; make the ensemble again"),
    "ensemble.bradley_terry": Legacy(None, "k and δ of averaged outcomes"),
}
"""Deleted settings by their dotted names in a recipe, or in an ensemble folder: older files still name them."""


def drop_legacy(settings: Mapping[str, Any], neutral_only: bool, group: str = "") -> dict[str, Any]:
    """Settings of a recipe, or of one `group` of it ("model"), without deleted ones: all, or those that are neutral."""
    kept = {}
    for name, value in settings.items():
        dotted = f"{group}.{name}" if group else name
        legacy = LEGACY.get(dotted)
        if legacy is None or (neutral_only and value != legacy.neutral):
            kept[name] = drop_legacy(value, neutral_only, dotted) if isinstance(value, Mapping) else value
    return kept


def _has_bool(value: Any) -> bool:
    return any(map(_has_bool, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


class Settings(BaseModel):
    """Settings that files keep: unknown names are refused; a deleted setting is ignored if it has its neutral value."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    group: ClassVar[str] = ""  # the name of these settings in a recipe; "" for the recipe itself

    @model_validator(mode="before")
    @classmethod
    def _without_legacy(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        kept = drop_legacy(values, neutral_only=True, group=cls.group)
        for name in kept:
            dotted = f"{cls.group}.{name}" if cls.group else name
            if dotted in LEGACY:
                line = f"{dotted}: this setting was removed in 0.2 ({LEGACY[dotted].why})"
                raise PydanticCustomError("removed_setting", "{line}", {"line": line})
        return kept

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_true(cls, value: Any, info: ValidationInfo) -> Any:
        if "bool" not in str(cls.model_fields[info.field_name or ""].annotation) and _has_bool(value):
            raise PydanticCustomError("float_type", "must be a number")  # to pydantic true is 1
        return value


class ModelConfig(Settings):
    """What a model is made of; stored in `config.json` of a model folder."""

    group = "model"

    backbone: str = Field("vgg16", description="a timm model")
    resize: int = Field(256, gt=0, le=4096, description="images are resized to this square first")
    crop: int = Field(224, gt=0, le=4096, description="then this central square is kept")
    framing: Literal["whole", "face"] = Field(
        "whole", description="images as they are, or the main face found, aligned and cropped first"
    )
    normalise: Literal["mean-std", "mean"] = Field(
        "mean-std",
        description="pixels of 0 to 1 less the mean that the backbone was trained with, then divided by its standard "
        "deviation or, as the paper says, not",
    )
    pooling: Literal["mean", "positions"] = Field(
        "mean",
        description="feature maps become features by their mean, or by sums whose weights per position are learnt",
    )
    poolings: int = Field(2, gt=0, le=64, description="how many sums of each map, where positions are weighted")
    dimensions: int = Field(
        512, gt=0, le=8192, description="D, of the psychological space: the width of VGG16's last maps"
    )
    hidden: int = Field(512, gt=0, le=8192, description="width of the comparator's two hidden layers")
    uncertain: bool = Field(True, description="False makes each image a point: plain order learning")
    levels: int = Field(
        0,
        ge=0,
        le=1000,
        description="of ratings: rating levels, if the model also predicts the panel's histogram; 0: order alone",
    )
    initial_log_variance: float = Field(
        -2.0, ge=-50, le=50, description="small spreads at the start let the means learn first"
    )

    @model_validator(mode="after")
    def _crop_fits(self) -> Self:
        if self.crop > self.resize:
            raise ValueError(f"a crop of {self.crop} pixels does not fit images resized to {self.resize}")
        return self

    @model_validator(mode="after")
    def _levels_are_several(self) -> Self:
        if self.levels == 1:
            raise ValueError("levels: a histogram has two levels at least; 0 is none")
        return self

    def framer(self, cache: FaceCache | None = None) -> Framer:
        """How images become this model's pixels; `cache` keeps aligned faces on disk."""
        from uol.images.framing import Framer

        return Framer(self.resize, self.crop, self.framing, cache)

    @property
    def view(self) -> str:
        """What a network is shown of an image, in words."""
        return f"{self.framing}, {self.crop} of {self.resize} pixels"

    def framed_like(self, other: ModelConfig) -> bool:
        """Whether two models are shown images framed alike, be it another part of the frame or another size."""
        return self.framing == other.framing

    def sees_within(self, other: ModelConfig) -> bool:
        """Whether what a model is shown lies within what another is shown, framed alike, in whatever size."""
        return self.framed_like(other) and self.crop * other.resize <= other.crop * self.resize


class BradleyTerry(NamedTuple):
    """The fitted model of comparisons: k scales score differences to logits; δ widens "similar".

    It is defined here, apart from `uol.order.bradley_terry`, because a folder's settings are read without scipy.
    """

    k: float
    delta: float


def common_view(configs: Sequence[ModelConfig]) -> ModelConfig:
    """The largest model's config, with a frame that holds what each of several is shown."""
    largest = max(configs, key=lambda config: config.resize)
    crop = max(-(-config.crop * largest.resize // config.resize) for config in configs)  # rounded up
    return largest.model_copy(update={"crop": crop})


class ScoringConfig(Settings):
    """How comparisons are made and read; stored in `config.json` of a model folder."""

    group = "scoring"

    samples: int = Field(0, ge=0, le=10_000, description="Monte Carlo samples T per comparison; 0 compares the means")
    both_directions: bool = Field(True, description="average each comparison with the one the other way round")
    mirror: bool = Field(False, description="average each image's Gaussian with its mirror image's, for twice the time")
    zooms: tuple[Annotated[float, Field(gt=0.5, lt=1.5)], ...] = Field(
        (1.0,),
        min_length=1,
        max_length=32,
        description="average the Gaussians of views that show these shares of the framed image",
    )
    outcomes: Literal["probabilities", "hard"] = Field("probabilities", description="what Bradley-Terry is given")
    histogram_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the histogram's mean in a score; requires model.levels",
    )
