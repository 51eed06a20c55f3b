"""CRNet: one head regresses the score and one classifies it, trained together."""

from __future__ import annotations

from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.losses import crnet_loss, nearest_level
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_CLASSES = 5


class CrNet(ScoreMethod):
    """Two heads, features → 256 → 64 → the score or five classes; the score's is asked.

    A class is the nearest of five equally spaced levels, whatever the number of the panel's own.
    """

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = nn.Sequential(*self._hidden(), self.score_unit(64))
        self.class_head = nn.Sequential(*self._hidden(), nn.Linear(64, _CLASSES))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """0.4 · cross entropy + 0.6 · squared error."""
        features = self.features(batch.images)
        score, logits = self.head(features)[:, 0].float(), self.class_head(features).float()
        return crnet_loss(score, logits, self.in_units(batch.scores), nearest_level(batch.scores, self.scale, _CLASSES))

    def estimate(self, features: Tensor) -> Estimates:
        """The score head's output."""
        return Estimates.of(self.head(features)[:, 0])

    def _hidden(self) -> list[nn.Module]:
        first, second = nn.Linear(self.model.width, 256), nn.Linear(256, 64)
        return [first, nn.ReLU(), nn.Dropout(0.5), second, nn.ReLU(), nn.Dropout(0.5)]
