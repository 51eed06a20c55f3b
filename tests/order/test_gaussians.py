"""Sampling, distance and dispersion of diagonal Gaussians, recomputed the obvious way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from examples import examples
from uol.order.gaussians import Gaussians, dispersion_degree, rectified_mean, sample, wasserstein_distance


def random_gaussians(n=5, d=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean, log_variance = torch.randn((2, n, d), generator=generator, dtype=torch.float64)
    return Gaussians(mean, log_variance)


def test_samples_have_the_stated_mean_and_variance():
    gaussians = random_gaussians()
    points = sample(gaussians, 40_000, torch.Generator().manual_seed(1))
    assert points.shape == (40_000, 5, 4)
    assert torch.allclose(points.mean(0), gaussians.mean, atol=0.1)
    assert torch.allclose(points.var(0) / gaussians.variance, torch.ones(5, 4, dtype=torch.float64), atol=0.05)


def test_sampling_is_seeded_and_points_have_no_spread():
    gaussians = random_gaussians()
    first, second = (sample(gaussians, 3, torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(first, second)
    point = Gaussians(gaussians.mean, torch.full_like(gaussians.mean, -math.inf))
    assert torch.equal(sample(point, 3), point.mean.expand(3, -1, -1))


def test_gradients_reach_mean_and_variance():
    gaussians = random_gaussians()
    inputs = [part.clone().requires_grad_() for part in gaussians]
    assert gradcheck(lambda m, v: sample(Gaussians(m, v), 2, torch.Generator().manual_seed(0)), inputs)


def test_distance_equals_the_sum_by_hand():
    a, b = random_gaussians(seed=1), random_gaussians(seed=2)
    for n, distance in enumerate(wasserstein_distance(a, b)):
        by_hand = sum(
            float(a.mean[n, j] - b.mean[n, j]) ** 2
            + (math.exp(a.log_variance[n, j] / 2) - math.exp(b.log_variance[n, j] / 2)) ** 2
            for j in range(4)
        )
        assert float(distance) == pytest.approx(math.sqrt(by_hand))


def test_distance_is_a_metric_with_a_gradient():
    a, b, c = (random_gaussians(seed=seed) for seed in (1, 2, 3))
    assert torch.equal(wasserstein_distance(a, b), wasserstein_distance(b, a))
    assert (wasserstein_distance(a, c) <= wasserstein_distance(a, b) + wasserstein_distance(b, c)).all()
    inputs = [part.clone().requires_grad_() for part in (*a, *b)]
    assert gradcheck(lambda m, v, n, w: wasserstein_distance(Gaussians(m, v), Gaussians(n, w)), inputs)


def test_distance_to_itself_is_zero_with_zero_gradient():
    mean = torch.randn(3, 4, requires_grad=True)
    gaussians = Gaussians(mean, torch.zeros(3, 4))
    distance = wasserstein_distance(gaussians, gaussians)
    distance.sum().backward()
    assert torch.equal(distance, torch.zeros(3))
    assert torch.equal(mean.grad, torch.zeros(3, 4))


def test_degrees_of_dispersion():
    log_variance = torch.tensor([[0.0, math.log(3.0)], [math.log(0.5), math.log(0.25)]], dtype=torch.float64)
    assert torch.allclose(dispersion_degree(log_variance), torch.tensor([2.0, math.sqrt(0.75)], dtype=torch.float64))


def test_degree_has_a_gradient_and_never_overflows():
    log_variance = random_gaussians().log_variance.requires_grad_()
    assert gradcheck(dispersion_degree, [log_variance])
    extreme = dispersion_degree(torch.tensor([[-300.0, -300.0], [80.0, 80.0]]))
    assert torch.isfinite(extreme).all()
    assert (dispersion_degree(torch.full((2, 3), -math.inf)) == 0).all()


def test_rows_can_be_picked():
    gaussians = random_gaussians()
    picked = gaussians.rows(torch.tensor([3, 1]))
    assert isinstance(picked, Gaussians)
    assert torch.equal(picked.mean, gaussians.mean[[3, 1]])


@given(st.floats(-4, 4), st.floats(0, 3))
@settings(max_examples=examples(40), deadline=None)
def test_the_rectified_mean_is_what_integration_gives(mean, deviation):
    found = float(rectified_mean(torch.tensor(mean).double(), torch.tensor(deviation**2).double()))
    grid = np.linspace(-9, 9, 200_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    slow = float((np.maximum(mean + deviation * grid, 0) * density).sum() * (grid[1] - grid[0]))
    assert found == pytest.approx(slow, abs=1e-5)
