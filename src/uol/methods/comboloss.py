"""ComboLoss: the score by regression, by classes, and by the classes' expectation, in one loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.losses import combo_loss, inverse_frequency, nearest_level
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe

_CLASSES = 5


class ComboLoss(ScoreMethod):
    """A linear unit for the score and five for classes; predictions are the first's, as in the authors' release.

    A class is the nearest of five equally spaced levels, whatever the number of the panel's own. Classes weigh the
    more the rarer they are among the training images; until `prepare_for` has seen those, all weigh the same.
    """

    class_weight: Tensor
    levels_in_units: Tensor

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = self.score_unit(self.model.width)
        self.class_head = nn.Linear(self.model.width, _CLASSES)
        spaced = torch.linspace(scale.low / scale.unit, scale.high / scale.unit, _CLASSES)
        self.register_buffer("levels_in_units", spaced, persistent=False)
        self.register_buffer("class_weight", torch.ones(_CLASSES), persistent=False)

    def prepare_for(self, training: PackedImages) -> None:
        """Weigh the classes."""
        classes = nearest_level(torch.from_numpy(training.rated.scores), self.scale, _CLASSES)
        self.class_weight.copy_(inverse_frequency(classes, _CLASSES))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """2 · absolute error + absolute error of the expectation + weighted cross entropy."""
        features = self.features(batch.images)
        score, logits = self.head(features)[:, 0].float(), self.class_head(features).float()
        classes = nearest_level(batch.scores, self.scale, _CLASSES)
        levels, weight = self.levels_in_units, self.class_weight
        return combo_loss(score, logits, self.in_units(batch.scores), classes, levels, weight)

    def estimate(self, features: Tensor) -> Estimates:
        """The score unit's output."""
        return Estimates.of(self.head(features)[:, 0])
