"""CNN-ER: an ensemble for the score, its members trained by different losses, most of them robust."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from uol.losses import huber, smooth_l1, tukey
from uol.methods.score_method import Estimates, ScoreMethod
from uol.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_HIDDEN = 1024
_THRESHOLD, _TUKEY = (0.7, 0.3), (2.0, 1.0)  # in units of the scale, in the first epoch and in the last


class CnnEr(ScoreMethod):
    """Six heads: squared error twice, Huber twice, parametric smooth L1 and Tukey; their mean is asked.

    Published are six networks: ResNeXt-50, Inception-v3, and four that join both. Matched here are the six losses, the
    cosine that their parameters follow, and the mean; not matched is that members share the recipe's one backbone and
    schedule, so that they differ less than separate networks. Those of one network are a linear unit; those of two
    have 1024 hidden units, where the published ones join 1024 features of each.
    """

    threshold: Tensor
    tukey_cut: Tensor

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        # In the order of the losses: squared error, Huber, smooth L1, Tukey.
        joined = (False, True, False, True, True, True)
        self.heads = nn.ModuleList([self._joined() if two else self.score_unit(self.model.width) for two in joined])
        self.register_buffer("threshold", torch.tensor(_THRESHOLD[0]), persistent=False)
        self.register_buffer("tukey_cut", torch.tensor(_TUKEY[0]), persistent=False)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Let the parameters of the robust losses follow a cosine from their first values to their last."""
        left = (1 + math.cos(math.pi * epoch / max(epochs - 1, 1))) / 2
        for buffer, (first, last) in ((self.threshold, _THRESHOLD), (self.tukey_cut, _TUKEY)):
            buffer.fill_(last + (first - last) * left)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The mean of the six heads' losses."""
        error = self._scores(self.features(batch.images)).float() - self.in_units(batch.scores)
        losses = {
            "squared": error[:2].square().mean(),
            "huber": huber(error[2:4], self.threshold),
            "smooth_l1": smooth_l1(error[4], self.threshold),
            "tukey": tukey(error[5], self.tukey_cut),
        }
        total = (2 * losses["squared"] + 2 * losses["huber"] + losses["smooth_l1"] + losses["tukey"]) / 6
        return {"total": total, **losses}

    def estimate(self, features: Tensor) -> Estimates:
        """The mean of the heads."""
        return Estimates.of(self._scores(features).mean(0))

    def _scores(self, features: Tensor) -> Tensor:
        return torch.stack([head(features)[:, 0] for head in self.heads])

    def _joined(self) -> nn.Module:
        return nn.Sequential(nn.Linear(self.model.width, _HIDDEN), nn.ReLU(), self.score_unit(_HIDDEN))
