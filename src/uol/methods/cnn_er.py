"""CNN-ER: an ensemble for the score, its members trained by different losses, most of them robust."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.losses import huber, smooth_l1, tukey
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_HIDDEN = 1024
_JOINED = (False, True, False, True, True, True)
_THRESHOLD, _TUKEY = (0.7, 0.3), (2.0, 1.0)  # in units of the scale, in the first epoch and in the last


class Joined(nn.Module):
    """Features of one or more networks, each to 1024, then a ReLU and the unit that scores."""

    def __init__(self, widths: list[int], unit: nn.Linear) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(width, _HIDDEN) for width in widths])
        self.unit = unit

    def forward(self, *features: Tensor) -> Tensor:
        """Features (N, width) of each network to (N, 1)."""
        hidden = [branch(part) for branch, part in zip(self.branches, features, strict=True)]
        score: Tensor = self.unit(F.relu(torch.cat(hidden, 1)))
        return score


class CnnEr(ScoreMethod):
    """Six members: squared error twice, Huber twice, parametric smooth L1 and Tukey; their mean is asked.

    With a second backbone they are separate networks, as published: one of the first backbone by squared error, one of
    the second by Huber, and four of both, which join 1024 features of each. Without, they are heads on one backbone,
    and therefore differ less: the single ones a linear unit, the joined ones 1024 hidden units.
    """

    takes_second_backbone = True
    threshold: Tensor
    tukey_cut: Tensor

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        first, second = recipe.model.backbone, recipe.second_backbone
        others = [] if second is None else [first, second, second] + [first, second] * 3
        self.others = nn.ModuleList([self.network(name) for name in others])  # after self.model, the first
        self._widths = [model.width for model in (self.model, *self.others)]
        # Which networks a member has, in the order of the losses: squared error, Huber, smooth L1, Tukey.
        self._members = [(0,)] * 6 if second is None else [(0,), (1, 2), (3,), (4, 5), (6, 7), (8, 9)]
        self.heads = nn.ModuleList(
            [
                self._joined([self._widths[part] for part in member])
                if joined
                else self.score_unit(self._widths[member[0]])
                for member, joined in zip(self._members, _JOINED, strict=True)
            ]
        )
        self.register_buffer("threshold", torch.tensor(_THRESHOLD[0]), persistent=False)
        self.register_buffer("tukey_cut", torch.tensor(_TUKEY[0]), persistent=False)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Let the parameters of the robust losses follow a cosine from their first values to their last."""
        left = (1 + math.cos(math.pi * epoch / max(epochs - 1, 1))) / 2
        for buffer, (first, last) in ((self.threshold, _THRESHOLD), (self.tukey_cut, _TUKEY)):
            buffer.fill_(last + (first - last) * left)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The mean of the six members' losses."""
        error = self._scores(self.features(batch.images)).float() - self.in_units(batch.scores)
        losses = {
            "squared": error[:2].square().mean(),
            "huber": huber(error[2:4], self.threshold),
            "smooth_l1": smooth_l1(error[4], self.threshold),
            "tukey": tukey(error[5], self.tukey_cut),
        }
        total = (2 * losses["squared"] + 2 * losses["huber"] + losses["smooth_l1"] + losses["tukey"]) / 6
        return {"total": total, **losses}

    def features(self, images: Tensor, attributes: Tensor | None = None) -> Tensor:
        """The features of all networks, side by side."""
        return torch.cat([model.features(images) for model in (self.model, *self.others)], 1)

    def estimate(self, features: Tensor) -> Estimates:
        """The mean of the members."""
        return Estimates.of(self._scores(features).mean(0))

    def _scores(self, features: Tensor) -> Tensor:
        parts = torch.split(features, self._widths, 1)
        pairs = zip(self.heads, self._members, strict=True)
        return torch.stack([head(*(parts[part] for part in member))[:, 0] for head, member in pairs])

    def _joined(self, widths: list[int]) -> nn.Module:
        return Joined(widths, self.score_unit(_HIDDEN * len(widths)))
