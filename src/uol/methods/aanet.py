"""AaNet: regression whose network is tuned by what is known of the person, gender and ethnicity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_HIDDEN = 256


class AaNet(ScoreMethod):
    """One linear unit on pooled features, which a small network of the attributes has scaled and shifted.

    The published method adjusts the convolution filters of every layer of a ResNet-18; this one adjusts the last
    features alone, of the recipe's backbone, and begins by leaving them as they are. Predictions are from pixels, with
    attributes unknown (0), where the published ones are told them; so in training each image's are hidden half the
    time, and in losses on held-out images always.
    """

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = self.score_unit(self.model.width)
        last = nn.Linear(_HIDDEN, 2 * self.model.width)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        # Without a bias, so that batch norm has nothing to magnify where no attribute is known.
        self.tuner = nn.Sequential(nn.Linear(2, _HIDDEN, bias=False), nn.BatchNorm1d(_HIDDEN), nn.ReLU(), last)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        shown = torch.rand_like(batch.attributes[:, :1]) < (0.5 if self.training else 0.0)
        score = self._score(self.model.features(batch.images), batch.attributes * shown)
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    def estimate(self, features: Tensor) -> Estimates:
        """The unit's output where no attribute is known."""
        return Estimates.of(self._score(features, features.new_zeros(len(features), 2)))

    def _score(self, features: Tensor, attributes: Tensor) -> Tensor:
        factor, shift = self.tuner(attributes).chunk(2, -1)
        score: Tensor = self.head(features * (1 + factor) + shift)[:, 0]
        return score
