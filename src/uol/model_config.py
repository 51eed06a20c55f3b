"""What a model folder's config.json says; read without loading a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from uol.calibration import Calibration
from uol.checked import first_problem
from uol.errors import CallError, UolError
from uol.faces import BORDER, Border
from uol.scale import BradleyTerry, Scale

CONFIG = "config.json"
SCORE_GRAPH, COMPARE_GRAPH = "model.onnx", "compare.onnx"
MEMBERS = "members"  # the folder of an ensemble's models, and the list of them in its config.json
FORMAT = 1

Combining: TypeAlias = Literal["scores", "outcomes"]


class ModelConfig(BaseModel):
    """What a model is made of; stored in `config.json` of a model folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    backbone: str = Field("vgg16", description="a timm model")
    resize: int = Field(256, gt=0, description="images are resized to this square first")
    crop: int = Field(224, gt=0, description="then this central square is kept")
    framing: Literal["whole", "face"] = Field(
        "whole", description="images as they are, or the main face found, aligned and cropped first"
    )
    border: Border = Field(BORDER, description="what a face's frame shows beyond the photograph; for framing face")
    normalise: Literal["mean-std", "mean"] = Field(
        "mean-std",
        description="pixels of 0 to 1 less the mean that the backbone was trained with, then divided by its standard "
        "deviation or, as the paper says, not",
    )
    pooling: Literal["mean", "positions"] = Field(
        "mean",
        description="feature maps become features by their mean, or by sums whose weights per position are learnt",
    )
    poolings: int = Field(2, gt=0, description="how many sums of each map, where positions are weighted")
    dimensions: int = Field(512, gt=0, description="D, of the psychological space: the width of VGG16's last maps")
    hidden: int = Field(512, gt=0, description="width of the comparator's two hidden layers")
    uncertain: bool = Field(True, description="False makes each image a point: plain order learning")
    levels: int = Field(
        0, ge=0, description="of ratings: the panel's histogram is told too, from an image's place; 0: order alone"
    )
    initial_log_variance: float = Field(
        -2.0, allow_inf_nan=False, description="small spreads at the start let the means learn first"
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

    @model_validator(mode="after")
    def _border_is_seen(self) -> Self:
        if self.framing == "whole" and self.border != BORDER:  # ignored, it would read as a border that changes nothing
            raise ValueError(f"border {self.border}: for framing face; images taken whole have nothing beyond them")
        return self

    @property
    def view(self) -> str:
        """What a network is shown of an image, in words."""
        border = "" if self.border == BORDER else f", {self.border} beyond the photograph"
        return f"{self.framing}, {self.crop} of {self.resize} pixels{border}"

    def framed_like(self, other: ModelConfig) -> bool:
        """Whether two models are shown images framed alike, be it another part of the frame or another size."""
        return (self.framing, self.border) == (other.framing, other.border)

    def sees_within(self, other: ModelConfig) -> bool:
        """Whether what a model is shown lies within what another is shown, framed alike, in whatever size."""
        return self.framed_like(other) and self.crop * other.resize <= other.crop * self.resize


def common_view(configs: Sequence[ModelConfig]) -> ModelConfig:
    """The largest model's config, with a frame that holds what each of several is shown."""
    largest = max(configs, key=lambda config: config.resize)
    crop = max(-(-config.crop * largest.resize // config.resize) for config in configs)  # rounded up
    return largest.model_copy(update={"crop": crop})


class ScoringConfig(BaseModel):
    """How comparisons are made and read; stored in `config.json` of a model folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    samples: int = Field(0, ge=0, description="Monte Carlo samples T per comparison; 0 compares the means")
    both_directions: bool = Field(True, description="average each comparison with the one the other way round")
    mirror: bool = Field(False, description="average each image's Gaussian with its mirror image's, for twice the time")
    zooms: tuple[Annotated[float, Field(gt=0.5, lt=1.5)], ...] = Field(
        (1.0,), min_length=1, description="average the Gaussians of views that show these shares of the framed image"
    )
    level: bool = Field(False, description="bring all images to one brightness and one contrast first")
    outcomes: Literal["probabilities", "hard"] = Field("probabilities", description="what Bradley-Terry is given")
    histogram_share: float = Field(
        0.5, ge=0, le=1, description="share of the histogram's mean in a score; for models that tell one (model.levels)"
    )


class PanelConfig(BaseModel):
    """Whose scale the scores are on; stored in `config.json` of a model folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    low: float
    high: float

    @classmethod
    def of(cls, name: str, scale: Scale) -> Self:
        """The panel of a data set."""
        return cls(name=name, low=scale.low, high=scale.high)

    @property
    def scale(self) -> Scale:
        """The panel's scale."""
        return Scale(self.low, self.high)


class FolderConfig(BaseModel):
    """The contents of config.json."""

    model_config = ConfigDict(extra="forbid")

    format: int
    uol: str
    model: ModelConfig
    panel: PanelConfig
    bradley_terry: BradleyTerry
    scoring: ScoringConfig
    calibration: Calibration


class MemberConfig(BaseModel):
    """One model of an ensemble: its folder in `members`, and what makes its degrees of dispersion comparable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    degree_offset: float
    degree_factor: float


class EnsembleConfig(BaseModel):
    """The contents of an ensemble's config.json."""

    model_config = ConfigDict(extra="forbid")

    format: int
    uol: str
    members: tuple[MemberConfig, ...] = Field(min_length=2)
    combine: Combining
    panel: PanelConfig
    bradley_terry: BradleyTerry | None = Field(None, description="of mean outcomes; None where scores are averaged")
    calibration: Calibration


Config = TypeVar("Config", FolderConfig, EnsembleConfig)


def is_ensemble(folder: Path) -> bool:
    """Whether a model folder is one of several models; False where its config.json is missing or damaged."""
    try:
        values = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and MEMBERS in values


def read_config(folder: Path) -> FolderConfig:
    """Read a model folder's config.json; what is missing or damaged in it is named."""
    if is_ensemble(folder):
        raise CallError(f"{folder}: an ensemble of several networks; this needs a model of one")
    config = _read(folder, FolderConfig)
    if not (config.bradley_terry.k > 0 and config.bradley_terry.delta > 0 and config.panel.low < config.panel.high):
        raise UolError(f"{folder / CONFIG}: damaged: k, δ or the panel's scale make no sense")
    return config


def read_ensemble_config(folder: Path) -> EnsembleConfig:
    """Read the config.json of an ensemble; what is missing or damaged in it is named."""
    config = _read(folder, EnsembleConfig)
    fitted = config.bradley_terry
    if (fitted is None) != (config.combine == "scores") or (fitted is not None and min(fitted) <= 0):
        raise UolError(f"{folder / CONFIG}: damaged: k and δ make no sense")
    return config


def _read(folder: Path, kind: type[Config]) -> Config:
    if not folder.is_dir():
        raise CallError(f"{folder}: no such model folder")
    if not (folder / CONFIG).is_file():
        raise UolError(f"{folder}: not a whole model folder: {CONFIG} is missing")
    try:
        config = kind.model_validate_json((folder / CONFIG).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UolError(f"{folder / CONFIG}: damaged or of another version (not a text file)") from error
    except ValidationError as error:
        raise UolError(f"{folder / CONFIG}: damaged or of another version ({first_problem(error)})") from error
    if config.format > FORMAT:
        raise UolError(f"{folder}: written by a newer uol (format {config.format}); upgrade uol to read it")
    return config
