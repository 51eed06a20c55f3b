"""Regression from Gaussian features: UOL's uncertainty and dispersion term, without its order."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.gaussians import Gaussians, dispersion_degree, sample
from uol.order.losses import dispersion_divergence
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe


class UncertainRegression(ScoreMethod):
    """A Gaussian per image, of which T samples pass one linear unit; the score is read from the Gaussian's mean.

    The squared error is that of the samples' mean score, as UOL takes the cross entropy of the samples' mean logits.
    """

    predicts_dispersion = True

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        dimensions = recipe.model.dimensions
        self.mean = nn.Linear(self.model.width, dimensions)
        self.log_variance = nn.Linear(self.model.width, dimensions)
        nn.init.zeros_(self.log_variance.weight)
        nn.init.constant_(self.log_variance.bias, recipe.model.initial_log_variance)
        self.head = self.score_unit(dimensions)

    def gaussians(self, features: Tensor) -> Gaussians:
        """Features to Gaussians, in float32."""
        return Gaussians(self.mean(features).float(), self.log_variance(features).float())

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Squared error + β · dispersion divergence."""
        gaussians = self.gaussians(self.features(batch.images))
        samples = self.head(sample(gaussians, self.recipe.samples))[..., 0]
        score = F.mse_loss(samples.float().mean(0), self.in_units(batch.scores))
        dispersion = dispersion_divergence(gaussians.log_variance, batch.rating_variance)
        return {"total": score + self.recipe.beta * dispersion, "score": score, "dispersion": dispersion}

    def estimate(self, features: Tensor) -> Estimates:
        """The score of the mean, and the degree of dispersion."""
        gaussians = self.gaussians(features)
        return Estimates(self.head(gaussians.mean)[:, 0], dispersion_degree(gaussians.log_variance))
