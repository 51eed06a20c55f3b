"""EnsembleScorer: several networks of the same panels that answer as one.

Each member compares an image with its references and solves a Bradley-Terry score; the ensemble's score is their mean.
Members may have different references, and the mean is then over the choice of references too.

One calibration serves the whole on each panel. It is learnt on images that no member was trained on: the members'
intervals are of single networks, wider than those of their mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.errors import CallError
from uol.images.read import ImageLike, Images
from uol.order.calibration import ENOUGH_FOR_LINE, LEAST_DEGREE, Calibration, calibrate
from uol.order.config import ModelConfig, common_view
from uol.order.gaussians import Gaussians
from uol.order.views import shown_to
from uol.ratings.rated_images import RatedImages
from uol.scoring.ahead import one_ahead
from uol.scoring.base import (
    FEWEST_ANCHORS,
    BaseScorer,
    Comparison,
    EnsembleScore,
    Pixels,
    Progress,
    Score,
    batches_of,
    check_panel,
)
from uol.scoring.config import PanelConfig
from uol.scoring.network import Outcomes
from uol.scoring.scorer import Scorer

Floats: TypeAlias = npt.NDArray[np.float64]

FEWEST_MEMBERS = 2


class Embeddings(tuple[Gaussians, ...]):
    """Each member's Gaussians of the same images."""

    def rows(self, index: Any) -> Embeddings:
        """Some of the images."""
        return Embeddings(gaussians.rows(index) for gaussians in self)

    @classmethod
    def joined(cls, parts: Sequence[Embeddings]) -> Embeddings:
        """The images of several parts, one after another."""
        return cls(Gaussians.joined(own) for own in zip(*parts, strict=True))


class Standard(NamedTuple):
    """Makes a member's degrees of dispersion comparable with the others': offset + factor · log(degree)."""

    offset: float
    factor: float


class Combined(NamedTuple):
    """The members' mean of N images before calibration, and how far they differ, each (N,)."""

    value: Floats
    standard_error: Floats
    disagreement: Floats
    degree: Floats


class CalibratedPanel(NamedTuple):
    """A panel that all members know, with what the ensemble has learnt for it."""

    panel: PanelConfig
    calibration: Calibration
    standards: Sequence[Standard]


