"""Scorer: one network with its references, loaded once. Scores on a panel's scale, comparisons and other panels."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import Calibration
from uol.order.config import ModelConfig, ScoringConfig
from uol.order.gaussians import Gaussians, averaged, dispersion_degree
from uol.order.model import OrderModel
from uol.order.references import ReferenceSet
from uol.order.views import views
from uol.ratings.rated_images import RatedImages
from uol.scoring.ahead import one_ahead
from uol.scoring.base import BaseScorer, Interval, Pixels, Score
from uol.scoring.config import PanelConfig
from uol.scoring.network import Floats, NetworkScorer, Outcomes, references_of
from uol.scoring.panels import HEAD, StoredReferences

_GPU_BATCH = 256
_GPU_ROOM = 12 * 2**30  # bytes of a GPU that holds the maps of that many images in VGG16; a smaller one gets a quarter


class Scorer(NetworkScorer[Gaussians]):
    """One network, computed by torch.

    The references are embedded once, and their half of the comparator is computed at load. On a GPU, the feature maps
    of scores are in bfloat16; everything after the backbone is float32. What is stored or tabled (`embed`, `anchor`,
    evaluation) is float32 throughout.
    """

    def __init__(
        self,
        model: OrderModel,
        references: ReferenceSet[Gaussians],
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
            return self.calibrated(self.solve_scores(found.probabilities, found.levels), found.degrees)

        return wait

    @torch.inference_mode()
    def submit_outcomes(self, pixels: Tensor) -> Callable[[], Outcomes]:
        """Start to compare framed images, uint8 (N, 3, crop, crop), with the references, as fast as for scores."""
        if self.on_gpu and not pixels.is_cuda:
            pixels = pixels.pin_memory()  # the same tensor if it is pinned already
        gaussians = self._embed_for_scores(pixels.to(self._device, non_blocking=True))
        found = [self._probabilities(gaussians, self._left, self._right), self._degrees(gaussians)]
        if self.uses_histogram:
            found.append(self.model.level_mean(gaussians.mean, self.panel.scale, self.levels_used))
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

    def embed_pixels(self, pixels: Pixels | Tensor) -> Gaussians:
        """The Gaussians of framed images: uint8 (N, 3, crop, crop), an array or a tensor."""
        return self.model.embed(torch.as_tensor(pixels), self.scoring)

    @torch.inference_mode()
    def outcomes(self, gaussians: Gaussians, references: Gaussians | None = None) -> Floats:
        """Probabilities of less, similar and greater for each image against each reference: (N, R, 3)."""
        left, right = (self._left, self._right) if references is None else self._halves(references)
        return self._probabilities(gaussians, left, right).cpu().numpy()

    def _probabilities(self, gaussians: Gaussians, left: Tensor, right: Tensor) -> Tensor:
        points = self._points(gaussians, side="image")
        logits = self.model.comparator.against(points, left, right, self.scoring.both_directions)
        return (logits if logits.is_cuda else logits.cpu()).double().softmax(-1)

    @torch.inference_mode()
    def level_means(self, gaussians: Gaussians) -> Floats:
        """The means of the panel's histograms, (N,)."""
        return self.model.level_mean(gaussians.mean, self.panel.scale, self.levels_used).cpu().numpy()

    @staticmethod
    def degrees(gaussians: Gaussians) -> Floats:
        """Predicted degrees of dispersion, uncalibrated: (N,)."""
        return Scorer._degrees(gaussians).cpu().numpy()

    @staticmethod
    def _degrees(gaussians: Gaussians) -> Tensor:
        return dispersion_degree(gaussians.log_variance.double())

    # ---------------------------------------------------------------- other references

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
        references, panel = references_of(rated, gaussians, bin_width, per_bin, seed)
        scorer = cls(model, references, panel, BradleyTerry(1.0, 1.0), scoring=scoring)
        scorer.fit(rated, gaussians)
        return scorer

    def with_references(self, references: ReferenceSet[Gaussians], panel: PanelConfig, scoring: ScoringConfig) -> Self:
        """The same network with other references; k, δ and the calibration are not fitted."""
        return type(self)(self.model, references, panel, BradleyTerry(1.0, 1.0), scoring=scoring)

    def with_tensors(self, tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The same network with some of its tensors replaced."""
        only_head = all(name.startswith(HEAD) for name in tensors)  # the rest, most of the memory, is then shared
        model = self.model.with_levels(copy.deepcopy(self.model.levels)) if only_head else copy.deepcopy(self.model)
        replaced = {name: torch.from_numpy(array) for name, array in tensors.items()}
        model.load_state_dict(model.state_dict() | replaced)
        return type(self)(model, self.references, self.panel, self.bradley_terry, self.calibration, self.scoring)

    def with_panels(self, others: Sequence[Scorer]) -> Self:
        """The same scorer, which also knows the panels of others; they are the same network but for some tensors."""
        ours = self.model.state_dict()
        self.other_panels = {
            other.panel.name: other.parts._replace(
                tensors={
                    name: tensor.cpu().numpy()
                    for name, tensor in other.model.state_dict().items()
                    if tensor.is_floating_point() and not tensor.equal(ours[name])
                }
            )
            for other in others
        }
        return self

    # ---------------------------------------------------------------- folders and devices

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], panel: str | None = None, interval: Interval = "panel"
    ) -> BaseScorer:
        """Load a model by name or folder, with torch; an ensemble's folder gives an `EnsembleScorer`."""
        from uol.scoring.released import open_model

        return open_model(name, "torch", "cpu", panel, interval)

    @staticmethod
    def read_references(stored: StoredReferences) -> ReferenceSet[Gaussians]:
        """References from a model folder."""
        mean, log_variance = (torch.from_numpy(values) for values in (stored.mean, stored.log_variance))
        return ReferenceSet(Gaussians(mean, log_variance), stored.score)

    def stored_references(self) -> StoredReferences:
        """References for a model folder."""
        mean, log_variance = (values.cpu().numpy() for values in self.references.gaussians)
        return StoredReferences(mean, log_variance, self.references.scores)

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder; `half` stores weights in 16 bits, at half the size."""
        from uol.scoring.folder import save_scorer

        save_scorer(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Move the model and its references to a device."""
        self.model.to(device)
        self.__dict__.pop("_on_other_panels", None)
        self._left, self._right = self._halves(self.references.gaussians)
        return self

    @property
    def config(self) -> ModelConfig:
        """The settings of the network."""
        return self.model.config

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
