"""Co-attention: where to look is learnt by position in one branch, and by part of the face in another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.errors import CallError
from uol.faces import TEMPLATE
from uol.methods.score_method import Estimates, ScoreMethod
from uol.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_LEFT_EYE, _RIGHT_EYE, _NOSE = TEMPLATE[:3].tolist()
_MOUTH = TEMPLATE[3:].mean(0).tolist()

# Centre and radii of six parts, as fractions of an aligned frame; the seventh part is the rest.
_PARTS = (
    (_LEFT_EYE, (0.06, 0.03)),
    (_RIGHT_EYE, (0.06, 0.03)),
    ((0.504, 0.37), (0.16, 0.03)),  # brows
    (_NOSE, (0.05, 0.07)),
    (_MOUTH, (0.08, 0.035)),
    ((0.506, 0.83), (0.17, 0.05)),  # jaw
)
_FINE = 112  # points along a side at which parts are drawn, before they are averaged over the positions of a map


def part_masks(shape: tuple[int, int], shown: float = 1.0) -> Tensor:
    """Seven soft masks (7, h, w), each of sum 1, of feature maps that see the central `shown` of an aligned frame."""
    along = 0.5 + shown * ((torch.arange(_FINE) + 0.5) / _FINE - 0.5)
    bumps = torch.stack(
        [
            torch.exp(-(((along - x) / wide).square() + ((along[:, None] - y) / high).square()) / 2)
            for (x, y), (wide, high) in _PARTS
        ]
    )
    masks = F.adaptive_avg_pool2d(torch.cat([bumps, 1 - bumps.amax(0, keepdim=True)]), shape)
    return masks / masks.sum((1, 2), keepdim=True)


class CoAttentionPooling(nn.Module):
    """Feature maps (N, C, h, w) to attended features beside those of weighted parts, (N, 2C)."""

    masks: Tensor

    def __init__(self, channels: int, masks: Tensor) -> None:
        super().__init__()
        hidden = max(channels // 2, 1)
        self.attention = nn.Sequential(nn.Linear(channels, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))
        self.part_logits = nn.Parameter(torch.zeros(len(masks)))
        self.register_buffer("masks", masks, persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Sum over positions by attention, and by the parts' masks."""
        positions = maps.flatten(2).transpose(1, 2)
        attended = (self.attention(positions).float().softmax(1) * positions).sum(1)
        mask = (self.part_logits.softmax(0)[:, None, None] * self.masks).sum(0)
        return torch.cat([attended, (maps * mask).sum((-2, -1))], 1)


class CoAttention(ScoreMethod):
    """Attention over positions and over seven parts of the face; both features → half as many → the score.

    The published network has a MobileNetV2 for each branch, and a face parser outlines the parts of every image. Here
    both branches share the recipe's backbone, whose own pooling has no part, and without landmarks the masks are those
    of the mean face: one set for all images, right only as far as faces are aligned.
    """

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        look = recipe.model
        try:
            channels, *shape = self.model.backbone.map_shape(look.crop)
        except CallError as error:
            raise CallError(
                f"method co-attention needs feature maps, and {look.backbone} gives none: choose another backbone"
            ) from error
        masks = part_masks((shape[0], shape[1]), look.crop / look.resize)
        self.model.pool = CoAttentionPooling(channels, masks)
        self.model.width = 2 * channels
        self.head = nn.Sequential(nn.Linear(2 * channels, channels), nn.ReLU(), self.score_unit(channels))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        score, _ = self.estimate(self.model.features(batch.images))
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    def estimate(self, features: Tensor) -> Estimates:
        """The head's output."""
        return Estimates.of(self.head(features)[:, 0])
