"""Diagonal Gaussians in the psychological space: sampling, distance and degree of dispersion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class Gaussians(NamedTuple):
    """N Gaussians with diagonal covariance: mean μ and log-variance log diag Σ, each (N, D)."""

    mean: Tensor
    log_variance: Tensor

    @property
    def variance(self) -> Tensor:
        """diag Σ, (N, D)."""
        return self.log_variance.exp()

    @property
    def deviation(self) -> Tensor:
        """σ = √diag Σ, (N, D)."""
        return (0.5 * self.log_variance).exp()

    def rows(self, index: Tensor | npt.NDArray[np.intp] | slice) -> Gaussians:
        """The Gaussians at some rows."""
        return Gaussians(self.mean[index], self.log_variance[index])

    @classmethod
    def joined(cls, parts: Sequence[Gaussians]) -> Gaussians:
        """The Gaussians of several parts, one after another."""
        return cls(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def averaged(several: Sequence[Gaussians]) -> Gaussians:
    """The mean of several Gaussians of each image: of their means, and of their log-variances."""
    if len(several) == 1:
        return several[0]
    return Gaussians(*(torch.stack(columns).mean(0) for columns in zip(*several, strict=True)))


def sample(gaussians: Gaussians, samples: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw z = μ + σ·ε, ε ~ N(0, I), so that gradients reach μ and σ (equation 7): (T, N, D)."""
    noise = torch.randn(
        (samples, *gaussians.mean.shape),
        generator=generator,
        dtype=gaussians.mean.dtype,
        device=gaussians.mean.device,
    )
    return gaussians.mean + gaussians.deviation * noise


def wasserstein_distance(first: Gaussians, second: Gaussians) -> Tensor:
    """The 2-Wasserstein distance √(‖μ₁ − μ₂‖² + ‖σ₁ − σ₂‖²) of paired rows (equation 6): (N,).

    Equation 6 with σ the standard deviations, which makes it the true distance. Its gradient at distance zero, where
    the square root has none, is taken as zero.

    >>> one = Gaussians(torch.tensor([[0.0, 0.0]]), torch.zeros(1, 2))
    >>> two = Gaussians(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
    >>> wasserstein_distance(one, two)
    tensor([5.])
    """
    squared = (first.mean - second.mean).square().sum(-1) + (first.deviation - second.deviation).square().sum(-1)
    apart = squared > 0
    return torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)


def dispersion_degree(log_variance: Tensor) -> Tensor:
    """How widely an image is perceived: √Σⱼ|Σⱼⱼ| (equation 3, as printed): (N,).

    Computed on the log scale, so that no variance is too small or too large.

    >>> dispersion_degree(torch.log(torch.tensor([[9.0, 16.0]])))
    tensor([5.])
    """
    return (0.5 * log_variance.logsumexp(-1)).exp()


def rectified_mean(mean: Tensor, variance: Tensor) -> Tensor:
    """E[max(0, h)] of h ~ N(m, s²): m·Φ(m/s) + s·φ(m/s), elementwise."""
    deviation = variance.clamp_min(1e-12).sqrt()
    z = mean / deviation
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    found: Tensor = mean * torch.special.ndtr(z) + deviation * density
    return found
