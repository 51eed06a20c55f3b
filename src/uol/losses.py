"""The three losses of UOL and their sum: pure functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from uol.gaussians import DispersionForm, Gaussians, dispersion_degree, wasserstein_distance
from uol.order import TOLERANCE


class LossParts(NamedTuple):
    """The total and what it is made of, each a scalar."""

    total: Tensor
    order: Tensor
    ordinal: Tensor
    dispersion: Tensor


def order_target(difference: Tensor, threshold: float, error: Tensor) -> Tensor:
    """Probabilities of less, similar and greater for pairs whose mean scores differ by `difference`: (P,) → (P, 3).

    The means of a finite panel are uncertain: with `error` the standard error of the difference, the true one lies
    above θ with probability Φ((Δ − θ)/s) and below −θ with Φ((−Δ − θ)/s). An error of 0 gives the hard order of
    equation 1, where a difference of exactly θ is similar.
    """
    spread = error.clamp_min(TOLERANCE / 10)
    greater = torch.special.ndtr((difference - threshold - TOLERANCE) / spread)
    less = torch.special.ndtr((-difference - threshold - TOLERANCE) / spread)
    return torch.stack([less, 1 - less - greater, greater], -1)


def pair_balance(difference: Tensor, threshold: float) -> Tensor:
    """Weights that give the similar pairs a third of the whole, as balanced sampling would: (P,) → (P,)."""
    similar = (difference.abs() <= threshold + TOLERANCE).float()
    count = similar.sum()
    others = difference.numel() - count
    return similar / (3 * count.clamp_min(1)) + (1 - similar) * 2 / (3 * others.clamp_min(1))


def order_cross_entropy(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Cross entropy of the order, on logits averaged over the Monte Carlo samples (equations 8 and 9).

    logits (T, P, 3); target (P, 3) as probabilities, or (P,) as `Order` values; weight (P,) is 0 for empty places.
    The result is a weighted mean; without any pair it is zero.
    """
    loss = F.cross_entropy(logits.mean(0), target, reduction="none")
    return loss.mean() if weight is None else weighted_mean(loss, weight)


def ordinal_hinge(
    gaussians: Gaussians,
    anchor: Tensor,
    near: Tensor,
    far: Tensor,
    margin: float,
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of max(0, d(anchor, near) + τ − d(anchor, far)) over triplets of row indices (equation 5)."""
    to_near = wasserstein_distance(gaussians.rows(anchor), gaussians.rows(near))
    to_far = wasserstein_distance(gaussians.rows(anchor), gaussians.rows(far))
    loss = F.relu(to_near + margin - to_far)
    return loss.mean() if weight is None else weighted_mean(loss, weight)


def dispersion_divergence(
    log_variance: Tensor, rating_variance: Tensor, form: DispersionForm = "printed", eps: float = 1e-8
) -> Tensor:
    """KL divergence of the predicted degrees of dispersion from the raters' variances η (equation 4).

    Both are normalised to sum to one over the batch: as printed, the sum is unbounded below. Images whose rating
    variance is unknown (NaN) take no part; without any known variance the loss is zero.
    """
    known = torch.isfinite(rating_variance)
    truth = torch.where(known, rating_variance, 0.0)
    degree = torch.where(known, dispersion_degree(log_variance, form), 0.0)
    p = truth / truth.sum().clamp_min(eps)
    q = degree / degree.sum().clamp_min(eps)
    return (torch.xlogy(p, p) - torch.xlogy(p, q.clamp_min(eps))).sum()


def histogram_cross_entropy(logits: Tensor, share: Tensor) -> Tensor:
    """Cross entropy of predicted rating levels with the shares of the ratings, (M, L); NaN rows take no part."""
    known = torch.isfinite(share).all(-1)
    loss = F.cross_entropy(logits, torch.where(known[:, None], share, 0.0), reduction="none")
    return weighted_mean(loss, known.to(loss.dtype))


def uol_loss(order: Tensor, ordinal: Tensor, dispersion: Tensor, alpha: float, beta: float) -> LossParts:
    """L = L_order + α·L_ordinal + β·L_dispersion (equation 10)."""
    return LossParts(order + alpha * ordinal + beta * dispersion, order, ordinal, dispersion)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Σwv / Σw, and zero where all weights are zero."""
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1.0)
