"""The losses of the compared methods against the same sums written out with loops; gradients by finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from uol.order.losses import (
    combo_loss,
    crnet_loss,
    histogram_divergence,
    huber,
    inverse_frequency,
    level_moments,
    nearest_level,
    ranking_hinge,
    smooth_l1,
    tukey,
)
from uol.ratings.scale import Scale

NAN = float("nan")
SHARES = torch.tensor([[0.1, 0.2, 0.4, 0.3, 0.0], [NAN] * 5, [0.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
LEVELS = torch.arange(1.0, 6.0, dtype=torch.float64)
CLASSES = torch.tensor([0, 2, 4, 2])
WEIGHT = torch.tensor([3.0, 1.0, 0.5, 2.0, 4.0], dtype=torch.float64)


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def softmax(row):
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def test_histogram_divergence_is_the_mean_over_known_images():
    logits = seeded(3, 5)
    by_hand = [
        sum(p * math.log(p / q) for p, q in zip(SHARES[n].tolist(), softmax(logits[n].tolist()), strict=True) if p > 0)
        for n in (0, 2)
    ]
    assert float(histogram_divergence(logits, SHARES)) == pytest.approx(sum(by_hand) / 2)
    assert float(histogram_divergence(SHARES[:1].clamp_min(1e-300).log(), SHARES[:1])) == pytest.approx(0, abs=1e-12)
    assert float(histogram_divergence(logits, torch.full((3, 5), NAN, dtype=torch.float64))) == 0


def test_unknown_histograms_send_no_gradient():
    logits = seeded(3, 5).requires_grad_()
    histogram_divergence(logits, SHARES).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[1] == 0).all()
    assert (logits.grad[0] != 0).all()


def test_moments_of_a_distribution():
    logits = seeded(4, 5)
    mean, deviation = level_moments(logits, LEVELS)
    for n in range(4):
        shares = softmax(logits[n].tolist())
        expected = sum(p * level for p, level in zip(shares, LEVELS.tolist(), strict=True))
        square = sum(p * (level - expected) ** 2 for p, level in zip(shares, LEVELS.tolist(), strict=True))
        assert float(mean[n]) == pytest.approx(expected)
        assert float(deviation[n]) == pytest.approx(math.sqrt(square))


def test_the_nearest_level():
    scores = [1.0, 1.2, 1.5, 2.49, 2.5, 2.51, 3.5, 4.7, 5.0]
    assert nearest_level(torch.tensor(scores), Scale(1, 5), 5).tolist() == [round(score) - 1 for score in scores]
    wide = torch.tensor([1.0, 2.0, 2.2, 3.25, 5.5, 9.0, 10.0])  # levels 1, 3.25, 5.5, 7.75 and 10
    assert nearest_level(wide, Scale(1, 10), 5).tolist() == [0, 0, 1, 1, 2, 4, 4]


def test_rare_classes_weigh_more():
    weight = inverse_frequency(torch.tensor([0, 1, 1, 2, 2, 2, 2, 2]), 4)
    assert weight.tolist() == pytest.approx([2, 1, 0.4, 2])
    assert inverse_frequency(torch.arange(4), 4).tolist() == [1] * 4


def test_crnet_loss_equals_the_loop():
    score, truth, logits = seeded(4), 3 + seeded(2, 2).flatten(), seeded(4, 5)
    error = sum((a - b) ** 2 for a, b in zip(score.tolist(), truth.tolist(), strict=True)) / 4
    entropy = -sum(math.log(softmax(logits[n].tolist())[c]) for n, c in enumerate(CLASSES.tolist())) / 4
    losses = crnet_loss(score, logits, truth, CLASSES)
    assert float(losses["score"]) == pytest.approx(error)
    assert float(losses["classes"]) == pytest.approx(entropy)
    assert float(losses["total"]) == pytest.approx(0.4 * entropy + 0.6 * error)


def test_combo_loss_equals_the_loop():
    score, truth, logits = seeded(4), 3 + seeded(2, 2).flatten(), seeded(4, 5)
    error = expectation = entropy = weights = 0.0
    for n, c in enumerate(CLASSES.tolist()):
        shares, weight = softmax(logits[n].tolist()), float(WEIGHT[c])
        error += abs(float(score[n] - truth[n])) / 4
        expectation += abs(sum(p * (i + 1) for i, p in enumerate(shares)) - float(truth[n])) / 4
        entropy -= weight * math.log(shares[c])
        weights += weight
    losses = combo_loss(score, logits, truth, CLASSES, LEVELS, WEIGHT)
    assert float(losses["score"]) == pytest.approx(error)
    assert float(losses["expectation"]) == pytest.approx(expectation)
    assert float(losses["classes"]) == pytest.approx(entropy / weights)
    assert float(losses["total"]) == pytest.approx(2 * error + expectation + entropy / weights)


TRUTH = torch.tensor([1.0, 1.5, 2.5, 2.5, 4.0, 3.2], dtype=torch.float64)
GENDER = torch.tensor([-1.0, -1.0, 1.0, -1.0, 0.0, 1.0], dtype=torch.float64)


def test_ranking_hinge_equals_the_loop():
    rank = 3 * seeded(6, 6)
    terms = {}
    for a in range(6):
        for b in range(6):
            gap = float(TRUTH[a] - TRUTH[b])
            if 0 < abs(gap) <= 1 and (GENDER[a] == GENDER[b] or 0 in (GENDER[a], GENDER[b])):
                terms[a, b] = max(0.0, 3 - math.copysign(1, gap) * float(rank[a, b]))
    assert (1, 3) in terms  # a gap of exactly 1 counts
    assert (0, 1) in terms
    assert (4, 5) in terms  # an unknown gender is as all
    assert not {(2, 3), (1, 2), (0, 2), (0, 0)} & set(terms)
    assert float(ranking_hinge(rank, TRUTH, GENDER)) == pytest.approx(sum(terms.values()) / len(terms))
    everyone = torch.zeros(6, dtype=torch.float64)
    assert float(ranking_hinge(rank, TRUTH, everyone)) != float(ranking_hinge(rank, TRUTH, GENDER))
    assert float(ranking_hinge(rank, torch.ones(6, dtype=torch.float64), GENDER)) == 0


@pytest.mark.parametrize("parameter", [0.3, 0.7, 1.0, 2.0])
def test_robust_losses_equal_the_loop(parameter):
    error = torch.cat([2 * seeded(9), torch.tensor([0.0, parameter, -parameter], dtype=torch.float64)])
    at = torch.tensor(parameter, dtype=torch.float64)
    sums = dict.fromkeys((huber, smooth_l1, tukey), 0.0)
    for n in error.abs().tolist():
        near = n < parameter
        sums[huber] += n**2 / 2 if near else parameter * (n - parameter / 2)
        sums[smooth_l1] += n**2 / 2 if near else n + parameter**2 / 2 - parameter
        sums[tukey] += parameter**2 / 6 * (1 - (1 - (n / parameter) ** 2) ** 3 if near else 1)
    for loss, total in sums.items():
        assert float(loss(error, at)) == pytest.approx(total / 12)
        assert gradcheck(lambda x, loss=loss: loss(x, at), [(2 * seeded(9)).requires_grad_()])
    far = torch.tensor([parameter + 0.1], dtype=torch.float64, requires_grad=True)
    tukey(far, at).backward()
    assert float(far.grad) == 0


def test_gradients():
    score, truth, logits = seeded(4).requires_grad_(), 3 + seeded(2, 2).flatten(), seeded(4, 5).requires_grad_()
    assert gradcheck(lambda x: histogram_divergence(x, SHARES), [seeded(3, 5).requires_grad_()])
    assert gradcheck(lambda x: level_moments(x, LEVELS), [logits])
    assert gradcheck(lambda x: ranking_hinge(x, TRUTH, GENDER), [seeded(6, 6).requires_grad_()])
    assert gradcheck(lambda s, x: crnet_loss(s, x, truth, CLASSES)["total"], [score, logits])
    assert gradcheck(lambda s, x: combo_loss(s, x, truth, CLASSES, LEVELS, WEIGHT)["total"], [score, logits])
