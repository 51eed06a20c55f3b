"""The three losses of UOL and their sum, and those of the methods it is compared with: pure functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from uol.order.gaussians import Gaussians, dispersion_degree, wasserstein_distance
from uol.order.order import TOLERANCE
from uol.ratings.scale import Scale


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

    >>> order_target(torch.tensor([-1.0, 0.1, 1.0]), threshold=0.2, error=torch.zeros(3)).argmax(-1)
    tensor([0, 1, 2])
    """
    spread = error.clamp_min(TOLERANCE / 10)
    greater = torch.special.ndtr((difference - threshold - TOLERANCE) / spread)
    less = torch.special.ndtr((-difference - threshold - TOLERANCE) / spread)
    return torch.stack([less, 1 - less - greater, greater], -1)


def pair_balance(difference: Tensor, threshold: float, valid: Tensor) -> Tensor:
    """Weights that give the similar pairs a third of the whole, as balanced sampling would: (P,), (P,) → (P,).

    `valid` is 1 for pairs that take part and 0 for others, which have no weight and are not counted.
    """
    similar = (difference.abs() <= threshold + TOLERANCE).float() * valid
    count = similar.sum()
    others = valid.sum() - count
    return similar / (3 * count.clamp_min(1)) + (valid - similar) * 2 / (3 * others.clamp_min(1))


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


def dispersion_divergence(log_variance: Tensor, rating_variance: Tensor, eps: float = 1e-8) -> Tensor:
    """KL divergence of the predicted degrees of dispersion from the raters' variances η (equation 4).

    Both are normalised to sum to one over the batch: as printed, the sum is unbounded below. Images whose rating
    variance is unknown (NaN) take no part; without any known variance the loss is zero.
    """
    known = torch.isfinite(rating_variance)
    truth = torch.where(known, rating_variance, 0.0)
    degree = torch.where(known, dispersion_degree(log_variance), 0.0)
    p = truth / truth.sum().clamp_min(eps)
    q = degree / degree.sum().clamp_min(eps)
    return (torch.xlogy(p, p) - torch.xlogy(p, q.clamp_min(eps))).sum()


def histogram_cross_entropy(logits: Tensor, share: Tensor) -> Tensor:
    """Cross entropy of predicted rating levels with the shares of the ratings, (M, L); NaN rows take no part."""
    known = torch.isfinite(share).all(-1)
    loss = F.cross_entropy(logits, torch.where(known[:, None], share, 0.0), reduction="none")
    return weighted_mean(loss, known.to(loss.dtype))


def histogram_divergence(logits: Tensor, share: Tensor) -> Tensor:
    """KL divergence of predicted rating levels from the shares of the ratings, (M, L); NaN rows take no part."""
    known = torch.isfinite(share).all(-1)
    truth = torch.where(known[:, None], share, 0.0)
    negative_entropy = weighted_mean(torch.xlogy(truth, truth).sum(-1), known.to(truth.dtype))
    return negative_entropy + histogram_cross_entropy(logits, share)


def level_moments(logits: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of distributions over levels: (M, L), (L,) → (M,), (M,)."""
    probability = logits.softmax(-1)
    mean = (probability * levels).sum(-1)  # a matrix product would be taken in bfloat16 under autocast
    return mean, (probability * (levels - mean[:, None]).square()).sum(-1).sqrt()


def nearest_level(scores: Tensor, scale: Scale, levels: int) -> Tensor:
    """Which of equally spaced levels, the ends of the scale included, is nearest to each score: 0 … levels − 1."""
    # Counted from 1, so that on the scale of 1 to 5 a half goes where rounding the score itself takes it.
    place = 1 + (scores - scale.low) * ((levels - 1) / (scale.high - scale.low))
    return place.round().long().clamp(1, levels) - 1


def inverse_frequency(classes: Tensor, number: int) -> Tensor:
    """Weights of classes inverse to how often each occurs, 1 where all are as frequent; one unseen counts as once."""
    count = torch.bincount(classes, minlength=number).clamp_min(1)
    return len(classes) / (number * count)


def crnet_loss(score: Tensor, logits: Tensor, truth: Tensor, classes: Tensor) -> dict[str, Tensor]:
    """0.4 · cross entropy of the classes + 0.6 · squared error of the score, as CRNet weighs them."""
    entropy, error = F.cross_entropy(logits, classes), F.mse_loss(score, truth)
    return {"total": 0.4 * entropy + 0.6 * error, "score": error, "classes": entropy}


def combo_loss(
    score: Tensor, logits: Tensor, truth: Tensor, classes: Tensor, levels: Tensor, weight: Tensor
) -> dict[str, Tensor]:
    """2 · |score − truth| + |Σ pᵢ·levelᵢ − truth| + cross entropy weighted by class, as ComboLoss sums them."""
    error = F.l1_loss(score, truth)
    expectation = F.l1_loss(level_moments(logits, levels)[0], truth)
    entropy = F.cross_entropy(logits, classes, weight)
    total = 2 * error + expectation + entropy
    return {"total": total, "score": error, "expectation": expectation, "classes": entropy}


def ranking_hinge(rank: Tensor, truth: Tensor, gender: Tensor, margin: float = 3.0, furthest: float = 1.0) -> Tensor:
    """Mean of max(0, margin − y·r) over ordered pairs of one gender whose scores differ, at most by `furthest`.

    rank (M, M) is r; y is the sign of the difference of truth (M,); gender (M,) is −1 or +1, and 0, unknown, is as all.
    """
    difference = truth[:, None] - truth
    gap = difference.abs()
    counted = (gap > TOLERANCE) & (gap <= furthest + TOLERANCE) & (gender[:, None] * gender >= 0)
    return weighted_mean(F.relu(margin - difference.sign() * rank), counted.to(rank.dtype))


def huber(error: Tensor, delta: Tensor) -> Tensor:
    """Mean of ½n² where n = |error| < δ, and δ(n − ½δ) elsewhere."""
    n = error.abs()
    return torch.where(n < delta, n.square() / 2, delta * (n - delta / 2)).mean()


def smooth_l1(error: Tensor, beta: Tensor) -> Tensor:
    """Mean of ½n² where n = |error| < β, and n + ½β² − β elsewhere, as CNN-ER has it: steeper from β on."""
    n = error.abs()
    return torch.where(n < beta, n.square() / 2, n + beta.square() / 2 - beta).mean()


def tukey(error: Tensor, c: Tensor) -> Tensor:
    """Mean of (c²/6)(1 − (1 − (n/c)²)³) where n = |error| < c, and c²/6 elsewhere: no larger error pulls."""
    inside = 1 - (error / c).square().clamp_max(1)
    return (c.square() / 6 * (1 - inside**3)).mean()


def uol_loss(order: Tensor, ordinal: Tensor, dispersion: Tensor, alpha: float, beta: float) -> LossParts:
    """L = L_order + α·L_ordinal + β·L_dispersion (equation 10)."""
    return LossParts(order + alpha * ordinal + beta * dispersion, order, ordinal, dispersion)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Σwv / Σw, and zero where all weights are zero."""
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1.0)