class EnsembleScorer(BaseScorer):
    """Several networks of the same panels that answer as one.

    Images are framed once, in the size of the largest, and each member is shown its part of the frame in its size.
    The standard error of a score is the mean of the members', not divided by their number: they look at the same
    image and learnt from the same panel. `EnsembleScore.disagreement` reports how far they differ.
    """

    def __init__(
        self,
        members: Sequence[Scorer],
        calibration: Calibration | None = None,
        standards: Sequence[Standard] | None = None,
    ) -> None:
        """Without `calibration` and `standards`, dispersion is the geometric mean of the members' and nothing else is
        calibrated; `scoring` is that of the first member, and each member scores by its settings."""
        check_members(members)
        self._members = list(members)
        self.panel = members[0].panel.model_copy(update={"levels": None})  # in which members may differ
        self.scoring = members[0].scoring
        lines = [member.calibration for member in members]
        known = all(line.dispersion_intercept is not None for line in lines)
        self.standards = [Standard(line.dispersion_intercept or 0.0, line.dispersion_slope) for line in lines]
        self.calibration = Calibration(dispersion_intercept=0.0 if known else None, dispersion_slope=1.0)
        if calibration is not None and standards is not None:
            self.calibration, self.standards = calibration, list(standards)
        self.other_panels: Mapping[str, CalibratedPanel] = {}

    # ---------------------------------------------------------------- panels

    @property
    def panels(self) -> list[PanelConfig]:
        """The panels that the ensemble is calibrated for, the one whose scale scores are on first."""
        return [self.panel, *(known.panel for known in self.other_panels.values())]

    def on_panel(self, name: str) -> EnsembleScorer:
        """The same networks on the scale of another panel; the result knows this panel alone."""
        if name == self.panel.name:
            return self
        check_panel(name, self.panels)
        found = self._on_other_panels[name]
        found.interval, found.former_card = self.interval, self.former_card
        return found

    def with_panels(self, others: Sequence[EnsembleScorer]) -> Self:
        """The same ensemble, which also knows the panels of others: the same networks on the scales of other panels."""
        self.other_panels = {
            other.panel.name: CalibratedPanel(other.panel, other.calibration, other.standards) for other in others
        }
        self.__dict__.pop("_on_other_panels", None)
        return self

    def score_panels(self, pixels: Pixels | Tensor) -> dict[str, list[Score]]:
        """Scores of framed images, uint8 (N, 3, crop, crop), on the scale of each panel."""
        shown = torch.as_tensor(pixels)
        embedded = [member.embed_panels(self._shown(shown, member)) for member in self.members]
        scorers = {self.panel.name: self, **self._on_other_panels}
        return {name: one.score_embedded(Embeddings(own[name] for own in embedded)) for name, one in scorers.items()}

    def for_new_panel(self) -> Self:
        """The same model with intervals for the mean of a panel that nobody has seen, on this model's scales."""
        made = super().for_new_panel()
        made.__dict__.pop("_on_other_panels", None)
        made.other_panels = {
            name: known._replace(calibration=known.calibration.for_new_panel(known.panel.scale.unit))
            for name, known in self.other_panels.items()
        }
        return made

    @cached_property
    def _on_other_panels(self) -> dict[str, EnsembleScorer]:
        return {
            name: EnsembleScorer([member.on_panel(name) for member in self.members], known.calibration, known.standards)
            for name, known in self.other_panels.items()
        }

    # ---------------------------------------------------------------- answers

    def score_pixels(self, pixels: Pixels | Tensor) -> list[Score]:
        """Score framed images: uint8 (N, 3, crop, crop), an array or a tensor."""
        parts = torch.split(torch.as_tensor(pixels), self.batch_size)
        return [score for scores in one_ahead(map(self._submit, parts)) for score in scores]

    def submit(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Start to score framed images, each (3, crop, crop); the function returned waits for the scores."""
        return self._submit(self.members[0].stack_pixels(images))

    def _submit(self, pixels: Tensor) -> Callable[[], list[Score]]:
        if self.on_gpu:  # once for all members
            pixels = (pixels if pixels.is_cuda else pixels.pin_memory()).cuda(non_blocking=True)
        submitted = [member.submit_outcomes(self._shown(pixels, member)) for member in self.members]
        return lambda: self._scores(self._combine([wait() for wait in submitted]))

    def compare_pixels(self, first: Pixels | Tensor, second: Pixels | Tensor) -> Comparison:
        """Compare two framed images, each (3, crop, crop): the mean of the members' probabilities."""
        pair = torch.stack([torch.as_tensor(first), torch.as_tensor(second)])
        answers = [member.compare_pixels(*self._shown(pair, member)) for member in self.members]
        less, similar, greater = np.mean(answers, axis=0).tolist()
        return Comparison(less, similar, greater)

    def embed(self, images: Images | ImageLike, batch_size: int = 32, progress: Progress | None = None) -> Embeddings:
        """Each member's Gaussians of images."""
        batches = batches_of(images, batch_size, progress)
        return Embeddings.joined([self.embed_pixels(self.framed(batch)) for batch in batches])

    def embed_pixels(self, pixels: Pixels | Tensor) -> Embeddings:
        """Each member's Gaussians of framed images: uint8 (N, 3, crop, crop), an array or a tensor."""
        shown = torch.as_tensor(pixels)
        return Embeddings(member.embed_pixels(self._shown(shown, member)) for member in self.members)

    def score_embedded(self, embedded: Embeddings) -> list[Score]:
        """Score images that every member has embedded."""
        return self._scores(self._combine(self._outcomes(embedded)))

    def leave_one_out(self) -> list[Score]:
        """Score each reference by comparison with all others; all members must have the same images as references."""
        first = self.members[0].references.scores
        if not all(np.array_equal(first, member.references.scores) for member in self.members):
            raise CallError("leaving one out requires members whose references are the same images")
        outcomes = [found._replace(levels=None) for found in self._outcomes(self._references)]  # as one network does
        return self._scores(self._combine(outcomes, self._others))

    def _outcomes(self, embedded: Embeddings) -> list[Outcomes]:
        pairs = zip(self.members, embedded, strict=True)
        return [Outcomes(m.outcomes(own), m.degrees(own), m.levels(own)) for m, own in pairs]

    def _combine(self, outcomes: Sequence[Outcomes], weights: Floats | None = None) -> Combined:
        pairs = zip(self.members, outcomes, strict=True)
        alone = [member.solve_scores(found.probabilities, found.levels, weights) for member, found in pairs]
        values = np.stack([estimates.value for estimates in alone])
        error = np.mean([estimates.standard_error for estimates in alone], axis=0)
        degrees = [s.offset + s.factor * _logs(one.degrees) for s, one in zip(self.standards, outcomes, strict=True)]
        return Combined(values.mean(0), error, values.std(0, ddof=1), np.exp(np.mean(degrees, axis=0)))

    def _scores(self, found: Combined) -> list[Score]:
        calibrated = self.calibration.apply(found.value, found.standard_error, found.degree, self.panel.scale)
        disagreement = self.calibration.slope * found.disagreement
        columns = np.stack([*calibrated, found.standard_error, disagreement], 1)
        return [EnsembleScore(*row) for row in columns.tolist()]

    # ---------------------------------------------------------------- calibrating and anchoring

    def calibrate(self, rated: RatedImages, embedded: Embeddings) -> None:
        """Learn the score's line, intervals and dispersion from rated images that had no part in training any member.

        If too few of them have a known rating variance, dispersion stays the geometric mean of the members'.
        """
        enough = bool(np.isfinite(rated.variances).sum() >= ENOUGH_FOR_LINE)
        self._learn(rated, self._outcomes(embedded), dispersion=enough)

    def anchor_embedded(self, rated: RatedImages, embedded: Embeddings) -> EnsembleScorer:
        """Anchor, as `anchor` does, with images that every member has embedded."""
        pairs = zip(self.members, embedded, strict=True)
        anchored = EnsembleScorer([member.anchor_embedded(rated, own) for member, own in pairs])
        outcomes = anchored._outcomes(anchored._references)
        anchored._learn(rated, outcomes, anchored._others, FEWEST_ANCHORS)
        anchored.anchored, anchored.former_card = True, self.former_card
        return anchored

    def _learn(
        self,
        rated: RatedImages,
        outcomes: Sequence[Outcomes],
        weights: Floats | None = None,
        enough: int = ENOUGH_FOR_LINE,
        dispersion: bool = True,
    ) -> None:
        if dispersion:
            self.standards = [_standard(found.degrees) for found in outcomes]
        found = self._combine(outcomes, weights)
        learnt = calibrate(rated.scores, found.value, found.standard_error, enough=enough)
        if dispersion:
            self.calibration = learnt.with_dispersion(found.degree, rated.variances)
        else:
            self.calibration = learnt.with_dispersion_of(self.calibration)

    @property
    def _references(self) -> Embeddings:
        return Embeddings(member.references.gaussians for member in self.members)

    @property
    def _others(self) -> Floats:
        """Weights of comparisons among the references: 0 of each with itself."""
        return 1 - np.eye(len(self.members[0].references))

    # ---------------------------------------------------------------- folders and devices

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder, with a model folder for each member in `members`."""
        from uol.scoring.folder import save_ensemble

        save_ensemble(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Move all members to a device."""
        for member in self.members:
            member.to(device)
        self.__dict__.pop("_on_other_panels", None)
        return self

    @property
    def config(self) -> ModelConfig:
        """The settings of the largest member, with a frame that serves all."""
        return common_view([member.config for member in self.members])

    @property
    def members(self) -> list[Scorer]:
        """The networks that answer."""
        return self._members

    def _shown(self, pixels: Tensor, member: Scorer) -> Tensor:
        return shown_to(pixels, member.config, self.config)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.members[0].on_gpu

    @property
    def batch_size(self) -> int:
        """How many images to score at once."""
        return self.members[0].batch_size


def check_members(members: Sequence[Scorer]) -> None:
    """Refuse models that cannot answer as one: not in torch, of different panels, or with images framed differently."""
    if not isinstance(members, list | tuple) or len(members) < FEWEST_MEMBERS:
        given = len(members) if isinstance(members, list | tuple) else repr(members)
        raise CallError(f"an ensemble requires a list of at least {FEWEST_MEMBERS} members, not {given}")
    if not all(isinstance(member, Scorer) for member in members):
        raise CallError('members of an ensemble must be single networks in torch: open each with runtime="torch"')
    first = members[0]
    for member in members:
        if member.panel.identity != first.panel.identity:
            one, other = (f"{panel.name}, {panel.low:g} to {panel.high:g}" for panel in (first.panel, member.panel))
            raise CallError(f"members of an ensemble must be of one panel and scale, not {one} and {other}")
        if not first.config.framed_like(member.config):
            one, other = first.config.view, member.config.view
            raise CallError(f"members of an ensemble must see images framed alike, not {one} and {other}")


def _logs(degrees: Floats) -> Floats:
    return np.log(np.maximum(degrees, LEAST_DEGREE))


def _standard(degrees: Floats) -> Standard:
    """Log degrees get a mean of 0 and a deviation of 1; those of points, which are all alike, only the mean."""
    logs = _logs(degrees)
    spread = float(logs.std())
    factor = 1 / spread if spread > 1e-9 else 1.0
    return Standard(-factor * float(logs.mean()), factor)
