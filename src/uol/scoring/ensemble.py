"""EnsembleScorer: several networks of one panel asked as one.

Each member compares an image with its own references and has its own Bradley-Terry score s_m, where its likelihood's
slope g_m is 0. Two ways of combining them:

    scores      value = mean of s_m
    outcomes    value where the likelihood of the mean outcome probabilities is greatest, which needs references that
                are the same images for all

The slope is linear in the outcome probabilities, so with one k and δ the second solves mean of g_m(s) = 0, and
s ≈ Σ I_m·s_m / Σ I_m with the members' information I_m at nearly the same place: to first order both are the same
mean. The first lets members keep references of their own, so that it averages over the choice of references too; it is
the default.

One calibration serves the whole. It is learnt on images that no member was trained on: members' own intervals are of
single networks, wider than those of their mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.errors import CallError
from uol.images.read import ImageLike, Images
from uol.order import bradley_terry
from uol.order.bradley_terry import BradleyTerry, Estimates
from uol.order.calibration import ENOUGH_FOR_LINE, Calibration, calibrate
from uol.order.config import ModelConfig, common_view
from uol.order.gaussians import Gaussians
from uol.order.views import shown_to
from uol.ratings.rated_images import RatedImages
from uol.scoring.base import AskedWithImages, Pixels, as_sequence, one_ahead
from uol.scoring.config import Combining, PanelConfig
from uol.scoring.scorer import FEWEST_ANCHORS, Scorer, Told, check_anchors
from uol.scoring.scores import Comparison, EnsembleScore, Score

Floats: TypeAlias = npt.NDArray[np.float64]

FEWEST_MEMBERS = 2


class Standard(NamedTuple):
    """What makes a member's degrees of dispersion comparable with the others': offset + factor · log(degree)."""

    offset: float
    factor: float


class Combined(NamedTuple):
    """What the members say of N images together, before calibration, each (N,)."""

    value: Floats
    standard_error: Floats
    disagreement: Floats
    degree: Floats


class EnsembleScorer(AskedWithImages):
    """Models of one panel, asked for scores, comparisons and rankings as one.

    Images are framed once, in the size of the largest, and each member is shown its part of the frame in its own size.
    The standard error of a score is the mean of the members' own, not divided by their number: they look at the same
    image and learnt from the same panel. How far they differ is told beside it (`EnsembleScore.disagreement`).
    """

    def __init__(
        self,
        members: Sequence[Scorer],
        combine: Combining = "scores",
        bradley_terry_model: BradleyTerry | None = None,
        calibration: Calibration | None = None,
        standards: Sequence[Standard] | None = None,
    ) -> None:
        """Without `bradley_terry_model`, k and δ of mean outcomes are fitted; without `calibration`, none but that of
        dispersion, which is then the geometric mean of the members' own."""
        check_members(members)
        self.members = list(members)
        self.panel: PanelConfig = members[0].panel
        self.combine: Combining = combine
        self.bradley_terry = None
        if combine == "outcomes":
            self._check_shared_references("the mean of outcomes")
            if any(member.tells_levels for member in members):
                raise CallError("members that tell histograms have no mean of outcomes; combine their scores")
            self.bradley_terry = bradley_terry_model or self._fitted()
        lines = [member.calibration for member in members]
        known = all(line.dispersion_intercept is not None for line in lines)
        self.standards = [Standard(line.dispersion_intercept or 0.0, line.dispersion_slope) for line in lines]
        self.calibration = Calibration(dispersion_intercept=0.0 if known else None, dispersion_slope=1.0)
        if calibration is not None and standards is not None:
            self.calibration, self.standards = calibration, list(standards)

    # ---------------------------------------------------------------- asking

    def score_pixels(self, pixels: Pixels | Tensor) -> list[Score]:
        """Scores of images already framed: uint8 (N, 3, crop, crop), an array or a tensor."""
        parts = torch.split(torch.as_tensor(pixels), self.batch_size)
        return [score for scores in one_ahead(map(self._begin, parts)) for score in scores]

    def begin(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Begin to score framed images, each (3, crop, crop); calling what is returned waits for their scores."""
        return self._begin(self.members[0].gathered(images))

    def _begin(self, pixels: Tensor) -> Callable[[], list[Score]]:
        if self.on_gpu:  # once for all members
            pixels = (pixels if pixels.is_cuda else pixels.pin_memory()).cuda(non_blocking=True)
        begun = [member.begin_outcomes(self._shown(pixels, member)) for member in self.members]

        def wait() -> list[Score]:
            return [*self._scores(self._combined([told() for told in begun]))]

        return wait

    def compare_pixels(self, first: Pixels | Tensor, second: Pixels | Tensor) -> Comparison:
        """How one framed image (3, crop, crop) stands to another: the mean of the members' probabilities."""
        pair = torch.stack([torch.as_tensor(first), torch.as_tensor(second)])
        told = [member.compare_pixels(*self._shown(pair, member)) for member in self.members]
        less, similar, greater = np.mean(told, axis=0).tolist()
        return Comparison(less, similar, greater)

    def embed(self, images: Images | ImageLike, batch_size: int = 32) -> list[Gaussians]:
        """Each member's Gaussians of images, framed as the models want them."""
        images = as_sequence(images)
        batches = (images[start : start + batch_size] for start in range(0, len(images), batch_size))
        parts = [self.embed_pixels(torch.from_numpy(self.framed(batch))) for batch in batches]
        joined = zip(*parts, strict=True)
        return [Gaussians(*(torch.cat(columns) for columns in zip(*own, strict=True))) for own in joined]

    def embed_pixels(self, pixels: Tensor) -> list[Gaussians]:
        """Each member's Gaussians of images already framed: uint8 (N, 3, crop, crop)."""
        return [member.embed_pixels(self._shown(pixels, member)) for member in self.members]

    def score_exactly(self, pixels: Tensor) -> list[EnsembleScore]:
        """Scores of framed images in float32 throughout, wherever it is computed: those that are tabled."""
        return self.score_embedded(self.embed_pixels(pixels))

    def score_embedded(self, embedded: Sequence[Gaussians]) -> list[EnsembleScore]:
        """Scores of images that every member has embedded."""
        return list(self._scores(self._combined(self._told(embedded))))

    def leave_one_out(self) -> list[EnsembleScore]:
        """Scores of the references, each compared with all others; they must be the same images for all members."""
        self._check_shared_references("leaving one out")
        told = [one._replace(levels=None) for one in self._told(self._references)]  # as a single model does
        return list(self._scores(self._combined(told, self._others)))

    def _told(self, embedded: Sequence[Gaussians]) -> list[Told]:
        pairs = zip(self.members, embedded, strict=True)
        return [Told(m.outcomes(own), m.degrees(own), m.levels(own)) for m, own in pairs]

    def _combined(self, told: Sequence[Told], weights: Floats | None = None) -> Combined:
        pairs = zip(self.members, told, strict=True)
        alone = [member.solved(one.outcomes, one.levels, weights) for member, one in pairs]
        values = np.stack([estimates.value for estimates in alone])
        if self.bradley_terry is None:
            together = Estimates(values.mean(0), np.mean([estimates.standard_error for estimates in alone], axis=0))
        else:
            together = bradley_terry.estimate(
                np.mean([one.outcomes for one in told], axis=0),
                self.members[0].references.scores,
                self.bradley_terry,
                (self.panel.low, self.panel.high),
                weights,
            )
        standard = [s.offset + s.factor * _logs(one.degrees) for s, one in zip(self.standards, told, strict=True)]
        return Combined(*together, values.std(0, ddof=1), np.exp(np.mean(standard, axis=0)))

    def _scores(self, found: Combined) -> Iterator[EnsembleScore]:
        bounds = (self.panel.low, self.panel.high)
        value = self.calibration.value(found.value, bounds)
        half = self.calibration.half_width(found.standard_error)
        low, high = np.clip(value - half, *bounds), np.clip(value + half, *bounds)
        dispersion = self.calibration.dispersion(found.degree)
        disagreement = self.calibration.slope * found.disagreement
        for row in zip(value, low, high, dispersion, found.standard_error, disagreement, strict=True):
            yield EnsembleScore(*map(float, row))

    # ---------------------------------------------------------------- making

    def calibrate(self, rated: RatedImages, embedded: Sequence[Gaussians]) -> None:
        """Learn the score's line, intervals and dispersion from rated images that had no part in training any member.

        Where too few of them have a known rating variance, dispersion stays the geometric mean of the members'.
        """
        self._learn(rated, self._told(embedded), dispersion=np.isfinite(rated.variances).sum() >= ENOUGH_FOR_LINE)

    def anchor(self, rated: RatedImages) -> EnsembleScorer:
        """The same models on another panel's scale: its rated images become the references; nothing is trained.

        Intervals are calibrated on the anchors themselves, each scored with itself left out.
        """
        check_anchors(rated)
        return self.anchor_embedded(rated, self.embed(rated.images))

    def anchor_embedded(self, rated: RatedImages, embedded: Sequence[Gaussians]) -> EnsembleScorer:
        """As `anchor`, with rated images that every member has embedded already."""
        pairs = zip(self.members, embedded, strict=True)
        anchored = EnsembleScorer([member.anchor_embedded(rated, own) for member, own in pairs], self.combine)
        told = anchored._told(anchored._references)
        anchored._learn(rated, told, anchored._others, FEWEST_ANCHORS)
        return anchored

    def _learn(
        self,
        rated: RatedImages,
        told: Sequence[Told],
        weights: Floats | None = None,
        enough: int = ENOUGH_FOR_LINE,
        dispersion: bool | np.bool = True,
    ) -> None:
        if dispersion:
            self.standards = [_standard(one.degrees) for one in told]
        found = self._combined(told, weights)
        learnt = calibrate(rated.scores, found.value, found.standard_error, enough=enough)
        if dispersion:
            self.calibration = learnt.with_dispersion(found.degree, rated.variances)
        else:
            kept = self.calibration.model_dump(include={"dispersion_intercept", "dispersion_slope"})
            self.calibration = learnt.model_copy(update=kept)

    def _fitted(self) -> BradleyTerry:
        """k and δ of the mean outcomes, fitted on the comparisons among the references."""
        scores = self.members[0].references.scores
        outcomes = np.mean([member.outcomes(member.references.gaussians) for member in self.members], axis=0)
        first, second = np.nonzero(self._others)
        return bradley_terry.fit(outcomes[first, second], scores[first], scores[second])

    @property
    def _references(self) -> list[Gaussians]:
        return [member.references.gaussians for member in self.members]

    @property
    def _others(self) -> Floats:
        """Weights of comparisons among the references: 0 of each with itself."""
        return 1 - np.eye(len(self.members[0].references))

    def _check_shared_references(self, what: str) -> None:
        first = self.members[0].references.scores
        if not all(np.array_equal(first, member.references.scores) for member in self.members):
            raise CallError(f"{what} needs members whose references are the same images")

    # ---------------------------------------------------------------- keeping

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder: config.json, README.md and a model folder for each member in `members`."""
        from uol.scoring.ensemble_folder import save_ensemble

        save_ensemble(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Move all members to a device."""
        for member in self.members:
            member.to(device)
        return self

    @property
    def config(self) -> ModelConfig:
        """What the largest member is made of, with a frame that serves all."""
        return common_view([member.config for member in self.members])

    def _shown(self, pixels: Tensor, member: Scorer) -> Tensor:
        return shown_to(pixels, member.config, self.config)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.members[0].on_gpu

    @property
    def batch_size(self) -> int:
        """How many images are best scored at once."""
        return self.members[0].batch_size


def check_members(members: Sequence[Scorer]) -> None:
    """Refuse models that cannot answer as one: of different panels, or looking at images framed otherwise."""
    if len(members) < FEWEST_MEMBERS:
        raise CallError(f"an ensemble needs at least {FEWEST_MEMBERS} members, not {len(members)}")
    first = members[0]
    for member in members:
        if member.panel != first.panel:
            told = [f"{panel.name}, {panel.low:g} to {panel.high:g}" for panel in (first.panel, member.panel)]
            raise CallError(f"members of an ensemble must be of one panel and scale, not {told[0]} and {told[1]}")
        one, other = first.config, member.config
        if not one.framed_like(other):
            raise CallError(f"members of an ensemble must see images framed alike, not {one.view} and {other.view}")


def _logs(degrees: Floats) -> Floats:
    return np.log(np.maximum(degrees, 1e-12))


def _standard(degrees: Floats) -> Standard:
    """Log degrees get a mean of 0 and a deviation of 1; those of points, which are all alike, only the mean."""
    logs = _logs(degrees)
    spread = float(logs.std())
    factor = 1 / spread if spread > 1e-9 else 1.0
    return Standard(-factor * float(logs.mean()), factor)
