"""The config.json of a model folder, read without loading a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from uol.errors import CallError, UolError
from uol.order.calibration import Calibration
from uol.order.config import BradleyTerry, ModelConfig, ScoringConfig, Settings
from uol.ratings.scale import Scale
from uol.storage.validation import first_problem, read_object

CONFIG, MODEL = "config.json", "model.safetensors"
SCORE_GRAPH, COMPARE_GRAPH = "model.onnx", "compare.onnx"
MEMBERS = "members"  # the folder of an ensemble's models, and the list of them in its config.json
FORMAT = 1
_WIDEST = 1e6  # the largest number of a scale, and the widest scale

_REQUIRED: Mapping[str, frozenset[str]] = {
    "model": frozenset({"backbone", "resize", "crop", "framing", "pooling", "poolings", "dimensions", "hidden",
                        "uncertain"}),
    "scoring": frozenset({"samples", "both_directions", "mirror", "outcomes"}),
    "calibration": frozenset({"level", "intercept", "slope", "scale", "floor", "quantile", "dispersion_intercept",
                              "dispersion_slope", "temperature", "images"}),
}  # fmt: skip
"""What every config.json states. Settings that came later have the value at which they change nothing."""


class PanelIdentity(NamedTuple):
    """What makes a panel the same in two models: its name and the ends of its scale."""

    name: str
    low: float
    high: float


class PanelConfig(BaseModel):
    """The panel on whose scale scores are; stored in `config.json` of a model folder.

    `levels` is the number of its rating levels if a network with model.levels knows several panels: the first of the
    model's, or 0 if its histograms are unknown. None, which no file states, is all of the model's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    low: float
    high: float
    levels: int | None = Field(None, ge=0, le=1000)

    @classmethod
    def of(cls, name: str, scale: Scale, levels: int | None = None) -> Self:
        """The panel of a data set."""
        if not _makes_sense(scale):
            raise UolError(f"{name}: a scale from {scale.low:g} to {scale.high:g} is too wide; divide the ratings")
        return cls(name=name, low=scale.low, high=scale.high, levels=levels)

    @model_serializer(mode="wrap")
    def _without_unset(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}

    @property
    def identity(self) -> PanelIdentity:
        """What the panel has in common in all models that know it."""
        return PanelIdentity(self.name, self.low, self.high)

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


class EnsemblePanelConfig(BaseModel):
    """A panel of an ensemble after the first; `degrees` has the offset and factor of each member."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    panel: PanelConfig
    calibration: Calibration
    degrees: tuple[tuple[float, float], ...]


class EnsembleConfig(Settings):
    """The contents of an ensemble's config.json; `panels`, those after the first, are stated if there are any."""

    group: ClassVar[str] = "ensemble"

    format: int
    uol: str
    members: tuple[MemberConfig, ...] = Field(min_length=2)
    panel: PanelConfig
    calibration: Calibration
    panels: tuple[EnsemblePanelConfig, ...] = ()


Config = TypeVar("Config", FolderConfig, PanelFolderConfig, EnsembleConfig)
OfPanel = TypeVar("OfPanel", FolderConfig, PanelFolderConfig)


# -------------------------------------------------------------------- reading


def is_ensemble(folder: Path) -> bool:
    """Whether a model folder is an ensemble's; False if its config.json is missing or damaged."""
    try:
        return MEMBERS in read_object(folder / CONFIG)
    except UolError:
        return False


def read_config(folder: Path) -> FolderConfig:
    """Read the config.json of one network; an error names what is missing or damaged."""
    if is_ensemble(folder):
        raise CallError(f"{folder}: an ensemble of several networks; this requires a model of one")
    return _sensible(folder, _read(folder, FolderConfig))


def read_panel_config(folder: Path) -> PanelFolderConfig:
    """Read the config.json of a panel in `panels`; an error names what is missing or damaged."""
    return _sensible(folder, _read(folder, PanelFolderConfig))


def _sensible(folder: Path, config: OfPanel) -> OfPanel:
    k, delta = config.bradley_terry
    k *= max(1.0, config.panel.high - config.panel.low)  # its unit is one of the scale, and scales of 0 to 100 are long
    if not (1e-4 <= k <= 1e6 and 1e-4 <= delta <= 1e4):
        raise UolError(f"{folder / CONFIG}: damaged: k or δ makes no sense")
    return config


def read_panel(folder: Path) -> PanelConfig:
    """The first panel of a model folder, of one network or of an ensemble."""
    return (read_ensemble_config(folder) if is_ensemble(folder) else read_config(folder)).panel


def read_ensemble_config(folder: Path) -> EnsembleConfig:
    """Read the config.json of an ensemble; an error names what is missing or damaged."""
    return _read(folder, EnsembleConfig)


def _read(folder: Path, kind: type[Config]) -> Config:
    path = folder / CONFIG
    if not folder.is_dir():
        raise CallError(f"{folder}: no such model folder")
    if not path.exists():
        raise UolError(f"{folder}: not a whole model folder: {CONFIG} is missing")
    values = read_object(path)
    form = values.get("format")
    if isinstance(form, int) and form > FORMAT:
        raise UolError(f"{folder}: written by a newer uol (format {form}); upgrade uol to read it")
    damaged = f"{path}: damaged or of another version"
    if form != FORMAT or isinstance(form, bool):
        raise UolError(f"{damaged} (format: {form!r} is unknown)")
    for group, names in _REQUIRED.items():
        stated = values.get(group, {})
        if group in kind.model_fields and isinstance(stated, Mapping) and (missing := sorted(names - set(stated))):
            raise UolError(f"{damaged} ({group}.{missing[0]} is missing)")
    try:
        config = kind.model_validate(values)
    except ValidationError as error:
        raise UolError(f"{damaged} ({first_problem(error)})") from error
    if not _makes_sense(config.panel.scale):
        raise UolError(f"{path}: damaged: a scale from {config.panel.low:g} to {config.panel.high:g} makes no sense")
    _check_calibration(config.calibration, config.panel, path)
    if isinstance(config, EnsembleConfig):
        for other in config.panels:
            _check_calibration(other.calibration, other.panel, path)
    return config


def _makes_sense(scale: Scale) -> bool:
    return -_WIDEST <= scale.low < scale.high <= _WIDEST


def _check_calibration(calibration: Calibration, panel: PanelConfig, path: Path) -> None:
    """Refuse a calibration that would put every score at an end of the scale, or is none."""
    reach = panel.scale.unit * 100 + max(abs(panel.low), abs(panel.high))
    # Of dispersions no steepness is refused: where degrees are nearly equal, as after one epoch, it has no limit.
    bounds = {"intercept": 100 * reach, "slope": 100.0}
    for name, value in calibration.model_dump().items():
        if value is not None and not abs(value) <= bounds.get(name, 1e15):
            raise UolError(f"{path}: damaged: calibration.{name} of {value:g} makes no sense")
