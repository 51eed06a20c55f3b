"""Order learning without uncertainty: each image is a point, and only the order cross entropy is learnt."""

from __future__ import annotations

from torch import Tensor

from uol.methods.uol import Uol
from uol.order.gaussians import Gaussians
from uol.order.losses import order_cross_entropy
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe


class OrderLearning(Uol):
    """UOL's network and scorer with points for Gaussians; it predicts the same dispersion for all images."""

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0, panels: int = 1) -> None:
        super().__init__(recipe.with_changes({"model.uncertain": False}), scale, levels, panels)

    def order_losses(self, gaussians: Gaussians, batch: Batch) -> dict[str, Tensor]:
        """Order cross entropy of the points themselves."""
        logits = self._logits(gaussians, gaussians.mean[None], batch)
        return {"total": order_cross_entropy(logits, batch.target, batch.pair_weight)}
