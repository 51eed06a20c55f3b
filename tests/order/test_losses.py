"""Each loss against the same sum written out with loops, and its gradient against finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from uol.order.gaussians import Gaussians, wasserstein_distance
from uol.order.losses import (
    dispersion_divergence,
    order_cross_entropy,
    order_target,
    ordinal_hinge,
    pair_balance,
    uol_loss,
)


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_cross_entropy_is_taken_of_mean_logits():
    logits, target = seeded(4, 6, 3), torch.tensor([0, 1, 2, 2, 1, 0])
    total = 0.0
    for p in range(6):
        mean = [sum(float(logits[t, p, c]) for t in range(4)) / 4 for c in range(3)]
        total -= mean[target[p]] - math.log(sum(math.exp(value) for value in mean))
    assert float(order_cross_entropy(logits, target)) == pytest.approx(total / 6)


def test_cross_entropy_leaves_empty_places_out():
    logits, target = seeded(2, 5, 3), torch.tensor([0, 1, 2, 0, 0])
    weight = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    assert torch.allclose(order_cross_entropy(logits, target, weight), order_cross_entropy(logits[:, :3], target[:3]))
    assert float(order_cross_entropy(logits, target, torch.zeros(5, dtype=torch.float64))) == 0


def test_cross_entropy_with_probabilities_generalises_labels():
    logits, target = seeded(3, 4, 3), torch.tensor([0, 1, 2, 1])
    one_hot = torch.eye(3, dtype=torch.float64)[target]
    assert torch.allclose(order_cross_entropy(logits, one_hot), order_cross_entropy(logits, target))


def test_hinge_equals_the_loop():
    gaussians = Gaussians(seeded(6, 3), seeded(6, 3) * 0.3)
    triplets = torch.tensor([[0, 1, 2], [3, 4, 5], [2, 0, 4], [5, 1, 0]])
    anchor, near, far = triplets.T

    def distance(i, j):
        return float(wasserstein_distance(gaussians.rows([i]), gaussians.rows([j]))[0])

    by_hand = [max(0.0, distance(a, m) + 0.7 - distance(a, n)) for a, m, n in triplets.tolist()]
    assert float(ordinal_hinge(gaussians, anchor, near, far, 0.7)) == pytest.approx(sum(by_hand) / 4)
    weight = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    assert float(ordinal_hinge(gaussians, anchor, near, far, 0.7, weight)) == pytest.approx(
        (by_hand[0] + by_hand[2]) / 2
    )
    assert float(ordinal_hinge(gaussians, anchor, near, far, 0.7, 0 * weight)) == 0


def test_divergence_is_that_of_normalised_degrees():
    log_variance, variance = seeded(5, 4), torch.tensor([0.2, 0.5, 0.1, 0.4, 0.9], dtype=torch.float64)
    degree = [math.sqrt(sum(math.exp(value) for value in row)) for row in log_variance.tolist()]
    p = [v / float(variance.sum()) for v in variance.tolist()]
    q = [d / sum(degree) for d in degree]
    by_hand = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert float(dispersion_divergence(log_variance, variance)) == pytest.approx(by_hand)


def test_divergence_is_zero_where_proportional_and_positive_elsewhere():
    log_variance = seeded(5, 4)
    degree = log_variance.exp().sum(-1).sqrt()
    assert float(dispersion_divergence(log_variance, 3 * degree)) == pytest.approx(0, abs=1e-12)
    assert float(dispersion_divergence(log_variance, degree**2)) > 0


def test_divergence_passes_over_unknown_and_takes_zero_variances():
    log_variance, nan = seeded(4, 3).requires_grad_(), float("nan")
    some = torch.tensor([0.3, nan, 0.6, nan], dtype=torch.float64)
    loss = dispersion_divergence(log_variance, some)
    loss.backward()
    assert torch.allclose(loss, dispersion_divergence(log_variance[[0, 2]], some[[0, 2]]))
    assert torch.isfinite(log_variance.grad).all()
    log_variance = log_variance.detach()
    assert float(dispersion_divergence(log_variance, torch.full((4,), nan, dtype=torch.float64))) == 0
    assert math.isfinite(float(dispersion_divergence(log_variance, torch.tensor([0.0, 0.1, 0.2, 0.0]).double())))
    assert float(dispersion_divergence(log_variance, torch.zeros(4, dtype=torch.float64))) == 0


def test_gradients():
    mean, log_variance = seeded(5, 3).requires_grad_(), (0.3 * seeded(5, 3)).requires_grad_()
    anchor, near, far = torch.tensor([[0, 1, 2], [3, 4, 0], [2, 4, 1]]).T
    variance = torch.tensor([0.2, 0.5, 0.1, 0.4, 0.9], dtype=torch.float64)
    logits, target = seeded(2, 4, 3).requires_grad_(), torch.tensor([0, 1, 2, 1])
    assert gradcheck(lambda m, v: ordinal_hinge(Gaussians(m, v), anchor, near, far, 2.0), [mean, log_variance])
    assert gradcheck(lambda v: dispersion_divergence(v, variance), [log_variance])
    assert gradcheck(lambda x: order_cross_entropy(x, target), [logits])


def test_total():
    order, ordinal, dispersion = torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)
    parts = uol_loss(order, ordinal, dispersion, alpha=0.1, beta=0.01)
    assert float(parts.total) == pytest.approx(1.23)
    assert parts._fields == ("total", "order", "ordinal", "dispersion")


def test_targets_are_the_probabilities_that_true_means_differ_by_more_than_the_threshold():
    difference = torch.tensor([-0.5, -0.1, 0.0, 0.15, 0.4], dtype=torch.float64)
    error = torch.tensor([0.1, 0.2, 0.05, 0.3, 0.15], dtype=torch.float64)

    def above(gap, spread):
        return 0.5 * (1 + math.erf(gap / spread / math.sqrt(2)))

    by_hand = []
    for gap, spread in zip(difference.tolist(), error.tolist(), strict=True):
        less, greater = above(-gap - 0.2, spread), above(gap - 0.2, spread)
        by_hand.append([less, 1 - less - greater, greater])
    found = order_target(difference, 0.2, error)
    assert torch.allclose(found, torch.tensor(by_hand, dtype=torch.float64), atol=1e-3)
    hard = order_target(torch.tensor([-0.3, -0.2, 0.2, 0.3]), 0.2, torch.zeros(4))
    assert hard.round().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_balance_gives_similar_pairs_a_third_and_the_others_two():
    difference = torch.tensor([0.1, -0.2, 0.5, -0.6, 0.7, 0.0])
    valid = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    weight = pair_balance(difference, 0.2, valid)
    assert weight.tolist() == pytest.approx([1 / 6, 1 / 6, 2 / 9, 2 / 9, 2 / 9, 0])
