"""The functions of `uol.ratings.numerics` against scipy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import optimize, special, stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from uol.ratings.numerics import (
    connected_sets,
    expit,
    least_between,
    log_expit,
    minimise,
    normal_quantile,
    student_quantile,
)


def test_logistic_functions_are_those_of_scipy_and_do_not_overflow():
    x = np.concatenate([np.linspace(-800, 800, 1601), np.linspace(-1, 1, 101), [np.nan, np.inf, -np.inf]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(expit(x), special.expit(x), rtol=1e-14, atol=1e-300)
        np.testing.assert_allclose(log_expit(x), special.log_expit(x), rtol=1e-14)


def test_quantiles_of_the_normal_are_those_of_scipy():
    p = np.concatenate([np.random.default_rng(0).random((10, 10)).ravel(), [0, 1, 1e-300, 1 - 1e-16, -1, 2, np.nan]])
    np.testing.assert_allclose(normal_quantile(p), special.ndtri(p), rtol=1e-12, atol=1e-15)
    assert normal_quantile(np.full((2, 3), 0.5)).shape == (2, 3)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.975, 0.9999])
def test_quantiles_of_student_are_those_of_scipy(p):
    freedom = np.array([[0, 1, 2, 3, 4, 5, 8], [9, 30, 59, 5499, 100_000, np.inf, np.nan]])
    np.testing.assert_allclose(student_quantile(freedom, p), special.stdtrit(freedom, p), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tail", [0.0228, 1e-6, 1e-12, 1e-15, 2**-53])
def test_quantiles_of_student_far_out_are_those_of_scipy(tail):
    freedom, p = np.array([1, 2, 3, 8, 59, 5499, np.inf]), 1 - tail
    np.testing.assert_allclose(student_quantile(freedom, p), stats.t.isf(1 - p, freedom), rtol=1e-9)


def test_a_quantile_of_student_below_the_median_is_refused():
    with pytest.raises(ValueError, match="p must be from 0.5"):
        student_quantile(3, 0.4)


@pytest.mark.parametrize(("count", "pairs"), [(1, 0), (6, 3), (200, 120), (3000, 2000)])
def test_connected_sets_are_those_of_scipy(count, pairs):
    first, second = np.random.default_rng(count).integers(0, count, (2, pairs))
    graph = coo_array((np.ones(pairs), (first, second)), shape=(count, count))
    np.testing.assert_array_equal(
        connected_sets(np.stack([first, second], 1), count), connected_components(graph, directed=False)[1]
    )


def test_a_long_chain_in_any_order_is_one_set():
    places = np.random.default_rng(0).permutation(50_000)
    assert connected_sets(np.stack([places[:-1], places[1:]], 1), 50_000).max() == 0


def test_minima_between_bounds_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        square, towards = rng.normal(size=(6, 4)), rng.normal(size=6)

        def slopes(x, square=square, towards=towards):
            away = square @ x - towards
            value = np.logaddexp(0, away).sum() + 0.1 * x @ x
            share = special.expit(away)
            hessian = square.T @ (square * (share * (1 - share))[:, None]) + 0.2 * np.eye(4)
            return float(value), square.T @ share + 0.2 * x, hessian

        low, high = np.full(4, -0.5), np.array([0.5, 0.5, np.inf, np.inf])
        ours = minimise(slopes, np.zeros(4), low, high)
        theirs = optimize.minimize(
            lambda x, slopes=slopes: slopes(x)[:2], np.zeros(4), jac=True, method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)), options={"ftol": 1e-15, "gtol": 1e-10},
        )  # fmt: skip
        np.testing.assert_allclose(ours, theirs.x, atol=1e-6)
        assert slopes(ours)[0] <= theirs.fun + 1e-12


def test_the_bottom_of_a_valley_is_found_also_at_its_end():
    assert least_between(lambda x: (x - 0.3) ** 2, -1, 2, 1e-4) == pytest.approx(0.3, abs=1e-4)
    assert least_between(lambda x: x, -1, 2, 1e-4) == pytest.approx(-1, abs=1e-4)
