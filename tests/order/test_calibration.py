"""Calibrated intervals hold what they state, on errors of several kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from uol.order.calibration import NEW_PANEL, NORMAL_95, Calibration, _spread, calibrate


def simulate(n, seed, floor=0.2, scale=3.0, slope=1.1, intercept=-0.3, heavy=False):
    """Raw scores whose errors have variance (scale · standard error)² + floor²."""
    rng = np.random.default_rng(seed)
    raw, error = rng.uniform(1, 5, n), rng.uniform(0.03, 0.12, n)
    noise = rng.standard_t(4, n) / np.sqrt(2) if heavy else rng.standard_normal(n)
    return intercept + slope * raw + noise * np.hypot(scale * error, floor), raw, error


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("floor", "scale"), [(0.2, 3.0), (0.3, 0.0), (0.02, 4.0)])
def test_intervals_cover_new_images(floor, scale, heavy):
    calibration = calibrate(*simulate(2000, 0, floor, scale, heavy=heavy))
    truth, raw, error = simulate(20_000, 1, floor, scale, heavy=heavy)
    value, half = calibration.intercept + calibration.slope * raw, calibration.half_width(error)
    assert (np.abs(truth - value) <= half).mean() == pytest.approx(0.95, abs=0.015)


def test_the_line_and_the_spread_are_found():
    calibration = calibrate(*simulate(20_000, 2))
    assert calibration.slope == pytest.approx(1.1, abs=0.02)
    assert calibration.intercept == pytest.approx(-0.3, abs=0.05)
    assert calibration.scale == pytest.approx(3.0, rel=0.1)
    assert calibration.floor == pytest.approx(0.2, rel=0.1)
    assert calibration.quantile == pytest.approx(1.96, abs=0.05)
    assert calibration.images == 20_000


def test_without_a_line_the_score_stays():
    calibration = calibrate(*simulate(500, 3), line=False)
    assert (calibration.slope, calibration.intercept) == (1, 0)
    assert calibration.value([2.5], (1, 5)) == pytest.approx([2.5])


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 10, 25, 35])
def test_few_images_give_wide_but_finite_intervals(n):
    held = []
    for seed in range(60):
        calibration = calibrate(*simulate(n, seed, slope=1.0, intercept=0.0))
        truth, raw, error = simulate(200, 1000 + seed, slope=1.0, intercept=0.0)
        value = calibration.intercept + calibration.slope * raw
        held.append((np.abs(truth - value) <= calibration.half_width(error)).mean())
    assert np.mean(held) > (0.85 if n == 2 else 0.92)


def test_a_line_never_turns_the_order_round():
    truth = np.linspace(1, 5, 60)
    turned = calibrate(truth, -truth, np.full(60, 0.1))
    assert turned.slope == 0.1
    assert turned.intercept + turned.slope * (-truth).mean() == pytest.approx(truth.mean())


def test_degenerate_errors():
    assert calibrate([3.0], [3.0], [0.1]).images == 0
    perfect = calibrate(np.linspace(1, 5, 50), np.linspace(1, 5, 50), np.full(50, 0.1))
    assert np.isfinite(perfect.half_width([0.1])).all()
    constant = calibrate(np.linspace(1, 5, 50), np.full(50, 3.0), np.full(50, 0.1))
    assert np.isfinite(constant.value([3.0], (1, 5))).all()


@pytest.mark.parametrize("none", [0.0, 0.3, 0.6, 0.9])
def test_the_spread_is_the_likeliest_where_many_standard_errors_are_nothing(none):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        error = rng.uniform(0.03, 0.3, 60) * (rng.random(60) >= none)
        residual = rng.standard_normal(60) * np.hypot(rng.uniform(0, 4) * error, rng.uniform(0.1, 0.5))

        def unlikely(spread, residual=residual, error=error):
            variance = (spread[0] * error) ** 2 + spread[1] ** 2
            return (np.log(variance) + residual**2 / variance).mean() / 2

        starts, bounds = [(0.1, 0.1), (0.1, 0.5), (1.0, 0.3), (4.0, 0.1)], [(0, 15), (0.02, 5)]
        theirs = min(scipy.optimize.minimize(unlikely, start, bounds=bounds).fun for start in starts)
        assert unlikely(_spread(residual, error)) <= theirs + 1e-6


def test_standard_errors_of_nothing_leave_intervals_of_one_width():
    truth, raw, _ = simulate(100, 4, floor=0.3, scale=0.0)
    found = calibrate(truth, raw, np.zeros(100))
    assert found.scale == 0
    assert found.half_width([0.0, 0.1]) == pytest.approx([1.96 * 0.3] * 2, rel=0.25)


def test_values_stay_inside_the_bounds():
    assert Calibration(slope=2.0).value([0.1, 2.0, 4.0], (1, 5)) == pytest.approx([1, 4, 5])


def test_dispersion_follows_the_ratings():
    degree = np.random.default_rng(0).uniform(1, 3, 300)
    calibration = Calibration().with_dispersion(degree, (0.4 * degree**1.5) ** 2)
    assert calibration.dispersion([1.0, 2.0]) == pytest.approx([0.4, 0.4 * 2**1.5])


def test_dispersion_without_knowledge_or_with_little():
    nan = np.full(5, np.nan)
    assert np.isnan(Calibration().dispersion([1.0])).all()
    points = Calibration().with_dispersion(np.zeros(50), np.full(50, 0.25))
    assert points.dispersion([0.0]) == pytest.approx([0.5])
    assert Calibration().with_dispersion(np.ones(5), nan) == Calibration()
    few = Calibration().with_dispersion(np.arange(1.0, 6), np.full(5, 0.25))
    assert few.dispersion([0.1, 10.0]) == pytest.approx([0.5, 0.5])


def test_a_line_from_as_many_images_as_are_enough():
    rng = np.random.default_rng(0)
    raw = rng.uniform(1, 10, 12)
    truth = 4 + 0.3 * raw + rng.normal(0, 0.05, 12)
    assert calibrate(truth, raw, np.ones(12)).slope == 1
    fitted = calibrate(truth, raw, np.ones(12), enough=10)
    assert fitted.slope == pytest.approx((12 * 0.3 + 2) / 14, abs=0.03)  # as if two more lay on a slope of one
    assert fitted.intercept + fitted.slope * raw.mean() == pytest.approx(truth.mean())


def test_a_temperature_makes_sure_comparisons_as_right_as_they_say():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(20_000, 3))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    order = (p.cumsum(1) > rng.uniform(size=(len(p), 1))).argmax(1)
    too_sure = np.exp(3 * logits) / np.exp(3 * logits).sum(1, keepdims=True)
    found = Calibration().with_comparisons(too_sure, order)
    assert found.temperature == pytest.approx(3, rel=0.05)
    assert np.allclose(found.comparison(too_sure), p, atol=0.02)
    assert Calibration().comparison(p) == pytest.approx(p)
    assert Calibration().with_comparisons(p[:5], order[:5]).temperature == 1


def test_softened_comparisons_still_sum_to_one_at_the_ends():
    found = Calibration(temperature=4.0).comparison([[0.0, 0.0, 1.0], [1e-320, 0.5, 0.5]])
    assert np.allclose(found.sum(1), 1)
    assert np.isfinite(found).all()


def test_applying_is_the_line_the_interval_and_the_dispersion_within_bounds():
    learnt = Calibration(
        intercept=0.5, slope=0.8, scale=2.0, floor=0.1, quantile=2.0, dispersion_intercept=-0.5, dispersion_slope=0.3
    )
    raw, error, degree = np.array([1.0, 3.0, 6.0]), np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 2.0])
    found = learnt.apply(raw, error, degree, (1, 5))
    for i in range(3):
        value = min(max(0.5 + 0.8 * raw[i], 1), 5)
        half = 2.0 * ((2.0 * error[i]) ** 2 + 0.1**2) ** 0.5
        assert found.value[i] == pytest.approx(value)
        assert (found.low[i], found.high[i]) == pytest.approx((max(value - half, 1), min(value + half, 5)))
        assert found.dispersion[i] == pytest.approx(np.exp(-0.5 + 0.3 * np.log(max(degree[i], 1e-12))))
    other = Calibration(images=9).with_dispersion_of(learnt)
    assert (other.images, other.dispersion_intercept, other.dispersion_slope) == (9, -0.5, 0.3)
    assert np.isnan(Calibration().apply(raw, error, degree, (1, 5)).dispersion).all()


def test_an_interval_for_a_new_panel_is_at_least_as_wide_as_the_floor_of_the_panels():
    near, far = Calibration(floor=0.1, quantile=2.0), Calibration(floor=1.5, quantile=2.5, scale=0.0)
    assert near.for_new_panel(1.0).half_width(0.3) == pytest.approx(1.959964 * NEW_PANEL)
    assert far.for_new_panel(1.0).half_width(0.3) == pytest.approx(2.5 * 1.5)
    assert near.for_new_panel(25.0).half_width(0.0) == pytest.approx(25 * 1.959964 * NEW_PANEL)


@pytest.mark.parametrize(("images", "line"), [(20, False), (20, True), (60, False), (60, True)])
def test_quantiles_by_hand(images, line):
    random = np.random.default_rng(images)
    raw = random.uniform(1, 5, images)
    truth = raw + random.normal(0, 0.3, images)
    found = calibrate(truth, raw, np.ones(images), line=line, enough=10)
    fitted = 4 if line else 2
    residual = truth - (found.intercept + found.slope * raw)
    standard = np.abs(residual) / math.hypot(found.scale, found.floor) * math.sqrt(images / (images - fitted))
    if images < 40:
        expected = scipy.stats.t.ppf(0.975, images - fitted) * math.sqrt((standard**2).mean())
    else:
        expected = sorted(standard)[math.ceil((images + 1) * 0.95) - 1]
    assert found.quantile == pytest.approx(expected)


def test_an_interval_for_a_new_panel_is_as_wide_on_every_scale():
    found = Calibration(scale=3.0, floor=0.1, quantile=1.0).for_new_panel(2.25)
    assert found.half_width([0.1, 0.9]) == pytest.approx([NORMAL_95 * NEW_PANEL * 2.25] * 2)
