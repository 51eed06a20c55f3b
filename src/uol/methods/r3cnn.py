"""R3CNN: regression first, then regression and ranking of pairs of faces whose scores are near."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.losses import ranking_hinge
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_RANKING_WEIGHT = 0.1


class R3Cnn(ScoreMethod):
    """A linear unit for the score and one that ranks: r = unit(ReLU(features of one − features of the other)).

    Published with ResNeXt-50, another learning rate in the second stage, and 25 drawn pairs per image. Here the
    backbone and the one schedule are the recipe's, the second stage is the second half of the epochs, and its pairs
    are all ordered ones of a batch that fit: one gender, and scores that differ by up to one unit of the scale.
    """

    ranking_weight: Tensor

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = self.score_unit(self.model.width)
        self.ranking_head = nn.Linear(self.model.width, 1)
        self.register_buffer("ranking_weight", torch.zeros(()), persistent=False)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Rank in the second half."""
        self.ranking_weight.fill_(_RANKING_WEIGHT if 2 * epoch >= epochs else 0.0)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Squared error, and from the second stage on 0.1 · ranking hinge."""
        features, truth = self.features(batch.images), self.in_units(batch.scores)
        error = F.mse_loss(self.head(features)[:, 0].float(), truth)
        rank = self.ranking_head(F.relu(features[:, None] - features))[..., 0].float()
        ranking = ranking_hinge(rank, truth, batch.attributes[:, 0])
        return {"total": error + self.ranking_weight * ranking, "score": error, "ranking": ranking}

    def estimate(self, features: Tensor) -> Estimates:
        """The score unit's output."""
        return Estimates.of(self.head(features)[:, 0])
