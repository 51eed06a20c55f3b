"""What ONNX graphs compute: from pixels to Gaussians, comparisons and scores."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from uol.order.bradley_terry import GRID, STEEPEST
from uol.order.calibration import LEAST_DEGREE, Calibration
from uol.order.gaussians import Gaussians
from uol.order.model import Comparator
from uol.order.order import Order
from uol.order.views import views
from uol.scoring.scorer import Scorer

if TYPE_CHECKING:
    pass


_STEPS = 8  # from within a cell three suffice; were each a mere halving, eight would end at 1/65,000 of the scale


class ScoringGraph(nn.Module):
    """Framed images, uint8 (N, 3, crop, crop), to their Gaussians (N, D) and their scores (N,).

    Comparing an image with R references takes a few times R·H numbers at once, 0.7 MB each for 340 references and
    H = 512, where VGG16's first maps take 13 MB: the network sets the limit to N.
    """

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self.model = copy.deepcopy(scorer.model).cpu().float().eval()
        _write_padding_as_numbers(self.model)
        self.panel, self.scoring = scorer.panel, scorer.scoring
        self.levels_used = scorer.levels_used
        self.bradley_terry, self.calibration = scorer.bradley_terry, scorer.calibration
        self.references: Tensor
        self.reference_scores: Tensor
        self.register_buffer("references", scorer.references.gaussians.mean.detach().cpu().float().clone())
        self.register_buffer("reference_scores", torch.from_numpy(scorer.references.scores).double())

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `GAUSSIAN` and `SCORES`."""
        mean, log_variance = self.embed(images)
        left, right = self.model.comparator.left(self.references), self.model.comparator.right(self.references)
        outcomes = _probabilities(self.model.comparator, mean[:, None], left, right, self.scoring.both_directions)
        raw, error = self.maximum(outcomes)
        if self.levels_used:
            share = self.scoring.histogram_share
            raw = (1 - share) * raw + share * self.model.level_mean(mean, self.panel.scale, self.levels_used)
        low, high = self.panel.low, self.panel.high
        calibration = self.calibration
        value = (calibration.intercept + calibration.slope * raw).clamp(low, high)
        half = calibration.quantile * ((calibration.scale * error) ** 2 + calibration.floor**2).sqrt()
        dispersion = _dispersion(log_variance, calibration)
        figures = (value, (value - half).clamp(low, high), (value + half).clamp(low, high), dispersion, error)
        return mean, log_variance, *(figure.float() for figure in figures)

    def embed(self, images: Tensor) -> Gaussians:
        """Gaussians, averaged over the views in the scoring settings."""
        shown = [*views(images, self.scoring)]
        if len(shown) == 1:
            return self.model(shown[0])  # type: ignore[no-any-return]
        both = self.model(torch.cat(shown))
        return Gaussians(*(column.unflatten(0, (len(shown), -1)).mean(0) for column in both))

    def maximum(self, outcomes: Tensor) -> tuple[Tensor, Tensor]:
        """The Bradley-Terry score of each image and its standard error, as `bradley_terry.estimate` finds them.

        Outcomes (N, R, 3). The score is bracketed on a grid by one matrix product, then found by Newton's steps, each
        of which falls back to halving the bracket.
        """
        low, high, delta = self.panel.low, self.panel.high, self.bradley_terry.delta
        k = min(self.bradley_terry.k, STEEPEST / (high - low))
        r = self.reference_scores
        if self.scoring.outcomes == "hard":
            likeliest = outcomes.argmax(-1)
            not_less, not_greater = (likeliest != Order.LESS).double(), (likeliest != Order.GREATER).double()
        else:
            not_less, not_greater = 1 - outcomes[..., Order.LESS], 1 - outcomes[..., Order.GREATER]

        grid = torch.linspace(low, high, GRID + 1, dtype=torch.float64)
        x = k * (grid - r[:, None])
        slope = not_less @ (delta - x).sigmoid() - not_greater @ (delta + x).sigmoid()  # (N, G), falling along G
        inside = (slope[:, 0] > 0) & (slope[:, -1] < 0)
        cell = ((slope > 0).long().sum(1, keepdim=True) - 1).clamp(0, GRID - 1)
        width = (high - low) / GRID
        below = low + width * cell[:, 0].double()
        above = below + width
        rising, falling = slope.gather(1, cell)[:, 0], -slope.gather(1, cell + 1)[:, 0]
        start = below + width * rising / (rising + falling).clamp(min=1e-300)
        s = torch.where(inside, start, torch.where(slope[:, 0] <= 0, low, high).double())
        for _ in range(_STEPS):
            gradient, information = _derivatives(s, r, not_less, not_greater, k, delta)
            below, above = torch.where(gradient > 0, s, below), torch.where(gradient > 0, above, s)
            proposal = s + gradient / information.clamp(min=1e-300)
            proposal = torch.where((proposal >= below) & (proposal <= above), proposal, 0.5 * (below + above))
            s = torch.where(inside, proposal, s)
        _, information = _derivatives(s, r, not_less, not_greater, k, delta)
        return s, 1 / information.clamp(min=(high - low) ** -2.0).sqrt()


