"""Scorer: one network with its references, loaded once. Scores on a panel's scale, comparisons and other panels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.errors import UolError
from uol.images.read import ImageLike, Images
from uol.order import bradley_terry
from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import ENOUGH_FOR_LINE, Calibration, calibrate
from uol.order.config import ModelConfig, ScoringConfig
from uol.order.gaussians import Gaussians, averaged, dispersion_degree
from uol.order.model import OrderModel
from uol.order.order import Order, order_of
from uol.order.references import ReferenceSet, choose_references
from uol.order.views import views
from uol.ratings.rated_images import RatedImages
from uol.scoring.base import (
    FEWEST_ANCHORS,
    BaseScorer,
    Comparison,
    Pixels,
    Score,
    as_sequence,
    check_anchors,
    one_ahead,
)
from uol.scoring.config import PanelConfig

Floats: TypeAlias = npt.NDArray[np.float64]

THRESHOLD = 0.2  # θ of comparisons, as on a scale of 1 to 5, unless a recipe sets it
_ENOUGH_TO_PAIR = 400  # images, of which 160,000 pairs are made

_GPU_BATCH = 256
_GPU_ROOM = 12 * 2**30  # bytes of a GPU that holds the maps of that many images in VGG16; a smaller one gets a quarter


class Outcomes(NamedTuple):
    """N images compared with one network's references: probabilities (N, R, 3), and degrees of dispersion (N,).

    `levels` are the means of the panel's histograms, (N,), if scores include them.
    """

    probabilities: Floats
    degrees: Floats
    levels: Floats | None = None


class Scorer(BaseScorer):
    """One network with its references.

    The references are embedded once, and their half of the comparator is computed at load. On a GPU, the feature maps
    of scores are in bfloat16; everything after the backbone is float32. What is stored or tabled (`embed`, `anchor`,
    evaluation) is float32 throughout.
    """

    def __init__(
        self,
        model: OrderModel,
        references: ReferenceSet,
        panel: PanelConfig,
        bradley_terry_model: BradleyTerry,
        calibration: Calibration | None = None,
        scoring: ScoringConfig | None = None,
    ) -> None:
        self.model = model.eval()
        self.references = references
        self.panel = panel
        self.bradley_terry = bradley_terry_model
        self.calibration = calibration or Calibration()
        self.scoring = scoring or ScoringConfig()
        self._left, self._right = self._halves(references.gaussians)

    # ---------------------------------------------------------------- answers

    def score_pixels(self, pixels: Pixels | Tensor) -> list[Score]:
        """Score framed images: uint8 (N, 3, crop, crop), an array or a tensor."""
        parts = torch.split(torch.as_tensor(pixels), self.batch_size)
        return [score for scores in one_ahead(map(self._submit, parts)) for score in scores]

    def submit(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Start to score framed images, each (3, crop, crop); the function returned waits for the scores.

        A GPU computes on while the scores of its earlier answers are solved. The memory of the images may be
        overwritten as soon as this returns.
        """
        return self._submit(self.stack_pixels(images))

    def stack_pixels(self, images: Sequence[Pixels]) -> Tensor:
        """Framed images in one tensor (N, 3, crop, crop), channels last in memory as the network requires.

        For a GPU the memory is pinned.
        """
        rows = [image.transpose(1, 2, 0) for image in images]
        stacked = torch.empty((len(rows), *rows[0].shape), dtype=torch.uint8, pin_memory=self.on_gpu)
        # By numpy: torch would divide each image among all cores, and wait for those that decode the next ones.
        np.stack(rows, out=stacked.numpy())
        return stacked.permute(0, 3, 1, 2)

    def _submit(self, pixels: Tensor) -> Callable[[], list[Score]]:
        wait_for_outcomes = self.submit_outcomes(pixels)

        def wait() -> list[Score]:
            found = wait_for_outcomes()
            return self._scores(self.solve_scores(found.probabilities, found.levels), found.degrees)

        return wait

    @torch.inference_mode()
    def submit_outcomes(self, pixels: Tensor) -> Callable[[], Outcomes]:
        """Start to compare framed images, uint8 (N, 3, crop, crop), with the references, as fast as for scores."""
        if self.on_gpu and not pixels.is_cuda:
            pixels = pixels.pin_memory()  # the same tensor if it is pinned already
        gaussians = self._embed_for_scores(pixels.to(self._device, non_blocking=True))
        found = [self._probabilities(gaussians, self._left, self._right), self._degrees(gaussians)]
        if self.uses_histogram:
            found.append(self.model.level_mean(gaussians.mean, self.panel.scale))
        arriving = [values.to("cpu", non_blocking=True) for values in found]
        arrived = torch.cuda.Event(blocking=True) if self.on_gpu else None  # type: ignore[no-untyped-call]
        if arrived is not None:
            arrived.record()

        def wait() -> Outcomes:
            if arrived is not None:
                arrived.synchronize()
            return Outcomes(*(values.numpy() for values in arriving))

        return wait

    def _embed_for_scores(self, pixels: Tensor) -> Gaussians:
        """As `embed_pixels`, but in bfloat16 up to the feature maps if a GPU computes."""
        self.model.eval()

        def once(images: Tensor) -> Gaussians:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self.on_gpu):
                maps = self.model.backbone.feature_maps(images)
            return self.model.gaussians(self.model.pooled(maps.float()))

        return averaged([once(view) for view in views(pixels, self.scoring)])

    def compare_pixels(self, first: Pixels | Tensor, second: Pixels | Tensor) -> Comparison:
        """Compare two framed images, each (3, crop, crop)."""
        gaussians = self.embed_pixels(torch.stack([torch.as_tensor(first), torch.as_tensor(second)]))
        raw = self.outcomes(gaussians.rows(slice(0, 1)), gaussians.rows(slice(1, 2)))[0, 0]
        less, similar, greater = self.calibration.comparison(raw).tolist()
        return Comparison(less, similar, greater)

    def embed(self, images: Images | ImageLike, batch_size: int = 32) -> Gaussians:
        """The Gaussians of images."""
        images = as_sequence(images)
        batches = (images[start : start + batch_size] for start in range(0, len(images), batch_size))
        parts = [self.embed_pixels(torch.from_numpy(self.framed(batch))) for batch in batches]
        return Gaussians(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def embed_pixels(self, pixels: Tensor) -> Gaussians:
        """The Gaussians of framed images: uint8 (N, 3, crop, crop)."""
        return self.model.embed(pixels, self.scoring)

    @torch.inference_mode()
    def outcomes(self, gaussians: Gaussians, references: Gaussians | None = None) -> Floats:
        """Probabilities of less, similar and greater for each image against each reference: (N, R, 3)."""
        left, right = (self._left, self._right) if references is None else self._halves(references)
        return self._probabilities(gaussians, left, right).cpu().numpy()

    def _probabilities(self, gaussians: Gaussians, left: Tensor, right: Tensor) -> Tensor:
        points = self._points(gaussians, side="image")
        logits = self.model.comparator.against(points, left, right, self.scoring.both_directions)
        return (logits if logits.is_cuda else logits.cpu()).double().softmax(-1)

    def leave_one_out(self) -> list[Score]:
        """Score each reference by comparison with all others: the quality of the scale."""
        return self.score_embedded(self.references.gaussians, leave_one_out=True)

    def score_embedded(self, embedded: Gaussians, leave_one_out: bool = False) -> list[Score]:
        """Score embedded images; `leave_one_out` if the images are the references."""
        return self._scores(self.raw_estimates(embedded, leave_one_out), self.degrees(embedded))

    def _scores(self, raw: bradley_terry.Estimates, degrees: Floats) -> list[Score]:
        calibrated = self.calibration.apply(raw.value, raw.standard_error, degrees, self.panel.scale)
        columns = np.stack([*calibrated, raw.standard_error], 1)
        return [Score(*row) for row in columns.tolist()]

    def raw_estimates(self, gaussians: Gaussians, leave_one_out: bool = False) -> bradley_terry.Estimates:
        """Bradley-Terry scores before calibration; `leave_one_out` if the images are the references."""
        outcomes = self.outcomes(gaussians)
        if leave_one_out:  # the histograms of images that trained the network are known by heart: they have no part
            return self.solve_scores(outcomes, None, 1 - np.eye(len(outcomes)))
        return self.solve_scores(outcomes, self.levels(gaussians))

    def solve_scores(
        self, outcomes: Floats, levels: Floats | None = None, weights: Floats | None = None
    ) -> bradley_terry.Estimates:
        """Bradley-Terry scores of images from their outcomes against the references (N, R, 3).

        If the means of their histograms are given, (N,), the scores include them with their share.
        """
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

    @torch.inference_mode()
    def levels(self, gaussians: Gaussians) -> Floats | None:
        """The means of the panel's histograms, (N,); None if scores do not include them."""
        if not self.uses_histogram:
            return None
        return self.model.level_mean(gaussians.mean, self.panel.scale).cpu().numpy()

    @property
    def uses_histogram(self) -> bool:
        """Whether scores include the mean of the panel's histogram."""
        return self.model.levels is not None and self.scoring.histogram_share > 0

    @classmethod
    def degrees(cls, gaussians: Gaussians) -> Floats:
        """Predicted degrees of dispersion, uncalibrated: (N,)."""
        return cls._degrees(gaussians).cpu().numpy()

    @staticmethod
    def _degrees(gaussians: Gaussians) -> Tensor:
        return dispersion_degree(gaussians.log_variance.double())

    # ---------------------------------------------------------------- building and anchoring

    @classmethod
    def build(
        cls,
        model: OrderModel,
        rated: RatedImages,
        gaussians: Gaussians,
        scoring: ScoringConfig | None = None,
        bin_width: float = 0.1,
        per_bin: int = 10,
        seed: int = 0,
    ) -> Self:
        """A scorer on the scale of a panel's rated images, from their Gaussians; not yet calibrated.

        References are chosen by bins of the score (`bin_width` as on a scale of 1 to 5); k and δ are fitted on the
        comparisons among them; dispersion is fitted to the panel's rating variances.
        """
        panel = PanelConfig.of(rated.name, rated.scale)
        chosen = choose_references(rated.scores, bin_width * rated.scale.unit, per_bin, seed)
        scores = rated.scores[chosen]
        if len(np.unique(scores)) < 2:
            raise UolError(f"{rated.name}: the references need at least two different scores")
        references = ReferenceSet(gaussians.rows(torch.from_numpy(chosen)), scores)
        scorer = cls(model, references, panel, BradleyTerry(1.0, 1.0), scoring=scoring)
        outcomes = read_outcomes(scorer.outcomes(references.gaussians), scorer.scoring.outcomes)
        first, second = np.nonzero(~np.eye(len(chosen), dtype=bool))
        scorer.bradley_terry = bradley_terry.fit(outcomes[first, second], scores[first], scores[second])
        scorer.calibration = Calibration().with_dispersion(cls.degrees(gaussians), rated.variances)
        return scorer

    def calibrate(self, rated: RatedImages, gaussians: Gaussians, threshold: float = THRESHOLD) -> None:
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

    def _calibrate_comparisons(self, rated: RatedImages, gaussians: Gaussians, threshold: float) -> None:
        """Learn the temperature of comparisons from pairs of rated images, of at most a few hundred of them."""
        if len(rated) < ENOUGH_FOR_LINE:
            return
        some = np.unique(np.linspace(0, len(rated) - 1, min(len(rated), _ENOUGH_TO_PAIR)).round().astype(np.intp))
        first, second = np.nonzero(~np.eye(len(some), dtype=bool))
        scores, chosen = rated.scores[some], gaussians.rows(torch.from_numpy(some))
        order = order_of(scores[first], scores[second], threshold * rated.scale.unit)
        self.calibration = self.calibration.with_comparisons(self.outcomes(chosen, chosen)[first, second], order)

    def anchor_embedded(self, rated: RatedImages, embedded: Gaussians) -> Scorer:
        """Anchor, as `anchor` does, with embedded images."""
        check_anchors(rated)
        scoring = self.scoring
        if self.uses_histogram:  # those of the former panel
            scoring = scoring.model_copy(update={"histogram_share": 0.0})
        scorer = Scorer.build(self.model, rated, embedded, scoring, per_bin=len(rated))
        raw = scorer.raw_estimates(scorer.references.gaussians, leave_one_out=True)
        # Even ten anchors need the line: they are there to show another panel's standard.
        calibration = calibrate(scorer.references.scores, raw.value, raw.standard_error, enough=FEWEST_ANCHORS)
        kept = calibration.model_copy(update={"temperature": self.calibration.temperature})
        scorer.calibration = kept.with_dispersion(self.degrees(embedded), rated.variances)
        scorer._calibrate_comparisons(rated, embedded, THRESHOLD)
        return scorer

    # ---------------------------------------------------------------- folders and devices

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str]) -> BaseScorer:
        """Load a model by name or folder; an ensemble's folder gives an `EnsembleScorer`."""
        from uol.scoring.folder import load_model

        return load_model(name)

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder; `half` stores weights in 16 bits, at half the size."""
        from uol.scoring.folder import save_scorer

        save_scorer(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Move the model and its references to a device."""
        self.model.to(device)
        self._left, self._right = self._halves(self.references.gaussians)
        return self

    @property
    def config(self) -> ModelConfig:
        """The settings of the network."""
        return self.model.config

    @property
    def members(self) -> list[Scorer]:
        """The networks that answer: this one."""
        return [self]

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self._device.type == "cuda"

    @property
    def batch_size(self) -> int:
        """How many images to score at once."""
        if not self.on_gpu:
            return super().batch_size
        room = torch.cuda.get_device_properties(self._device).total_memory
        return _GPU_BATCH if room >= _GPU_ROOM else _GPU_BATCH // 4

    @property
    def _device(self) -> torch.device:
        return self.model.comparator.first.weight.device

    @torch.inference_mode()
    def _halves(self, references: Gaussians) -> tuple[Tensor, Tensor]:
        points = self._points(references, side="reference")
        return self.model.comparator.left(points), self.model.comparator.right(points)

    def _points(self, gaussians: Gaussians, side: Literal["image", "reference"]) -> Tensor:
        """T points per Gaussian (T, N, D), or its mean (1, N, D).

        Each reference has a fixed draw of noise; all images share another one: an image's score depends neither on the
        other images of its batch nor on the moment.
        """
        mean, deviation = gaussians.mean.to(self._device), gaussians.deviation.to(self._device)
        if self.scoring.samples == 0:
            return mean[None]
        generator = torch.Generator().manual_seed(0 if side == "image" else 1)
        rows = 1 if side == "image" else len(mean)
        noise = torch.randn((self.scoring.samples, rows, mean.shape[-1]), generator=generator)
        return mean + deviation * noise.to(mean)


def read_outcomes(probabilities: Floats, kind: Literal["probabilities", "hard"]) -> Floats | npt.NDArray[np.intp]:
    """Outcomes for Bradley-Terry: the probabilities, or the likeliest `Order` of each comparison."""
    assert probabilities.shape[-1] == len(Order)
    return probabilities if kind == "probabilities" else probabilities.argmax(-1)
