"""OrderModel: an image becomes a Gaussian in the psychological space, and two of them are compared.

Read top to bottom: the comparator, the pooling, the model.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from uol.order.backbones import Backbone
from uol.order.config import ModelConfig, ScoringConfig
from uol.order.gaussians import Gaussians, averaged, rectified_mean
from uol.order.losses import level_moments
from uol.order.views import views
from uol.ratings.scale import Scale

_AS_IT_IS = ScoringConfig()
_ON_GPU = 2**29  # bytes of hidden rows compared at once; a layer's input and output are there together


class Comparator(nn.Module):
    """Judges two points of the space: three layers 2D → H → H → 3, logits in the order of `Order` (equation 2).

    The first layer is linear in both points, so it splits into two halves, W·[a, b] = W_a·a + W_b·b. Each half is
    computed once per image; comparing every image with every reference then only adds halves by broadcasting.
    """

    def __init__(self, dimensions: int, hidden: int, of_differences: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(2 * dimensions, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.third = nn.Linear(hidden, 3)
        if of_differences:  # a comparison starts as one of differences: W_b = −W_a saves epochs of finding that out
            with torch.no_grad():
                self.first.weight[:, dimensions:] = -self.first.weight[:, :dimensions]

    def left(self, points: Tensor) -> Tensor:
        """The half of the first layer for the first image of a pair, with the bias: (..., D) → (..., H)."""
        weight = self.first.weight[:, : points.shape[-1]]
        return nn.functional.linear(points, weight, self.first.bias)

    def right(self, points: Tensor) -> Tensor:
        """The half of the first layer for the second image of a pair: (..., D) → (..., H)."""
        return nn.functional.linear(points, self.first.weight[:, points.shape[-1] :])

    def judge(self, left: Tensor, right: Tensor) -> Tensor:
        """Logits from two halves that broadcast against each other: (..., H) → (..., 3)."""
        hidden = nn.functional.relu(left + right)
        hidden = nn.functional.relu(self.second(hidden))
        logits: Tensor = self.third(hidden)
        return logits

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Logits for points that broadcast against each other: (..., D) × (..., D) → (..., 3)."""
        return self.judge(self.left(first), self.right(second))

    def pairs(self, points: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Logits for pairs of rows: points (T, M, D), row indices (P,) → (T, P, 3)."""
        return self.judge(self.left(points)[:, first], self.right(points)[:, second])

    def expected(self, gaussians: Gaussians, first: Tensor, second: Tensor) -> Tensor:
        """Logits for pairs of Gaussians without sampling: (M, D), row indices (P,) → (P, 3).

        The first layer's sum of two Gaussians is Gaussian, with mean W_a·μ_a + W_b·μ_b + c and variances
        W_a²·σ_a² + W_b²·σ_b². Its mean after rectification is known, and goes on in place of samples: the noise of
        drawing is gone, at the cost of a single sample. What is lost is the spread behind the first layer.
        """
        mean, variance = gaussians.mean, gaussians.log_variance.exp()
        weight = self.first.weight.square()
        of_first, of_second = weight.split(mean.shape[-1], 1)  # type: ignore[no-untyped-call]
        middle = self.left(mean)[first] + self.right(mean)[second]
        spread = nn.functional.linear(variance, of_first)[first] + nn.functional.linear(variance, of_second)[second]
        hidden = rectified_mean(middle.float(), spread.float())
        logits: Tensor = self.third(nn.functional.relu(self.second(hidden)))
        return logits

    def against(
        self, points: Tensor, left: Tensor, right: Tensor, both_directions: bool = False, at_once: int | None = None
    ) -> Tensor:
        """Logits of each image against each reference, averaged over T samples: (T, N, D) → (N, R, 3).

        `left` and `right` (T, R, H) are the references' halves. With `both_directions` the reference is also judged
        against the image, and the mirrored answer averaged in. On a processor one image at a time: its R·T hidden rows
        stay in the cache, where N·R·T of them would not. On a GPU as many at once as half a gibibyte holds,
        or `at_once`.
        """
        own_left, own_right = self.left(points), self.right(points)
        logits = points.new_empty((points.shape[1], left.shape[1], 3))
        if at_once is None:
            at_once = max(1, _ON_GPU // (left.numel() * left.element_size())) if points.is_cuda else 1
        for start in range(0, points.shape[1], at_once):
            rows = slice(start, start + at_once)
            logits[rows] = self._averaged(own_left[:, rows, None], right[:, None])
            if both_directions:
                logits[rows] += self._averaged(left[:, None], own_right[:, rows, None]).flip(-1)
        return logits / 2 if both_directions else logits

    def _averaged(self, left: Tensor, right: Tensor) -> Tensor:
        # The third layer is linear, so it may follow the average over samples.
        hidden = (left + right).relu_()
        hidden = self.second(hidden).relu_()
        logits: Tensor = self.third(hidden.mean(0) if len(hidden) > 1 else hidden[0])
        return logits


class PositionPooling(nn.Module):
    """K weighted sums of each feature map, the weights learnt for each channel and position: (N, C, h, w) → (N, K·C).

    A mean over positions forgets where in an aligned face a feature lies; these start near it and need not stay there.
    """

    def __init__(self, poolings: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        noise = torch.randn(poolings, *shape)
        self.weight = nn.Parameter((1 + 0.5 * noise) / (shape[1] * shape[2]))

    def forward(self, maps: Tensor) -> Tensor:
        """Feature maps to features."""
        return torch.einsum("nchw,kchw->nkc", maps, self.weight).flatten(1)


class FeatureModel(nn.Module):
    """Backbone and pooling: images to features (N, width)."""

    def __init__(self, config: ModelConfig, pretrained: bool = False) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config.backbone, config.crop, pretrained, config.normalise == "mean-std")
        self.width = self.backbone.width
        self.pool: nn.Module | None = None
        if config.pooling == "positions":
            self.pool = PositionPooling(config.poolings, self.backbone.map_shape(config.crop))
            self.width *= config.poolings

    def features(self, images: Tensor) -> Tensor:
        """Images (N, 3, H, W), uint8 or 0–1, to pooled features."""
        return self.pooled(self.backbone.feature_maps(images))

    def pooled(self, maps: Tensor) -> Tensor:
        """Feature maps of the backbone to features."""
        features: Tensor = self.backbone.pool(maps) if self.pool is None else self.pool(self.backbone.as_maps(maps))
        return features


class OrderModel(FeatureModel):
    """Backbone, Gaussian head and comparator, which starts as one `of_differences` or at random."""

    def __init__(self, config: ModelConfig, pretrained: bool = False, of_differences: bool = True) -> None:
        super().__init__(config, pretrained)
        self.mean = nn.Linear(self.width, config.dimensions)
        self.log_variance = nn.Linear(self.width, config.dimensions) if config.uncertain else None
        self.comparator = Comparator(config.dimensions, config.hidden, of_differences)
        self.levels = nn.Linear(config.dimensions, config.levels) if config.levels else None
        if self.log_variance is not None:
            nn.init.zeros_(self.log_variance.weight)
            nn.init.constant_(self.log_variance.bias, config.initial_log_variance)

    def forward(self, images: Tensor) -> Gaussians:
        """Images (N, 3, H, W), uint8 or 0–1, to N Gaussians; points have log-variance −∞."""
        return self.gaussians(self.features(images))

    def gaussians(self, features: Tensor) -> Gaussians:
        """Features to Gaussians."""
        mean = self.mean(features)
        if self.log_variance is None:
            return Gaussians(mean, mean.new_full(mean.shape, float("-inf")))
        return Gaussians(mean, self.log_variance(features))

    def level_mean(self, places: Tensor, scale: Scale, levels: int) -> Tensor:
        """The means of the panel's histograms, predicted from the means of Gaussians: (N, D) → (N,).

        The panel's rating levels are the first `levels` of the model's.
        """
        assert self.levels is not None
        logits = self.levels(places.to(self.levels.weight.device)).double()
        if levels < self.config.levels:
            logits = logits[:, :levels]
        spaced = torch.linspace(scale.low, scale.high, levels, dtype=torch.float64, device=logits.device)
        return level_moments(logits, spaced)[0]

    def with_levels(self, head: nn.Linear | None) -> OrderModel:
        """The same network, not a copy of it, with another head that predicts histograms."""
        if head is self.levels:
            return self
        made = copy.copy(self)
        made.__dict__["_modules"] = {**self._modules, "levels": head}
        return made

    @torch.inference_mode()
    def embed(self, images: Tensor, scoring: ScoringConfig = _AS_IT_IS, batch_size: int = 128) -> Gaussians:
        """Gaussians of many images, in moderate batches on the model's device, over the views that `scoring` names."""
        self.eval()
        device = self.comparator.first.weight.device
        parts = [
            averaged([self(view) for view in views(part.to(device), scoring)])
            for part in torch.split(images, batch_size)
        ]
        return Gaussians(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
