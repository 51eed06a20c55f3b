"""The common part of methods whose network outputs the score: features, mirror images, intervals, dispersion."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from uol.order.calibration import ENOUGH_FOR_LINE, Calibration, calibrate
from uol.order.model import FeatureModel
from uol.order.views import views
from uol.ratings.scale import Scale
from uol.training.method import Method
from uol.training.packed import PackedImages
from uol.training.predictions import Floats, Predictions
from uol.training.recipe import Recipe


class Estimates(NamedTuple):
    """Scores of N images in units of the scale and degrees of dispersion, each (N,); NaN for an unknown degree."""

    score: Tensor
    degree: Tensor

    @classmethod
    def of(cls, score: Tensor) -> Self:
        """Scores alone."""
        return cls(score, torch.full_like(score, torch.nan))


class ScoreMethod(Method):
    """A method whose network outputs the score: a subclass adds heads, losses (`forward`) and `estimate`.

    Scores are learnt in units of the scale, which makes those of all panels equally large.
    """

    predicts_dispersion = False

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.model = self.network(recipe.model.backbone)
        self.calibration = Calibration()

    def network(self, backbone: str) -> FeatureModel:
        """A new network by the recipe, with another backbone."""
        model = FeatureModel(self.recipe.model.model_copy(update={"backbone": backbone}), self.pretrained)
        self.prepare(model.backbone)
        return model

    def features(self, images: Tensor, attributes: Tensor | None = None) -> Tensor:
        """Images to features (N, width); most methods ignore attributes (N, K)."""
        return self.model.features(images)

    @abstractmethod
    def estimate(self, features: Tensor) -> Estimates:
        """Estimates of images from their features (N, width)."""

    def score_unit(self, width: int) -> nn.Linear:
        """One linear unit for the score, starting at the middle of the scale."""
        unit = nn.Linear(width, 1)
        nn.init.constant_(unit.bias, (self.scale.low + self.scale.high) / 2 / self.scale.unit)
        return unit

    def in_units(self, scores: Tensor) -> Tensor:
        """Scores of the panel in units of its scale."""
        return scores / self.scale.unit

    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Learn the width of intervals from the held-out images; the score stays as the network outputs it.

        Dispersion is calibrated on them too, or on the training images if too few have a known rating variance.
        """
        if held_out is not None:
            value, _ = self.values(held_out.centre, self.known_of(held_out))
            self.calibration = calibrate(held_out.rated.scores, value, np.ones_like(value), line=False)
        if self.predicts_dispersion:
            enough = held_out is not None and np.isfinite(held_out.rated.variances).sum() >= ENOUGH_FOR_LINE
            known = held_out if held_out is not None and enough else training
            _, degree = self.values(known.centre, self.known_of(known))
            self.calibration = self.calibration.with_dispersion(degree, known.rated.variances)

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Predicted scores with intervals of one width."""
        value, degree = self.values(pixels, attributes)
        return Predictions(*self.calibration.apply(value, np.ones_like(value), degree, self.scale))

    @torch.inference_mode()
    def values(self, pixels: Tensor, attributes: Tensor | None = None) -> tuple[Floats, Floats]:
        """Scores on the panel's scale, not yet clipped to it, and uncalibrated degrees of dispersion."""
        self.eval()
        parts = []
        known = torch.zeros(len(pixels), 2) if attributes is None else attributes
        for part, of_part in zip(torch.split(pixels, 128), torch.split(known, 128), strict=True):
            part, of_part = part.to(self.device), of_part.to(self.device)
            shown = views(part, self.recipe.scoring)
            estimates = [torch.stack(self.estimate(self.features(view, of_part))) for view in shown]
            parts.append(torch.stack(estimates).mean(0).cpu())
        score, degree = torch.cat(parts, 1).double().numpy()
        return score * self.scale.unit, degree
