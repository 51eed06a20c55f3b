"""NetworkScorer: one network with its references, whichever engine computes the network.

An engine embeds pixels, and compares embedded images with references. What follows from its comparisons is here, on
arrays: scores, calibration, and the same network on another panel's scale.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from uol.errors import UolError
from uol.images.read import ImageLike, Images
from uol.order.calibration import ENOUGH_FOR_LINE, Calibration, calibrate
from uol.order.config import BradleyTerry, ScoringConfig
from uol.order.order import Order, order_of
from uol.order.references import ReferenceSet, choose_references
from uol.scoring.base import (
    FEWEST_ANCHORS,
    NO_NUMBER,
    BaseScorer,
    Comparison,
    Embedding,
    Progress,
    Score,
    batches_of,
    check_anchors,
    check_panel,
)
from uol.scoring.config import PanelConfig
from uol.scoring.panels import PanelParts, StoredReferences, levels_used

if TYPE_CHECKING:
    from uol.order.bradley_terry import Estimates
    from uol.ratings.rated_images import RatedImages

Floats: TypeAlias = npt.NDArray[np.float64]

THRESHOLD = 0.2  # θ of comparisons, as on a scale of 1 to 5, unless a recipe sets it
_ENOUGH_TO_PAIR = 400  # images, of which 160,000 pairs are made


class Outcomes(NamedTuple):
    """N images compared with one network's references: probabilities (N, R, 3), and degrees of dispersion (N,).

    `levels` are the means of the panel's histograms, (N,), if scores include them.
    """

    probabilities: Floats
    degrees: Floats
    levels: Floats | None = None


class NetworkScorer(BaseScorer, Generic[Embedding]):
    """One network with its references."""

    references: ReferenceSet[Embedding]
    bradley_terry: BradleyTerry
    other_panels: Mapping[str, PanelParts] = MappingProxyType({})

    # ---------------------------------------------------------------- what an engine computes

    @abstractmethod
    def embed_pixels(self, pixels: Any) -> Embedding:
        """The Gaussians of framed images: uint8 (N, 3, crop, crop)."""

    @abstractmethod
    def outcomes(self, gaussians: Embedding, references: Embedding | None = None) -> Floats:
        """Probabilities of less, similar and greater for each image against each reference: (N, R, 3)."""

    @abstractmethod
    def level_means(self, gaussians: Embedding) -> Floats:
        """The means of the panel's histograms, (N,), of a network that predicts them."""

    @staticmethod
    @abstractmethod
    def degrees(gaussians: Any) -> Floats:
        """Predicted degrees of dispersion, uncalibrated: (N,)."""

    @abstractmethod
    def with_references(self, references: ReferenceSet[Embedding], panel: PanelConfig, scoring: ScoringConfig) -> Self:
        """The same network with other references; k, δ and the calibration are not fitted."""

    @abstractmethod
    def with_tensors(self, tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The same network with some of its tensors replaced."""

    @staticmethod
    @abstractmethod
    def read_references(stored: StoredReferences) -> ReferenceSet[Any]:
        """References from a model folder."""

    @abstractmethod
    def stored_references(self) -> StoredReferences:
        """References for a model folder."""

    # ---------------------------------------------------------------- panels

    @property
    def parts(self) -> PanelParts:
        """All that makes the network score on the scale of its panel."""
        references = self.stored_references()
        return PanelParts(self.panel, self.bradley_terry, self.scoring, self.calibration, references, {})

    @property
    def panels(self) -> list[PanelConfig]:
        """The panels that the model knows, the one whose scale scores are on first."""
        return [self.panel, *(parts.panel for parts in self.other_panels.values())]

    def on_panel(self, name: str) -> Self:
        """The same network on the scale of another panel that it knows; the result knows this panel alone."""
        if name == self.panel.name:
            return self
        check_panel(name, self.panels)
        parts = self.other_panels[name]
        network = self.with_tensors(parts.tensors) if parts.tensors else self
        scorer = network.with_references(self.read_references(parts.references), parts.panel, parts.scoring)
        scorer.bradley_terry, scorer.calibration = parts.bradley_terry, parts.calibration
        scorer.interval, scorer.former_card = self.interval, self.former_card
        scorer.other_panels = MappingProxyType({})
        return scorer

    def score_panels(self, pixels: Any) -> dict[str, list[Score]]:
        """Scores of framed images, uint8 (N, 3, crop, crop), on the scale of each panel."""
        scorers = {self.panel.name: self, **self._on_other_panels}
        return {name: scorers[name].score_embedded(own) for name, own in self.embed_panels(pixels).items()}

    def embed_panels(self, pixels: Any) -> dict[str, Embedding]:
        """The Gaussians of framed images for each panel; they are computed once for all that share its tensors."""
        embedded = self.embed_pixels(pixels)
        found = {self.panel.name: embedded}
        for name, scorer in self._on_other_panels.items():
            shared = self.other_panels[name].embeds_alike and scorer.scoring.mirror == self.scoring.mirror
            found[name] = embedded if shared else scorer.embed_pixels(pixels)
        return found

    def for_new_panel(self) -> Self:
        """The same model with intervals for the mean of a panel that nobody has seen, on this model's scales."""
        made = super().for_new_panel()
        made.__dict__.pop("_on_other_panels", None)
        made.__dict__["other_panels"] = {
            name: parts._replace(calibration=parts.calibration.for_new_panel(parts.panel.scale.unit))
            for name, parts in self.other_panels.items()
        }
        return made

    @cached_property
    def _on_other_panels(self) -> dict[str, Self]:
        return {name: self.on_panel(name) for name in self.other_panels}

    # ---------------------------------------------------------------- answers

    @property
    def members(self) -> list[Self]:
        """The networks that answer: this one."""
        return [self]

    @property
    def uses_histogram(self) -> bool:
        """Whether scores include the mean of the panel's histogram."""
        return self.levels_used > 0

    @property
    def levels_used(self) -> int:
        """How many rating levels the histograms have that scores include; 0 if they include none."""
        return levels_used(self.config, self.panel, self.scoring)

    def embed(self, images: Images | ImageLike, batch_size: int = 32, progress: Progress | None = None) -> Embedding:
        """The Gaussians of images."""
        parts = [self.embed_pixels(self.framed(batch)) for batch in batches_of(images, batch_size, progress)]
        return parts[0].joined(parts)

    def compare_pixels(self, first: Any, second: Any) -> Comparison:
        """Compare two framed images, each (3, crop, crop)."""
        gaussians = self.embed_pixels(np.stack([first, second]))
        raw = self.outcomes(gaussians.rows(slice(0, 1)), gaussians.rows(slice(1, 2)))[0, 0]
        less, similar, greater = self.calibration.comparison(raw).tolist()
        return Comparison(less, similar, greater)

    def leave_one_out(self) -> list[Score]:
        """Score each reference by comparison with all others: the quality of the scale."""
        return self.score_embedded(self.references.gaussians, leave_one_out=True)

    def score_embedded(self, embedded: Embedding, leave_one_out: bool = False) -> list[Score]:
        """Score embedded images; `leave_one_out` if the images are the references."""
        return self.calibrated(self.raw_estimates(embedded, leave_one_out), self.degrees(embedded))

    def calibrated(self, raw: Estimates, degrees: Floats) -> list[Score]:
        """Scores from Bradley-Terry scores and degrees of dispersion."""
        columns = self.calibration.apply(raw.value, raw.standard_error, degrees, self.panel.scale)
        return [Score(*row) for row in np.stack([*columns, raw.standard_error], 1).tolist()]

    def raw_estimates(self, gaussians: Embedding, leave_one_out: bool = False) -> Estimates:
        """Bradley-Terry scores before calibration; `leave_one_out` if the images are the references."""
        outcomes = self.outcomes(gaussians)
        if leave_one_out:  # the histograms of images that trained the network are known by heart: they have no part
            return self.solve_scores(outcomes, None, 1 - np.eye(len(outcomes)))
        return self.solve_scores(outcomes, self.levels(gaussians))

    def solve_scores(self, outcomes: Floats, levels: Floats | None = None, weights: Floats | None = None) -> Estimates:
        """Bradley-Terry scores of images from their outcomes against the references (N, R, 3).

        If the means of their histograms are given, (N,), the scores include them with their share.
        """
        from uol.order import bradley_terry  # imports scipy, which a graph that scores does not need

        found = bradley_terry.estimate(
            read_outcomes(outcomes, self.scoring.outcomes),
            self.references.scores,
            self.bradley_terry,
            self.panel.scale,
            weights,
        )
        if levels is None:
            return found
        share = self.scoring.histogram_share
        return bradley_terry.Estimates((1 - share) * found.value + share * levels, found.standard_error)

    def levels(self, gaussians: Embedding) -> Floats | None:
        """The means of the panel's histograms, (N,); None if scores do not include them."""
        return self.level_means(gaussians) if self.uses_histogram else None

    # ---------------------------------------------------------------- calibrating and anchoring

    def fit(self, rated: RatedImages, gaussians: Embedding) -> None:
        """Fit k and δ on comparisons among the references, and dispersion to the rating variances of all images."""
        from uol.order import bradley_terry

        scores = self.references.scores
        probabilities = self.outcomes(self.references.gaussians)
        if not np.isfinite(probabilities).all():
            raise UolError(NO_NUMBER)
        outcomes = read_outcomes(probabilities, self.scoring.outcomes)
        first, second = np.nonzero(~np.eye(len(scores), dtype=bool))
        self.bradley_terry = bradley_terry.fit(outcomes[first, second], scores[first], scores[second])
        self.calibration = Calibration().with_dispersion(self.degrees(gaussians), rated.variances)

    def calibrate(self, rated: RatedImages, gaussians: Embedding, threshold: float = THRESHOLD) -> None:
        """Learn intervals, dispersion and the comparisons' temperature from rated images that had no part in training.

        `threshold` is θ, up to which scores are similar, as on a scale of 1 to 5. If too few images have a known
        rating variance, dispersion stays as fitted to the training images.
        """
        raw = self.raw_estimates(gaussians)
        calibration = calibrate(rated.scores, raw.value, raw.standard_error)
        if np.isfinite(rated.variances).sum() >= ENOUGH_FOR_LINE:
            self.calibration = calibration.with_dispersion(self.degrees(gaussians), rated.variances)
        else:
            self.calibration = calibration.with_dispersion_of(self.calibration)
        self._calibrate_comparisons(rated, gaussians, threshold)

    def _calibrate_comparisons(self, rated: RatedImages, gaussians: Embedding, threshold: float) -> None:
        """Learn the temperature of comparisons from pairs of rated images, of at most a few hundred of them."""
        if len(rated) < ENOUGH_FOR_LINE:
            return
        some = np.unique(np.linspace(0, len(rated) - 1, min(len(rated), _ENOUGH_TO_PAIR)).round().astype(np.intp))
        first, second = np.nonzero(~np.eye(len(some), dtype=bool))
        scores, chosen = rated.scores[some], gaussians.rows(some)
        order = order_of(scores[first], scores[second], threshold * rated.scale.unit)
        self.calibration = self.calibration.with_comparisons(self.outcomes(chosen, chosen)[first, second], order)

    def anchor_embedded(self, rated: RatedImages, embedded: Embedding) -> Self:
        """Anchor, as `anchor` does, with embedded images."""
        check_anchors(rated)
        scoring = self.scoring
        if self.uses_histogram:  # those of the former panel
            scoring = scoring.model_copy(update={"histogram_share": 0.0})
        references, panel = references_of(rated, embedded, per_bin=len(rated))
        scorer = self.with_references(references, panel, scoring)
        scorer.interval, scorer.anchored, scorer.former_card = "panel", True, self.former_card
        scorer.fit(rated, embedded)
        raw = scorer.raw_estimates(scorer.references.gaussians, leave_one_out=True)
        # Even ten anchors need the line: they are there to show another panel's standard.
        calibration = calibrate(scorer.references.scores, raw.value, raw.standard_error, enough=FEWEST_ANCHORS)
        kept = calibration.model_copy(update={"temperature": self.calibration.temperature})
        scorer.calibration = kept.with_dispersion(self.degrees(embedded), rated.variances)
        scorer._calibrate_comparisons(rated, embedded, THRESHOLD)
        return scorer


def references_of(
    rated: RatedImages, gaussians: Embedding, bin_width: float = 0.1, per_bin: int = 10, seed: int = 0
) -> tuple[ReferenceSet[Embedding], PanelConfig]:
    """References from a panel's rated images, chosen by bins of the score (as wide as on a scale of 1 to 5)."""
    chosen = choose_references(rated.scores, bin_width * rated.scale.unit, per_bin, seed)
    scores = rated.scores[chosen]
    if len(np.unique(scores)) < 2:
        raise UolError(f"{rated.name}: the references need at least two different scores")
    return ReferenceSet(gaussians.rows(chosen), scores), PanelConfig.of(rated.name, rated.scale)


def read_outcomes(probabilities: Floats, kind: Literal["probabilities", "hard"]) -> Floats | npt.NDArray[np.intp]:
    """Outcomes for Bradley-Terry: the probabilities, or the likeliest `Order` of each comparison."""
    assert probabilities.shape[-1] == len(Order)
    return probabilities if kind == "probabilities" else probabilities.argmax(-1)
