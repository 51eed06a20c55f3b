"""Regression: pooled features to the score, squared error. The baseline that order learning is measured against."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from uol.methods.score_method import Estimates, ScoreMethod
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe


class Regression(ScoreMethod):
    """One linear unit on pooled features.

    Of a recipe it uses what concerns features, training and the mirror image; pairs, samples and helpers it has none.
    """

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = self.score_unit(self.model.width)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        score, _ = self.estimate(self.features(batch.images))
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    def estimate(self, features: Tensor) -> Estimates:
        """The unit's output."""
        return Estimates.of(self.head(features)[:, 0])
