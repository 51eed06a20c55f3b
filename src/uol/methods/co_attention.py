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
from uol.training.landmarks import parts_of
from uol.training.packed import PackedImages
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
_FAINT = 1e-6  # a part that lies outside what is shown has a mask of zeros
_FINE = 112  # points along a side at which parts are drawn, before they are averaged over the positions of a map


def part_masks(shape: tuple[int, int], shown: float = 1.0) -> Tensor:
    """Seven soft masks (7, h, w), each of sum 1, of feature maps that see the central `shown` of an aligned frame."""
    return draw_parts(mean_parts()[None], shape, shown)[0]


def mean_parts() -> Tensor:
    """Centre x, y and radii x, y of the six parts of the mean face, (6, 4)."""
    return torch.tensor([[*centre, *radii] for centre, radii in _PARTS])


def draw_parts(parts: Tensor, shape: tuple[int, int], shown: float = 1.0) -> Tensor:
    """Parts of each face, (N, 6, 4), to its masks and that of the rest, (N, 7, h, w), each of sum 1."""
    along = 0.5 + shown * ((torch.arange(_FINE, device=parts.device) + 0.5) / _FINE - 0.5)
    x, y, wide, high = (values[..., None, None] for values in parts.unbind(-1))
    bumps = torch.exp(-(((along - x) / wide).square() + ((along[:, None] - y) / high).square()) / 2)
    masks = F.adaptive_avg_pool2d(torch.cat([bumps, 1 - bumps.amax(1, keepdim=True)], 1), shape)
    return masks / masks.sum((-2, -1), keepdim=True).clamp_min(_FAINT)


def mirrored_parts(parts: Tensor, mirrored: Tensor) -> Tensor:
    """The parts (N, 6, 4) of frames of which some are `mirrored`, (N,): the left eye is then the right one."""
    turned = torch.cat([1 - parts[..., :1], parts[..., 1:]], -1)
    swapped = torch.cat([turned[:, 1:2], turned[:, :1], turned[:, 2:]], 1)
    return torch.where(mirrored[:, None, None], swapped, parts)


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

    def forward(self, maps: Tensor, masks: Tensor | None = None) -> Tensor:
        """Σ softmax(logits) · mask · maps over parts and positions; masks (N, 7, h, w) are those of each image."""
        shown = self.masks[None] if masks is None else masks
        mask = (self.logits.softmax(0)[:, None, None] * shown).sum(1, keepdim=True)
        return (maps * mask).sum((-2, -1))


class CoAttention(ScoreMethod):
    """Attention over positions and over seven parts of the face; both features → half as many → the score.

    With a second backbone each branch has its own, as published; without, both share the recipe's. Published is also a
    face parser that outlines the parts of every image. Here a data set's landmarks outline them, with the setting
    `landmarks`; without it, and for images without landmarks, the masks are those of the mean face: one set for all
    images, right only as far as faces are aligned. A backbone's own pooling has no part.
    """

    takes_second_backbone = True
    takes_landmarks = True

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        look, second = recipe.model, recipe.second_backbone
        self.second = None if second is None else self.network(second)
        channels, *_ = self._map_shape(self.model)
        of_parts, high, wide = self._map_shape(self.second or self.model)
        self.attention = AttentionPooling(channels)
        self.parts = PartPooling(part_masks((high, wide), look.crop / look.resize))
        self._shape, self._shown = (high, wide), look.crop / look.resize
        both = channels + of_parts
        self.head = nn.Sequential(nn.Linear(both, both // 2), nn.ReLU(), self.score_unit(both // 2))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        score, _ = self.estimate(self.features(batch.images, batch.attributes, batch.mirrored))
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        """Refuse landmarks where images are moved in ways that landmarks are not."""
        super().check(recipe)
        how, scoring = recipe.augmentation, recipe.scoring
        if recipe.landmarks and (how.warps or how.random_crop or how.mix or scoring.mirror or scoring.zooms != (1.0,)):
            raise CallError(
                "landmarks: images may only be mirrored in training, and are scored as they are; set augmentation to "
                "{flip: true} and scoring to {mirror: false}"
            )

    def known_of(self, images: PackedImages) -> Tensor:
        """Where the parts of each face are, (N, 24), those of the mean face where unknown."""
        if not self.recipe.landmarks:
            return super().known_of(images)
        found = torch.from_numpy(parts_of(images.rated, self.recipe.model.framing == "face")).float()
        return torch.where(found.isfinite(), found, mean_parts()).flatten(1)

    def features(self, images: Tensor, attributes: Tensor | None = None, mirrored: Tensor | None = None) -> Tensor:
        """Attended features and those of the parts, concatenated."""
        maps = _maps(self.model, images)
        of_parts = maps if self.second is None else _maps(self.second, images)
        masks = None
        if attributes is not None and attributes.shape[1] == 4 * len(_PARTS):
            parts = attributes.view(-1, len(_PARTS), 4)
            parts = parts if mirrored is None else mirrored_parts(parts, mirrored)
            masks = draw_parts(parts, self._shape, self._shown)
        return torch.cat([self.attention(maps), self.parts(of_parts, masks)], 1)

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