class SameConvolution(torch.autograd.Function):
    """A convolution with as many zeros before and after the maps (top, left, bottom, right) as `pads` states.

    In a graph it is one node. As PyTorch writes it, with the zeros counted from the maps' shape and added by another
    node, EfficientNet-lite0 takes a quarter more time.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, pads: list[int], stride: list[int], groups: int) -> Tensor:
        """PyTorch's pads are the last axis's first."""
        top, left, bottom, right = pads
        return nn.functional.conv2d(
            nn.functional.pad(maps, [left, right, top, bottom]), weight, None, stride, 0, 1, groups
        )

    @staticmethod
    def symbolic(graph: Any, maps: Any, weight: Any, pads: list[int], stride: list[int], groups: int) -> Any:
        """The node of a graph."""
        return graph.op("Conv", maps, weight, pads_i=pads, strides_i=stride, group_i=groups)


def _write_padding_as_numbers(model: nn.Module) -> None:
    """Replace timm's convolutions with TensorFlow's padding by `SameConvolution`."""
    for layer in model.modules():
        if type(layer).__name__ == "Conv2dSame" and getattr(layer, "bias", None) is None and layer.dilation == (1, 1):
            layer.forward = partial(_same_convolution, layer)  # type: ignore[arg-type]


def _same_convolution(layer: nn.Conv2d, maps: Tensor) -> Tensor:
    """A convolution with TensorFlow's padding: one output for each `stride` inputs, the odd zero after the maps."""
    sides = [int(side) for side in maps.shape[2:]]
    zeros = [
        max((-(-side // stride) - 1) * stride + kernel - side, 0)
        for side, stride, kernel in zip(sides, layer.stride, layer.kernel_size, strict=True)
    ]
    pads = [zero // 2 for zero in zeros] + [zero - zero // 2 for zero in zeros]
    moved: Tensor = SameConvolution.apply(maps, layer.weight, pads, list(layer.stride), layer.groups)
    return moved


class ComparingGraph(nn.Module):
    """Two Gaussians for each of N pairs, (N, D) → probabilities of less, similar and greater (N, 3)."""

    def __init__(self, graph: ScoringGraph) -> None:
        super().__init__()
        self.model = graph.model
        self.both_directions = graph.scoring.both_directions

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Means are compared: spreads would matter to samples alone."""
        comparator = self.model.comparator
        left, right = comparator.left(second), comparator.right(second)
        return _probabilities(comparator, first, left, right, self.both_directions).float()


def _probabilities(comparator: Comparator, points: Tensor, left: Tensor, right: Tensor, both: bool) -> Tensor:
    """`Comparator.against`, softmax included, with broadcasting in place of its loop over images."""
    logits = comparator.judge(comparator.left(points), right)
    if both:
        logits = (logits + comparator.judge(left, comparator.right(points)).flip(-1)) / 2
    return logits.double().softmax(-1)


def _derivatives(
    s: Tensor, r: Tensor, not_less: Tensor, not_greater: Tensor, k: float, delta: float
) -> tuple[Tensor, Tensor]:
    """dL/ds and −d²L/ds² of the log-likelihood at scores s (N,)."""
    x = k * (s[:, None] - r)
    sigma_u, sigma_v = (x - delta).sigmoid(), (x + delta).sigmoid()
    rising, falling = not_less * (1 - sigma_u), not_greater * sigma_v
    gradient = k * (rising - falling).sum(1)
    return gradient, k**2 * (rising * sigma_u + falling * (1 - sigma_v)).sum(1)


def _dispersion(log_variance: Tensor, calibration: Calibration) -> Tensor:
    """As `Calibration.dispersion` of `dispersion_degree`; NaN where unknown."""
    spread = log_variance.double().clamp(min=-1000.0)  # a point has −∞, of which runtimes make NaN
    highest = spread.amax(-1, keepdim=True)
    log_degree = 0.5 * (highest[:, 0] + (spread - highest).exp().sum(-1).log())
    if calibration.dispersion_intercept is None:
        return log_degree * float("nan")
    log_degree = log_degree.clamp(min=float(np.log(LEAST_DEGREE)))
    return (calibration.dispersion_intercept + calibration.dispersion_slope * log_degree).exp()
