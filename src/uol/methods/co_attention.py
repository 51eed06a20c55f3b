"""Co-attention: where to look is learnt by position in one branch, and by part of the face in another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.errors import CallError
from uol.images.faces import TEMPLATE
from uol.methods.score_method import Estimates, ScoreMethod
from uol.order.model import FeatureModel
from uol.ratings.scale import Scale
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


class AttentionPooling(nn.Module):
    """Feature maps (N, C, h, w) to their sum over positions, weighted by what each position shows, (N, C)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(channels // 2, 1)
        self.attention = nn.Sequential(nn.Linear(channels, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))

    def forward(self, maps: Tensor) -> Tensor:
        """Σ softmax(v · tanh(W·x + b)) · x over positions x."""
        positions = maps.flatten(2).transpose(1, 2)
        attended: Tensor = (self.attention(positions).float().softmax(1) * positions).sum(1)
        return attended


class PartPooling(nn.Module):
    """Feature maps (N, C, h, w) to their sum over positions by masks of parts, the parts' weights learnt, (N, C)."""

    masks: Tensor

    def __init__(self, masks: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(len(masks)))
        self.register_buffer("masks", masks, persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Σ softmax(logits) · mask · maps over parts and positions."""
        mask = (self.logits.softmax(0)[:, None, None] * self.masks).sum(0)
        return (maps * mask).sum((-2, -1))


class CoAttention(ScoreMethod):
    """Attention over positions and over seven parts of the face; both features → half as many → the score.

    With a second backbone each branch has its own, as published; without, both share the recipe's. Published is also a
    face parser that outlines the parts of every image; here, without landmarks, the masks are those of the mean face:
    one set for all images, right only as far as faces are aligned. A backbone's own pooling has no part.
    """

    takes_second_backbone = True

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        look, second = recipe.model, recipe.second_backbone
        self.second = None if second is None else self.network(second)
        channels, *_ = self._map_shape(self.model)
        of_parts, high, wide = self._map_shape(self.second or self.model)
        self.attention = AttentionPooling(channels)
        self.parts = PartPooling(part_masks((high, wide), look.crop / look.resize))
        both = channels + of_parts
        self.head = nn.Sequential(nn.Linear(both, both // 2), nn.ReLU(), self.score_unit(both // 2))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        score, _ = self.estimate(self.features(batch.images))
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    def features(self, images: Tensor, attributes: Tensor | None = None) -> Tensor:
        """Attended features and those of the parts, concatenated."""
        maps = _maps(self.model, images)
        of_parts = maps if self.second is None else _maps(self.second, images)
        return torch.cat([self.attention(maps), self.parts(of_parts)], 1)

    def estimate(self, features: Tensor) -> Estimates:
        """The head's output."""
        return Estimates.of(self.head(features)[:, 0])

    def _map_shape(self, model: FeatureModel) -> tuple[int, int, int]:
        model.pool = None  # whatever the recipe says: the two branches have their own
        try:
            return model.backbone.map_shape(self.recipe.model.crop)
        except CallError as error:
            name = model.backbone.name
            raise CallError(
                f"method co-attention needs feature maps, and {name} gives none: choose another backbone"
            ) from error


def _maps(model: FeatureModel, images: Tensor) -> Tensor:
    return model.backbone.as_maps(model.backbone.feature_maps(images))
