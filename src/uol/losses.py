"""The three losses of UOL and their sum: pure functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from uol.gaussians import DispersionForm, Gaussians, dispersion_degree, wasserstein_distance


class LossParts(NamedTuple):
    """The total and what it is made of, each a scalar."""

    total: Tensor
    order: Tensor
    ordinal: Tensor
    dispersion: Tensor


def order_cross_entropy(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Cross entropy of the order, on logits averaged over the Monte Carlo samples (equations 8 and 9).

    logits (T, P, 3); target (P,) as `Order` values, or (P, 3) as probabilities; weight (P,) is 0 for empty places.
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


def uol_loss(order: Tensor, ordinal: Tensor, dispersion: Tensor, alpha: float, beta: float) -> LossParts:
    """L = L_order + α·L_ordinal + β·L_dispersion (equation 10)."""
    return LossParts(order + alpha * ordinal + beta * dispersion, order, ordinal, dispersion)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Σwv / Σw, and zero where all weights are zero."""
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1.0)
