"""Regression: pooled features to the score, squared error. The baseline that order learning is measured against."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.calibration import Calibration, calibrate
from uol.methods.base import Floats, Method, Predictions
from uol.model import FeatureModel
from uol.scale import Scale
from uol.training.batches import Batch, PackedImages
from uol.training.recipe import Recipe


class Regression(Method):
    """One linear unit on pooled features, in units of the scale, starting at its middle.

    Of a recipe it uses what concerns features, training and the mirror image; pairs, samples and helpers it has none.
    """

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.model = FeatureModel(recipe.model, self.pretrained)
        self.prepare(self.model.backbone)
        self.head = nn.Linear(self.model.width, 1)
        nn.init.constant_(self.head.bias, (scale.low + scale.high) / 2 / scale.unit)
        self.calibration = Calibration()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        predicted = self.head(self.model.features(batch.images))[:, 0]
        return {"total": F.mse_loss(predicted.float(), batch.scores / self.scale.unit)}

    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Learn the width of intervals from the held-out images; the score itself is left as regressed."""
        if held_out is not None:
            value = self._values(held_out.centre)
            self.calibration = calibrate(held_out.rated.scores, value, np.ones_like(value), line=False)

    def predict(self, pixels: Tensor) -> Predictions:
        """Predicted scores with intervals of one width."""
        value = np.clip(self._values(pixels), *self.scale)
        half = self.calibration.half_width(np.ones_like(value))
        low, high = np.clip(value - half, *self.scale), np.clip(value + half, *self.scale)
        return Predictions(value, low, high, np.full_like(value, np.nan))

    @torch.inference_mode()
    def _values(self, pixels: Tensor) -> Floats:
        self.eval()
        parts = []
        for part in torch.split(pixels, 128):
            views = [part, part.flip(-1)] if self.recipe.scoring.mirror else [part]
            values = [self.head(self.model.features(view.to(self.device)))[:, 0] for view in views]
            parts.append(torch.stack(values).mean(0).cpu())
        return (torch.cat(parts).double() * self.scale.unit).numpy()
