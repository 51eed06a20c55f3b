"""Thurstone's likelihood: gradients against differences, information against simulation's slow sum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.stats import norm

from uol.study.thurstone import _Layout, _Votes, fit_thurstone, normal_slope


def votes(seed=0, images=6, number=80, ties=True):
    rng = np.random.default_rng(seed)
    first = rng.integers(images, size=number)
    second = (first + rng.integers(1, images, size=number)) % images
    value = np.linspace(-1, 1, images)
    seen = value[first] - value[second] + rng.normal(size=number)
    outcome = np.where(seen > 0, 2, 0)
    if ties:
        outcome[np.abs(seen) < 0.4] = 1
    return first, second, outcome.astype(np.intp)


def slow_log_likelihood(parameters, first, second, outcome, dispersions, ties):
    images = 6
    delta = np.exp(parameters[images]) if ties else 0.0
    sigma = np.sqrt(0.5) * (np.exp(parameters[images + 1 :]) if dispersions else np.ones(images))
    total = 0.0
    for i, j, o in zip(first, second, outcome, strict=True):
        tau = np.hypot(sigma[i], sigma[j])
        d = parameters[i] - parameters[j]
        greater, less = norm.cdf((d - delta) / tau), norm.cdf((-d - delta) / tau)
        total += np.log([less, 1 - less - greater, greater][o])
    return total


@pytest.mark.parametrize("dispersions", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_likelihood_and_gradient_are_those_of_the_slow_sum(dispersions, ties):
    first, second, outcome = votes(ties=ties)
    layout = _Layout(6, dispersions, False)
    parameters = np.random.default_rng(1).normal(scale=0.4, size=layout.line.stop)

    def fast(x):
        found = _Votes(x, first, second, outcome, layout, ties)
        value, by_u, by_v = found.log_likelihood()
        return value, found.jacobian_u.T @ by_u + found.jacobian_v.T @ by_v

    assert fast(parameters)[0] == pytest.approx(
        slow_log_likelihood(parameters, first, second, outcome, dispersions, ties), rel=1e-9
    )
    assert check_grad(lambda x: fast(x)[0], lambda x: fast(x)[1], parameters) < 1e-4


@pytest.mark.parametrize("dispersions", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_information_is_the_mean_of_squared_gradients(dispersions, ties):
    first, second, outcome = votes(number=5, ties=True)
    layout = _Layout(6, dispersions, False)
    parameters = np.random.default_rng(2).normal(scale=0.4, size=layout.line.stop)
    expected = np.zeros((layout.line.stop, layout.line.stop))
    for place in range(len(first)):
        for result in (0, 1, 2) if ties else (0, 2):
            one = [np.array([part[place]]) for part in (first, second)]
            single = _Votes(parameters, *one, np.array([result]), layout, ties)
            log_p, by_u, by_v = single.log_likelihood()
            gradient = single.jacobian_u.T @ by_u + single.jacobian_v.T @ by_v
            expected += np.exp(log_p) * np.outer(gradient, gradient)
    found = _Votes(parameters, first, second, outcome, layout, ties).information()
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_fit_is_the_maximum_of_the_slow_likelihood():
    first, second, outcome = votes()
    found = fit_thurstone(first, second, outcome, 6, prior=1.5)

    def negative(x):
        return -slow_log_likelihood(x, first, second, outcome, False, True) + 0.5 * np.sum((x[:6] / 1.5) ** 2)

    slow = minimize(negative, np.r_[np.zeros(6), np.log(0.3)], method="BFGS")
    np.testing.assert_allclose(found.value, slow.x[:6] - slow.x[:6].mean(), atol=1e-3)
    assert found.delta == pytest.approx(np.exp(slow.x[6]), abs=1e-3)


@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_slopes_are_derivatives(delta):
    d, h = np.linspace(-3, 3, 13), 1e-5

    def log_p(x, outcome):
        greater, less = norm.cdf(x - delta), norm.cdf(-x - delta)
        return np.log([less, 1 - less - greater, greater][outcome])

    for outcome in (0, 2) if delta == 0 else (0, 1, 2):
        slow = (log_p(d + h, outcome) - log_p(d - h, outcome)) / (2 * h)
        np.testing.assert_allclose(normal_slope(d, np.full(13, outcome), delta), slow, rtol=1e-4, atol=1e-6)


def test_slopes_stay_finite_far_out():
    d = np.array([-60.0, 60.0])
    for outcome in (0, 1, 2):
        assert np.isfinite(normal_slope(d, np.array([outcome, outcome]), 0.3)).all()
