"""Label distribution learning: features to a distribution over the rating levels; its mean is the score."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uol.errors import CallError
from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.losses import histogram_divergence, level_moments
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe


class Ldl(ScoreMethod):
    """One linear unit per level and a softmax; the levels divide the scale equally, both of its ends included.

    Images without a histogram take no part in the loss.
    """

    predicts_dispersion = True
    levels_in_units: Tensor

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        if levels < 2:
            raise CallError("method ldl learns histograms of ratings: give data with single ratings or their counts")
        super().__init__(recipe, scale, levels)
        self.head = nn.Linear(self.model.width, levels)
        spaced = torch.linspace(scale.low / scale.unit, scale.high / scale.unit, levels)
        self.register_buffer("levels_in_units", spaced, persistent=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """KL divergence of the predicted distributions from the raters' histograms."""
        logits = self.head(self.features(batch.images))
        return {"total": histogram_divergence(logits.float(), batch.histogram)}

    def estimate(self, features: Tensor) -> Estimates:
        """Mean and standard deviation of the distribution."""
        return Estimates(*level_moments(self.head(features), self.levels_in_units))
