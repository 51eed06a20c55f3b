"""Scorer: load once, ask often. Images to scores on a panel's scale, comparisons, rankings, and other panels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.errors import CallError, UolError
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
from uol.scoring.base import AskedWithImages, Pixels, as_sequence, one_ahead
from uol.scoring.config import PanelConfig
from uol.scoring.scores import Comparison, Score

if TYPE_CHECKING:
    from uol.scoring.ensemble import EnsembleScorer

THRESHOLD = 0.2  # θ of comparisons, as on a scale of 1 to 5, where no recipe says otherwise
FEWEST_ANCHORS = 10
_ENOUGH_TO_PAIR = 400  # images, of which 160,000 pairs are made
FEW_ANCHORS = 30

_GPU_BATCH = 256
_GPU_ROOM = 12 * 2**30  # bytes of a GPU that holds the maps of that many images in VGG16; a smaller one gets a quarter


class Told(NamedTuple):
    """What one network says of N images: outcomes against its references (N, R, 3), degrees of dispersion (N,).

    `levels` are the means of the panel's histograms, (N,), where these have a part in scores.
    """

    outcomes: npt.NDArray[np.float64]
    degrees: npt.NDArray[np.float64]
    levels: npt.NDArray[np.float64] | None = None


class Scorer(AskedWithImages):
    """A model with its references, asked for scores, comparisons and rankings.

    The references are embedded once, and their half of the comparator is computed at load. On a GPU, scores are of
    feature maps in bfloat16; everything after the backbone is float32. What is kept or tabled (`embed`, `anchor`,
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

    # ---------------------------------------------------------------- asking

    def score_pixels(self, pixels: npt.NDArray[np.uint8] | Tensor) -> list[Score]:
        """Scores of images already framed: uint8 (N, 3, crop, crop), an array or a tensor."""
        parts = torch.split(torch.as_tensor(pixels), self.batch_size)
        return [score for scores in one_ahead(map(self._begin, parts)) for score in scores]

    def begin(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Begin to score framed images, each (3, crop, crop); calling what is returned waits for their scores.

        A GPU works on while its earlier answers are solved. The images are gathered in memory that it reads by itself,
        with the channels last, as the network wants them; their own may be written over as soon as this returns.
        """
        return self._begin(self.gathered(images))

    def gathered(self, images: Sequence[Pixels]) -> Tensor:
        """Framed images in one tensor (N, 3, crop, crop), as `begin` wants them."""
        rows = [image.transpose(1, 2, 0) for image in images]
        gathered = torch.empty((len(rows), *rows[0].shape), dtype=torch.uint8, pin_memory=self.on_gpu)
        # By numpy: torch would share out each image among all cores, and wait for those that decode the next ones.
        np.stack(rows, out=gathered.numpy())
        return gathered.permute(0, 3, 1, 2)

    def _begin(self, pixels: Tensor) -> Callable[[], list[Score]]:
        told = self.begin_outcomes(pixels)

        def wait() -> list[Score]:
            outcomes, degrees, levels = told()
            return self._scores(self.solved(outcomes, levels), degrees)

        return wait

    @torch.inference_mode()
    def begin_outcomes(self, pixels: Tensor) -> Callable[[], Told]:
        """Begin to compare framed images, uint8 (N, 3, crop, crop), with the references, as fast as for scores."""
        if self.on_gpu and not pixels.is_cuda:
            pixels = pixels.pin_memory()  # itself where it is already
        gaussians = self._embed_for_scores(pixels.to(self._device, non_blocking=True))
        found = [self._probabilities(gaussians, self._left, self._right), self._degrees(gaussians)]
        if self.tells_levels:
            found.append(self.model.level_mean(gaussians.mean, self.panel.scale))
        arriving = [values.to("cpu", non_blocking=True) for values in found]
        arrived = torch.cuda.Event(blocking=True) if self.on_gpu else None  # type: ignore[no-untyped-call]
        if arrived is not None:
            arrived.record()

        def wait() -> Told:
            if arrived is not None:
                arrived.synchronize()
            return Told(*(values.numpy() for values in arriving))

        return wait

    def _embed_for_scores(self, pixels: Tensor) -> Gaussians:
        """As `embed_pixels`, but in bfloat16 up to the feature maps where a GPU computes."""

        self.model.eval()

        def once(images: Tensor) -> Gaussians:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self.on_gpu):
                maps = self.model.backbone.feature_maps(images)
            return self.model.gaussians(self.model.pooled(maps.float()))

        return averaged([once(view) for view in views(pixels, self.scoring)])

    def compare_pixels(
        self, first: npt.NDArray[np.uint8] | Tensor, second: npt.NDArray[np.uint8] | Tensor
    ) -> Comparison:
        """How one framed image (3, crop, crop) stands to another."""
        gaussians = self.embed_pixels(torch.stack([torch.as_tensor(first), torch.as_tensor(second)]))
        told = self.outcomes(gaussians.rows(slice(0, 1)), gaussians.rows(slice(1, 2)))[0, 0]
        less, similar, greater = self.calibration.comparison(told).tolist()
        return Comparison(less, similar, greater)

    def embed(self, images: Images | ImageLike, batch_size: int = 32) -> Gaussians:
        """The Gaussians of images, framed as the model wants them."""
        images = as_sequence(images)
        batches = (images[start : start + batch_size] for start in range(0, len(images), batch_size))
        parts = [self.embed_pixels(torch.from_numpy(self.framed(batch))) for batch in batches]
        return Gaussians(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def embed_pixels(self, pixels: Tensor) -> Gaussians:
        """The Gaussians of images already framed: uint8 (N, 3, crop, crop)."""
        return self.model.embed(pixels, self.scoring)

    @torch.inference_mode()
    def outcomes(self, gaussians: Gaussians, references: Gaussians | None = None) -> npt.NDArray[np.float64]:
        """Probabilities of less, similar and greater for each image against each reference: (N, R, 3)."""
        left, right = (self._left, self._right) if references is None else self._halves(references)
        return self._probabilities(gaussians, left, right).cpu().numpy()

    def _probabilities(self, gaussians: Gaussians, left: Tensor, right: Tensor) -> Tensor:
        points = self._points(gaussians, side="image")
        logits = self.model.comparator.against(points, left, right, self.scoring.both_directions)
        return (logits if logits.is_cuda else logits.cpu()).double().softmax(-1)

    def leave_one_out(self) -> list[Score]:
        """Scores of the references, each compared with all others: how good the scale is."""
        return self.score_embedded(self.references.gaussians, leave_one_out=True)

    def score_exactly(self, pixels: Tensor) -> list[Score]:
        """Scores of framed images in float32 throughout, wherever it is computed: those that are tabled."""
        return self.score_embedded(self.embed_pixels(pixels))

    def score_embedded(self, gaussians: Gaussians, leave_one_out: bool = False) -> list[Score]:
        """Scores of images already embedded."""
        return self._scores(self.raw_estimates(gaussians, leave_one_out), self.degrees(gaussians))

    def _scores(self, raw: bradley_terry.Estimates, degrees: npt.NDArray[np.float64]) -> list[Score]:
        bounds = (self.panel.low, self.panel.high)
        value = self.calibration.value(raw.value, bounds)
        half = self.calibration.half_width(raw.standard_error)
        low, high = np.clip(value - half, *bounds), np.clip(value + half, *bounds)
        dispersion = self.calibration.dispersion(degrees)
        columns = np.stack([value, low, high, dispersion, raw.standard_error], 1)
        return [Score(*row) for row in columns.tolist()]

    def raw_estimates(self, gaussians: Gaussians, leave_one_out: bool = False) -> bradley_terry.Estimates:
        """Bradley-Terry scores before calibration; `leave_one_out` where the images are the references themselves."""
        outcomes = self.outcomes(gaussians)
        if leave_one_out:  # what the network tells by heart of images that trained it cannot be left out
            return self.solved(outcomes, None, 1 - np.eye(len(outcomes)))
        return self.solved(outcomes, self.levels(gaussians))

    def solved(
        self,
        outcomes: npt.NDArray[np.float64],
        levels: npt.NDArray[np.float64] | None = None,
        weights: npt.NDArray[np.float64] | None = None,
    ) -> bradley_terry.Estimates:
        """Bradley-Terry scores of images whose outcomes against the references (N, R, 3) are known.

        Where the means of their histograms are given too, (N,), these have their share.
        """
        found = bradley_terry.estimate(
            read_outcomes(outcomes, self.scoring.outcomes),
            self.references.scores,
            self.bradley_terry,
            (self.panel.low, self.panel.high),
            weights,
        )
        if levels is None:
            return found
        share = self.scoring.histogram_share
        return bradley_terry.Estimates((1 - share) * found.value + share * levels, found.standard_error)

    @torch.inference_mode()
    def levels(self, gaussians: Gaussians) -> npt.NDArray[np.float64] | None:
        """The means of the panel's histograms, (N,); None where they have no part in scores."""
        if not self.tells_levels:
            return None
        return self.model.level_mean(gaussians.mean, self.panel.scale).cpu().numpy()

    @property
    def tells_levels(self) -> bool:
        """Whether histograms have a part in scores."""
        return self.model.levels is not None and self.scoring.histogram_share > 0

    @classmethod
    def degrees(cls, gaussians: Gaussians) -> npt.NDArray[np.float64]:
        """Predicted degrees of dispersion, uncalibrated: (N,)."""
        return cls._degrees(gaussians).cpu().numpy()

    @staticmethod
    def _degrees(gaussians: Gaussians) -> Tensor:
        return dispersion_degree(gaussians.log_variance.double())

    # ---------------------------------------------------------------- making

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
        """A scorer on the scale of a panel's rated images, whose Gaussians are given; not yet calibrated.

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
        """Learn intervals, dispersion and how sure comparisons are from rated images that had no part in training.

        `threshold` is θ, up to which scores are similar, as on a scale of 1 to 5. Where too few images have a known
        rating variance, dispersion stays as fitted to the training images.
        """
        raw = self.raw_estimates(gaussians)
        calibration = calibrate(rated.scores, raw.value, raw.standard_error)
        if np.isfinite(rated.variances).sum() >= ENOUGH_FOR_LINE:
            self.calibration = calibration.with_dispersion(self.degrees(gaussians), rated.variances)
        else:
            kept = self.calibration.model_dump(include={"dispersion_intercept", "dispersion_slope"})
            self.calibration = calibration.model_copy(update=kept)
        self._calibrate_comparisons(rated, gaussians, threshold)

    def _calibrate_comparisons(self, rated: RatedImages, gaussians: Gaussians, threshold: float) -> None:
        """Learn the temperature of comparisons from the pairs of rated images, of many among some hundred of them."""
        if len(rated) < ENOUGH_FOR_LINE:
            return
        some = np.unique(np.linspace(0, len(rated) - 1, min(len(rated), _ENOUGH_TO_PAIR)).round().astype(np.intp))
        first, second = np.nonzero(~np.eye(len(some), dtype=bool))
        scores, chosen = rated.scores[some], gaussians.rows(torch.from_numpy(some))
        order = order_of(scores[first], scores[second], threshold * rated.scale.unit)
        self.calibration = self.calibration.with_comparisons(self.outcomes(chosen, chosen)[first, second], order)

    def anchor(self, rated: RatedImages) -> Scorer:
        """The same model on another panel's scale: its rated images become the references; nothing is trained.

        Intervals are calibrated on the anchors themselves, each scored with itself left out.
        """
        check_anchors(rated)
        return self.anchor_embedded(rated, self.embed(rated.images))

    def anchor_embedded(self, rated: RatedImages, gaussians: Gaussians) -> Scorer:
        """As `anchor`, with rated images that are embedded already."""
        check_anchors(rated)
        scoring = self.scoring
        if self.tells_levels:  # the former panel's histograms
            scoring = scoring.model_copy(update={"histogram_share": 0.0})
        scorer = Scorer.build(self.model, rated, gaussians, scoring, per_bin=len(rated))
        raw = scorer.raw_estimates(scorer.references.gaussians, leave_one_out=True)
        # Even ten anchors need the line: another panel's standard is what they are there to tell.
        calibration = calibrate(scorer.references.scores, raw.value, raw.standard_error, enough=FEWEST_ANCHORS)
        kept = calibration.model_copy(update={"temperature": self.calibration.temperature})
        scorer.calibration = kept.with_dispersion(self.degrees(gaussians), rated.variances)
        scorer._calibrate_comparisons(rated, gaussians, THRESHOLD)
        return scorer

    # ---------------------------------------------------------------- keeping

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str]) -> Scorer | EnsembleScorer:
        """Load a model by name or folder; that of several networks answers as one does."""
        from uol.scoring.ensemble_folder import load_model

        return load_model(name)

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder: config.json, model.safetensors, references.safetensors, README.md.

        `half` stores weights in 16 bits, at half the size.
        """
        from uol.scoring.folder import save_scorer

        save_scorer(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Move the model and its references to a device."""
        self.model.to(device)
        self._left, self._right = self._halves(self.references.gaussians)
        return self

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self.model.config

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self._device.type == "cuda"

    @property
    def batch_size(self) -> int:
        """How many images are best scored at once."""
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

        Each reference has its own fixed draw of noise; all images share another one, so that an image's score depends
        neither on the images beside it nor on the moment.
        """
        mean, deviation = gaussians.mean.to(self._device), gaussians.deviation.to(self._device)
        if self.scoring.samples == 0:
            return mean[None]
        generator = torch.Generator().manual_seed(0 if side == "image" else 1)
        rows = 1 if side == "image" else len(mean)
        noise = torch.randn((self.scoring.samples, rows, mean.shape[-1]), generator=generator)
        return mean + deviation * noise.to(mean)


def check_anchors(rated: RatedImages) -> None:
    """Refuse to make a panel's scale from too few images."""
    if len(rated) < FEWEST_ANCHORS:
        raise CallError(f"{rated.name}: {len(rated)} rated images; anchoring needs at least {FEWEST_ANCHORS}")


def read_outcomes(
    probabilities: npt.NDArray[np.float64], kind: Literal["probabilities", "hard"]
) -> npt.NDArray[np.float64] | npt.NDArray[np.intp]:
    """Outcomes as Bradley-Terry is given them: the probabilities, or the likeliest `Order` of each comparison."""
    assert probabilities.shape[-1] == len(Order)
    return probabilities if kind == "probabilities" else probabilities.argmax(-1)
