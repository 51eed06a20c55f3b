"""Leniency of raters and means adjusted for it: against dummy variables, and whoever rated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import examples
from simulated import SHROUT_FLEISS, as_ratings, gappy, simulate
from uol.ratings.rater_effects import adjusted_means, raters_leniency, unconnected_sets
from uol.ratings.reliability import icc, rater_table, reliability


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_leniency_is_that_of_dummy_variables(shape: tuple[int, int]) -> None:
    matrix = simulate(*shape, gaps=0.3, seed=10, variances=(1.0, 0.5, 0.5))
    rows, columns = np.nonzero(~np.isnan(matrix))
    design = np.hstack([rows[:, None] == np.arange(shape[0]), columns[:, None] == np.arange(shape[1])]).astype(float)
    effects = np.linalg.lstsq(design, matrix[rows, columns])[0][shape[0] :]
    np.testing.assert_allclose(rater_table(as_ratings(matrix))["leniency"], effects - effects.mean(), atol=1e-10)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_adjusted_means_are_the_images_effects_of_dummy_variables(shape: tuple[int, int]) -> None:
    matrix = simulate(*shape, gaps=0.3, seed=11, variances=(1.0, 0.5, 0.5))
    rows, columns = np.nonzero(~np.isnan(matrix))
    design = np.hstack([rows[:, None] == np.arange(shape[0]), columns[:, None] == np.arange(shape[1])]).astype(float)
    effects = np.linalg.lstsq(design, matrix[rows, columns])[0]
    expected = effects[: shape[0]] + effects[shape[0] :].mean()
    np.testing.assert_allclose(adjusted_means(as_ratings(matrix)), expected, atol=1e-10)


def test_adjusted_means_find_the_images_whoever_saw_them() -> None:
    image, rater = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([-3.0, 0.5, 2.5])
    matrix = np.hstack([image[:, None] + rater, np.full((5, 1), np.nan)])  # the last rater rated nothing
    matrix[3:, 2] = matrix[:2, 0] = np.nan  # the worst images had the most lenient raters
    ratings = as_ratings(matrix)
    assert ratings.mean[1] > ratings.mean[3]
    np.testing.assert_allclose(adjusted_means(ratings), image)
    assert reliability(ratings)["adjusted_pc"] == pytest.approx(np.corrcoef(ratings.mean, image)[0, 1])


def test_raters_that_no_image_connects_cannot_be_told_apart() -> None:
    matrix = np.full((4, 4), np.nan)
    matrix[:2, :2], matrix[2:, 2:] = [[1, 2], [2, 3]], [[6, 7], [7, 9]]
    ratings = as_ratings(matrix)
    assert unconnected_sets(ratings) == 2
    assert reliability(ratings)["adjusted_pc"] is None
    np.testing.assert_allclose(adjusted_means(ratings), ratings.mean)
    matrix[1, 3] = 4
    assert unconnected_sets(as_ratings(matrix)) == 1


@given(gappy(), st.integers(0, 20), st.floats(-5, 5))
@settings(max_examples=examples(50), deadline=None)
def test_a_rater_who_is_more_lenient_moves_no_image_against_another(matrix: np.ndarray, which: int, by: float) -> None:
    matrix = matrix[~np.isnan(matrix).all(axis=1)]
    moved = matrix.copy()
    moved[:, which % matrix.shape[1]] += by
    assume(unconnected_sets(as_ratings(matrix)) == 1)
    gap = adjusted_means(as_ratings(moved)) - adjusted_means(as_ratings(matrix))
    np.testing.assert_allclose(gap, gap[0], atol=1e-8 * (1 + np.nanmax(np.abs(matrix))))


def test_leniency_of_an_images_raters_is_learnt_from_known_images_alone() -> None:
    rng = np.random.default_rng(5)
    image, rater = rng.normal(size=30), rng.normal(size=8)
    matrix = image[:, None] + rater
    matrix[rng.random(matrix.shape) < 0.4] = np.nan
    matrix[:, 7] = np.nan
    matrix[0, 7] = 100.0  # who rated no known image says nothing, and counts as the raters' mean
    known = np.arange(10, 30)
    rated = ~np.isnan(matrix)
    learnt = np.append(rater[:7], rater[:7].mean())
    expected = np.array([learnt[who].mean() for who in rated])
    expected -= expected[known].mean()
    np.testing.assert_allclose(raters_leniency(as_ratings(matrix), known), expected, atol=1e-5)
    matrix[:10][rated[:10]] += rng.normal(size=int(rated[:10].sum()))
    np.testing.assert_allclose(raters_leniency(as_ratings(matrix), known), expected, atol=1e-5)


def test_what_a_network_says_and_leniency_are_what_the_raters_give() -> None:
    rng = np.random.default_rng(6)
    image, rater = rng.normal(size=200), np.append(np.full(4, 2.0), rng.normal(-1, 0.5, size=15))
    matrix = np.full((200, 19), np.nan)
    for row in range(200):  # three lenient raters, who rate nearly everything, and a severe one, who rates rarely
        who = [*rng.choice(4, 3, replace=False), 4 + rng.integers(15)]
        matrix[row, who] = image[row] + rater[who]
    known = np.arange(100)
    means = np.nanmean(matrix, axis=1)
    said = image + (means - image)[known].mean()  # a network has learnt what raters like these give
    np.testing.assert_allclose(said + raters_leniency(as_ratings(matrix), known), means, atol=1e-5)


@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_leniency_is_predicted_by_the_variances_of_ratings(shape: tuple[int, int]) -> None:
    matrix = simulate(*shape, gaps=0.4, seed=3, variances=(1.0, 0.3, 1.0))
    images, raters = shape
    found = icc(matrix)
    assert found.rater_variance > 0
    rows, columns = np.nonzero(~np.isnan(matrix))  # slowly: all ratings at once, images fixed, raters random
    y, design, random = matrix[rows, columns], np.eye(images)[rows], np.eye(raters)[columns]
    covariance = found.rater_variance * random @ random.T + found.residual_variance * np.eye(len(y))
    weight = np.linalg.inv(covariance)
    image = np.linalg.solve(design.T @ weight @ design, design.T @ weight @ y)
    leniency = found.rater_variance * random.T @ weight @ (y - design @ image)
    expected = np.array([leniency[~np.isnan(row)].mean() for row in matrix])
    ratings = as_ratings(matrix)
    np.testing.assert_allclose(raters_leniency(ratings, np.arange(images)), expected - expected.mean(), atol=1e-8)


def test_known_images_may_be_a_mask_and_count_once() -> None:
    matrix = simulate(40, 10, gaps=0.4, seed=8, variances=(1.0, 0.5, 1.0))
    expected = raters_leniency(as_ratings(matrix), np.arange(5, 40))
    for known in (np.arange(40) >= 5, [*range(5, 40), 7, 7], list(range(39, 4, -1))):
        np.testing.assert_array_equal(raters_leniency(as_ratings(matrix), known), expected)


def test_leniency_that_raters_do_not_have_is_none_or_little() -> None:
    for seed in range(5):
        alike = simulate(200, 60, gaps=0.95, seed=seed, variances=(1.0, 0.0, 1.0))
        alike = alike[(~np.isnan(alike)).any(axis=1)]
        effects = rater_table(as_ratings(alike))["leniency"]
        found = raters_leniency(as_ratings(alike), np.arange(len(alike)))
        assert found is None or np.abs(found).max() < 0.5 * np.abs(effects).max()


def test_leniency_says_nothing_where_all_have_the_same_raters_or_none_connects_them() -> None:
    everybody = np.arange(12.0).reshape(4, 3)
    assert raters_leniency(as_ratings(everybody), [0, 1]) is None
    apart = np.full((6, 4), np.nan)
    apart[:3, :2], apart[3:, 2:] = 3.0, 4.0
    assert raters_leniency(as_ratings(apart), [0, 1, 3, 4]) is None
    assert raters_leniency(as_ratings(apart), [0, 1]) is not None
    chain = np.full((3, 4), np.nan)
    for row in range(3):
        chain[row, row : row + 2] = 1.0, 2.0 + row
    assert raters_leniency(as_ratings(chain), [0, 1, 2]) is None  # what is a rater's, and what is chance?


def test_without_gaps_adjusted_means_are_the_means() -> None:
    ratings = as_ratings(SHROUT_FLEISS)
    np.testing.assert_allclose(adjusted_means(ratings), ratings.mean)
    assert reliability(ratings)["adjusted_pc"] == pytest.approx(1.0)
