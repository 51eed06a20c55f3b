"""Results: what one trained and tested network measured, and where that came from, as JSON."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, model_validator

from uol.storage.files import plain, write_text
from uol.storage.validation import Strict, read_validated

PANEL, ANCHORING = "panel-", "anchoring-"  # how the names of files begin that hold something else than a result
_LONG = 20  # values: a list with more is written as one line
ROUNDING = 5e-5  # figures may have been rounded to four digits

Name = Annotated[str, Field(pattern=r"^[^/\\.\x00-\x1f][^/\\\x00-\x1f]*$")]  # is part of a file's name
Correlation = Annotated[float, Field(ge=-1 - 1e-9, le=1 + 1e-9)]
Share = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[float, Field(ge=0)]


class Metrics(Strict):
    """Figures on one set of images; None where undefined."""

    images: int = Field(ge=0)
    pc: Correlation | None
    mae: Size | None
    rmse: Size | None
    spearman: Correlation | None
    order_accuracy: Share | None
    coverage: Share | None
    interval_width: Size | None
    dispersion_pc: Correlation | None


class Replicates(Strict):
    """Bootstrap replicates of figures on test images (`uol.runs.bootstrap`); None where undefined."""

    pc: list[float] | None
    mae: list[float] | None
    rmse: list[float] | None


class KnownRaters(Strict):
    """Figures of predictions that know the leniency of each image's raters, learnt from the training images.

    If not everybody rated every image, its mean depends on who did, which the image does not show.
    """

    pc: Correlation | None
    mae: Size
    rmse: Size
    replicates: Replicates


class Others(Strict):
    """The images that are not of a group, and their correlation."""

    images: int = Field(ge=1)
    pc: Correlation | None


class Group(Strict):
    """Figures within one group of images; `bias` is the mean of prediction − score."""

    images: int = Field(ge=1)
    pc: Correlation | None
    mae: Size
    rmse: Size
    bias: float
    others: Others | None = Field(None, description="None where too few, and in results from before they were kept")


class Transfer(Metrics):
    """Figures on another data set: on which of its splits (None: the whole set), and how its images were framed."""

    split: str | None
    framing: str
    fingerprint: str | None = Field(None, description="of its ratings; None in results from before it was kept")
    replicates: Replicates | None = None
    groups: dict[str, Group] | None = None


class PanelFigures(Metrics):
    """Figures on the test images of another panel whose training images trained the same network: no transfer."""

    trained: Literal[True]
    split: str = Field(description="the split of that panel, whose other images trained")
    score_sd: float = Field(ge=0)
    replicates: Replicates | None = None
    known_raters: KnownRaters | None = Field(None, description="None if raters are unknown, or the same for all images")
    groups: dict[str, Group] | None = None


class Makeup(Strict):
    """How often the photograph with make-up scored as the answer says: `right` of `pairs`, one pair per person."""

    accuracy: Share
    right: int = Field(ge=0)
    pairs: int = Field(ge=1)
    answer: str = Field(description="where the answers come from: the voters' majority, or make-up itself")
    takes: str = Field(description="first: the first photograph of each side; mean: the mean score of all")
    framing: str


class Spread(Strict):
    """How far predictions reach on the test images, and the panel's means there.

    Ends of both, and how many fall in each of equally wide parts of the scale.
    """

    predicted_ends: list[float] = Field(min_length=2, max_length=2)
    panel_ends: list[float] = Field(min_length=2, max_length=2)
    predicted: list[int]
    panel: list[int]


class Data(Strict):
    """What a network was trained and tested on."""

    name: str
    fingerprint: str = Field(min_length=1)
    pixels: str | None = Field(description="a checksum of all images as the network sees them")
    scale: list[float] = Field(min_length=2, max_length=2)
    training: int = Field(ge=0)
    held_out: int = Field(ge=0)
    test: int = Field(ge=0)
    division: str | None = Field(None, description="of the names that train and test; None from before it was kept")


class PanelData(Data):
    """One of several panels that trained together."""

    split: str
    left_out: int = Field(ge=0, description="training images with the very pixels of a test image of any panel")


class Hardware(Strict):
    """What a network was trained with."""

    machine: str
    gpu: str | None
    python: str
    torch: str


class Member(Strict):
    """One network of an ensemble, and what is needed to train it again."""

    recipe: Name
    seed: int = Field(ge=0)
    command: str
    commit: str | None = Field(pattern=r"^[0-9a-f]{40}$")
    modified: bool
    told: bool
    started: str
    settings: dict[str, Any]


class Seen(Strict):
    """A data set that a teacher learnt from, itself or from its own teachers, by which of its splits."""

    name: str
    fingerprint: str = Field(min_length=1)
    split: str
    division: str | None = None


class Teacher(Strict):
    """A network that taught another: which it was, and what it learnt from; None if its folder does not say."""

    model: str
    recipe: str | None
    seed: int | None
    commit: str | None
    weights: str = Field(description="SHA-256 of its whole file of weights")
    data: list[Seen] | None


class Provenance(Strict):
    """Everything needed to repeat a result."""

    command: str
    commit: str | None = Field(pattern=r"^[0-9a-f]{40}$")
    modified: bool
    told: bool = Field(description="the commit was named by UOL_COMMIT, not read from a checkout")
    uol: str
    started: str
    settings: dict[str, Any]
    changes: dict[str, Any]
    data: Data
    panels: list[PanelData] | None = Field(None, description="where several trained together: all, the first first")
    teachers: list[Teacher] | None = Field(None, description="None without any, and from before they were kept")
    hardware: Hardware
    seconds: float | None = Field(ge=0)
    seconds_per_epoch: float | None = Field(ge=0)
    members: list[Member] | None = Field(None, description="of an ensemble; its settings are those of the first")

    @property
    def trained_on(self) -> set[str]:
        """The names of the data sets that trained the network."""
        return {self.data.name, *(panel.name for panel in self.panels or ())}

    @property
    def learnt_from(self) -> set[str]:
        """The names of the data sets that trained the network or its teachers."""
        return self.trained_on | {seen.name for teacher in self.teachers or () for seen in teacher.data or ()}


class Identity(NamedTuple):
    """What distinguishes one result of an experiment from another."""

    trained_on: str
    method: str
    recipe: str
    split: str
    seed: int
    ensemble: int


class Result(Strict):
    """What one network measured: its figures on the test images, on other data sets, and its provenance."""

    experiment: Name
    method: Name
    recipe: Name
    trained_on: Name
    split: Name
    seed: int = Field(ge=0)
    ensemble: int = Field(ge=1)
    metrics: Metrics
    score_sd: float = Field(ge=0)
    transfer: dict[Name, Transfer]
    beside: dict[Name, PanelFigures] | None = Field(None, description="on the other panels that it was trained on too")
    makeup: Makeup | None = None
    spread: Spread | None = None
    replicates: Replicates | None = None
    known_raters: KnownRaters | None = Field(None, description="None if raters are unknown, or the same for all images")
    groups: dict[str, Group] | None = None
    provenance: Provenance

    @property
    def identity(self) -> Identity:
        """What distinguishes this result from others."""
        return Identity(self.trained_on, self.method, self.recipe, self.split, self.seed, self.ensemble)

    @property
    def file_name(self) -> str:
        """The name of its file in the folder of its experiment."""
        networks = f"-ensemble-{self.ensemble}" if self.ensemble > 1 else ""
        return f"{self.method}-{self.recipe}-{self.split}-seed-{self.seed}{networks}.json"

    @property
    def source(self) -> str:
        """Which training it is of, as readings of it name it in their changes."""
        return f"{self.file_name}, commit {self.provenance.commit}, {self.provenance.started}"

    @property
    def network(self) -> str:
        """Which network it is of; for scores read again from a network, that network."""
        return str(self.provenance.changes.get("network", self.source))

    @model_validator(mode="after")
    def _transfer_is_to_what_was_never_seen(self) -> Result:
        for name in sorted(self.provenance.learnt_from & self.transfer.keys()):
            who = "the network" if name in self.provenance.trained_on else "a teacher of the network"
            raise ValueError(f"transfer.{name}: {who} was trained on images of {name}")
        return self

    @model_validator(mode="after")
    def _possible(self) -> Result:
        found = self.metrics
        if found.rmse is None:
            return self
        if found.mae is not None and found.mae > found.rmse + 2 * ROUNDING:
            raise ValueError(f"metrics: an MAE of {found.mae:.4f} above the RMSE, {found.rmse:.4f}, is impossible")
        if found.pc is not None and found.rmse < (least := least_rmse(found.pc, self.score_sd)):
            raise ValueError(
                f"metrics: an RMSE of {found.rmse:.4f} is impossible with a PC of {found.pc:.4f} on scores of standard "
                f"deviation {self.score_sd:.4f}: at least {least:.4f}"
            )
        return self


def least_rmse(pc: float, sd: float) -> float:
    """The least RMSE that scores of standard deviation `sd` allow at a correlation, sd·√(1 − PC²), less rounding."""
    nearest = min(1.0, abs(pc) + ROUNDING)
    return max(0.0, sd - ROUNDING) * math.sqrt(1 - nearest**2) - ROUNDING


def is_fold(split: str) -> bool:
    """Whether a split is one of a set of folds."""
    return re.fullmatch(r"fold-\d+", split) is not None


def same_division(one: str | None, other: str | None) -> bool:
    """Whether two digests may be of one split; one from before they were kept may be of any."""
    return one is None or other is None or one == other


def read_result(path: Path) -> Result:
    """Read and check one result; what is wrong is said in one line."""
    return read_validated(Result, path)


def write_result(path: Path, result: BaseModel) -> None:
    """Write a result in one step, without optional parts that are missing; a list of replicates is one line."""
    lines: list[str] = []

    def folded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: folded(item) for key, item in value.items()}
        if isinstance(value, list) and len(value) > _LONG:
            lines.append(json.dumps(value, allow_nan=False))
            return f"\0{len(lines) - 1}"  # what no text of a result contains
        return value

    text = json.dumps(
        folded(plain(result.model_dump(exclude_defaults=True))), indent=2, ensure_ascii=False, allow_nan=False
    )
    for number, line in enumerate(lines):
        text = text.replace(f'"\\u0000{number}"', line)
    write_text(path, text + "\n")


def result_files(folder: Path) -> list[Path]:
    """The files of results in a folder, by name; panels of methods and curves of anchoring are not."""
    return sorted(path for path in folder.glob("*.json") if not path.name.startswith((PANEL, ANCHORING)))
