"""The config.json of a model folder, read without loading a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uol.errors import CallError, UolError
from uol.order.calibration import Calibration
from uol.order.config import BradleyTerry, ModelConfig, ScoringConfig, Settings
from uol.ratings.scale import Scale
from uol.storage.validation import first_problem

CONFIG = "config.json"
SCORE_GRAPH, COMPARE_GRAPH = "model.onnx", "compare.onnx"
MEMBERS = "members"  # the folder of an ensemble's models, and the list of them in its config.json
FORMAT = 1


class PanelConfig(BaseModel):
    """The panel on whose scale scores are; stored in `config.json` of a model folder."""

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


class PanelFolderConfig(BaseModel):
    """The contents of the config.json of a panel in `panels`."""

    model_config = ConfigDict(extra="forbid")

    format: int
    uol: str
    panel: PanelConfig
    bradley_terry: BradleyTerry
    scoring: ScoringConfig
    calibration: Calibration


class FolderConfig(BaseModel):
    """The contents of one network's config.json."""

    model_config = ConfigDict(extra="forbid")

    format: int
    uol: str
    model: ModelConfig
    panel: PanelConfig
    bradley_terry: BradleyTerry
    scoring: ScoringConfig
    calibration: Calibration


class MemberConfig(BaseModel):
    """One model of an ensemble: its folder in `members`, and how its degrees of dispersion become comparable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    degree_offset: float
    degree_factor: float


class EnsembleConfig(Settings):
    """The contents of an ensemble's config.json."""

    group: ClassVar[str] = "ensemble"

    format: int
    uol: str
    members: tuple[MemberConfig, ...] = Field(min_length=2)
    panel: PanelConfig
    calibration: Calibration


Config = TypeVar("Config", FolderConfig, PanelFolderConfig, EnsembleConfig)
OfPanel = TypeVar("OfPanel", FolderConfig, PanelFolderConfig)


def is_ensemble(folder: Path) -> bool:
    """Whether a model folder is an ensemble's; False if its config.json is missing or damaged."""
    try:
        values = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and MEMBERS in values


def read_config(folder: Path) -> FolderConfig:
    """Read the config.json of one network; an error names what is missing or damaged."""
    if is_ensemble(folder):
        raise CallError(f"{folder}: an ensemble of several networks; this requires a model of one")
    return _sensible(folder, _read(folder, FolderConfig))


def read_panel_config(folder: Path) -> PanelFolderConfig:
    """Read the config.json of a panel in `panels`; an error names what is missing or damaged."""
    return _sensible(folder, _read(folder, PanelFolderConfig))


def _sensible(folder: Path, config: OfPanel) -> OfPanel:
    if not (config.bradley_terry.k > 0 and config.bradley_terry.delta > 0 and config.panel.low < config.panel.high):
        raise UolError(f"{folder / CONFIG}: damaged: k, δ or the panel's scale make no sense")
    return config


def read_panel(folder: Path) -> PanelConfig:
    """The first panel of a model folder, of one network or of an ensemble."""
    return (read_ensemble_config(folder) if is_ensemble(folder) else read_config(folder)).panel


def read_ensemble_config(folder: Path) -> EnsembleConfig:
    """Read the config.json of an ensemble; an error names what is missing or damaged."""
    return _read(folder, EnsembleConfig)


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
