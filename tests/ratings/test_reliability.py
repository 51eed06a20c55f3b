"""Reliabilities against explicit loops, dummy-variable least squares and textbook numbers."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from examples import examples
from simulated import NAN, SHROUT_FLEISS, as_ratings, gappy, simulate
from uol.errors import CallError, UolError
from uol.ratings import reliability as module
from uol.ratings.reliability import (
    icc,
    krippendorff_alpha,
    krippendorff_alpha_from_counts,
    one_way_from_moments,
    one_way_icc_from_counts,
    rater_table,
    reliability,
    spearman_brown,
    split_half,
    split_half_from_counts,
)

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": 12 units, 4 observers, as units × observers.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


def test_icc_of_shrout_and_fleiss() -> None:
    result = icc(SHROUT_FLEISS)
    assert round(result.single, 2) == 0.29
    assert round(result.average, 2) == 0.62
    assert result.raters_per_image == 4


def shrout_fleiss(matrix: np.ndarray) -> tuple[float, float]:
    n, k = matrix.shape
    rows, columns, grand = matrix.mean(1, keepdims=True), matrix.mean(0, keepdims=True), matrix.mean()
    between = k * np.sum((rows - grand) ** 2) / (n - 1)
    judges = n * np.sum((columns - grand) ** 2) / (k - 1)
    error = np.sum((matrix - rows - columns + grand) ** 2) / ((n - 1) * (k - 1))
    return (
        (between - error) / (between + (k - 1) * error + k * (judges - error) / n),
        (between - error) / (between + (judges - error) / n),
    )


@pytest.mark.parametrize("shape", [(6, 4), (4, 9), (30, 2), (2, 5)])
def test_icc_without_gaps_is_the_mean_squares_formula(shape: tuple[int, int]) -> None:
    matrix = simulate(*shape, gaps=0, seed=2, variances=(2.0, 1.0, 0.2))
    result = icc(matrix)
    assert (result.single, result.average) == pytest.approx(shrout_fleiss(matrix), rel=1e-10)


def henderson(matrix: np.ndarray) -> tuple[float, float, float] | None:
    """Henderson's third method the long way: dummy variables, projections, and traces for the expectations."""
    rows, columns = np.nonzero(~np.isnan(matrix))
    y = matrix[rows, columns]
    image = (rows[:, None] == np.unique(rows)).astype(float)
    rater = (columns[:, None] == np.unique(columns)).astype(float)

    def leftover(design: np.ndarray) -> np.ndarray:
        return np.eye(len(y)) - design @ np.linalg.pinv(design)

    without_rater, without_image = leftover(rater), leftover(image)
    without_both = leftover(np.hstack([image, rater]))
    freedom = round(np.trace(without_both))
    if freedom == 0:
        return None
    residual = y @ without_both @ y / freedom

    def component(factor: np.ndarray, without_other: np.ndarray) -> float:
        reduction = without_other - without_both
        return (y @ reduction @ y - np.trace(reduction) * residual) / np.trace(factor.T @ reduction @ factor)

    return max(0, component(image, without_rater)), max(0, component(rater, without_image)), residual


@given(gappy())
@settings(max_examples=examples(80), deadline=None)
def test_icc_with_gaps_is_henderson_with_dummy_variables(matrix: np.ndarray) -> None:
    result, expected = icc(matrix), henderson(matrix)
    if expected is None:
        assert np.isnan([result.single, result.average, result.image_variance]).all()
        return
    np.testing.assert_allclose(result[3:], expected, atol=1e-9)
    image, rater, residual = expected
    panel = 1 / np.mean(1 / np.sum(~np.isnan(matrix), axis=1))
    assert result.raters_per_image == pytest.approx(panel)
    if image + rater + residual < 1e-9:
        assert math.isnan(result.single)
    else:
        assert result.single == pytest.approx(image / (image + rater + residual), abs=1e-8)
        assert result.average == pytest.approx(image / (image + (rater + residual) / panel), abs=1e-8)


def test_icc_of_sets_that_share_no_rating() -> None:
    matrix = np.full((7, 6), np.nan)
    matrix[:4, :2] = simulate(4, 2, 0, 1, (1.0, 1.0, 0.1))
    matrix[4:, 2:] = 50 + simulate(3, 4, 0, 2, (1.0, 1.0, 0.1))
    np.testing.assert_allclose(icc(matrix)[3:], henderson(matrix), atol=1e-9)


def test_icc_with_gaps_finds_the_simulated_components() -> None:
    variances = (1.0, 0.3, 0.5)
    whole = simulate(600, 80, gaps=0, seed=3, variances=variances)
    gaps = np.where(np.random.default_rng(4).random(whole.shape) < 0.7, np.nan, whole)
    assert icc(gaps).single == pytest.approx(icc(whole).single, abs=0.02)
    np.testing.assert_allclose(icc(gaps)[3:], variances, atol=0.1)
    assert icc(whole).average > icc(gaps).average > icc(gaps).single


def test_icc_does_not_blame_images_for_who_rated_them() -> None:
    """Lenient raters saw other images than strict ones: means alone would take leniency for beauty."""
    matrix = simulate(300, 40, gaps=0, seed=5, variances=(0.05, 2.0, 0.2))
    order = np.argsort(matrix.mean(axis=0))
    matrix = matrix[:, order]
    for row in range(300):
        seen = np.arange(row // 10, row // 10 + 11)
        matrix[row, np.setdiff1d(np.arange(40), seen)] = np.nan
    assert icc(matrix).image_variance == pytest.approx(0.05, abs=0.02)
    assert np.nanvar(np.nanmean(matrix, axis=1)) > 1


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1.0, 2.0, 3.0]]),
        np.array([[1.0], [2.0], [3.0]]),
        np.array([[1.0]]),
        np.full((4, 3), 0.1),
        np.array([[1.0, 2.0, NAN], [NAN, 3.0, 4.0]]),
        np.full((2, 2), NAN),
        np.block([[np.full((2, 2), 1.1), np.full((2, 2), NAN)], [np.full((2, 2), NAN), np.full((2, 2), 3.3)]]),
    ],
)
def test_icc_undefined(matrix: np.ndarray) -> None:
    result = icc(matrix)
    assert math.isnan(result.single)
    assert math.isnan(result.average)


def test_icc_of_perfect_agreement_and_of_none() -> None:
    same = np.tile(np.array([[1.0], [2.0], [4.0]]), 5)
    assert icc(same).single == pytest.approx(1)
    opposite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert icc(opposite).single == 0


def test_icc_ignores_idle_raters_and_unrated_images() -> None:
    padded = np.full((8, 6), np.nan)
    padded[1:7, 1:5] = SHROUT_FLEISS
    assert icc(padded) == pytest.approx(icc(SHROUT_FLEISS))


# --- Krippendorff's alpha --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_alpha_of_krippendorff(level: str, published: float) -> None:
    assert round(krippendorff_alpha(KRIPPENDORFF, level), 3) == published
    counts = [[np.sum(row == value) for value in range(1, 6)] for row in KRIPPENDORFF]
    assert round(krippendorff_alpha_from_counts(counts, range(1, 6), level), 3) == published
    backwards = np.array(counts)[:, ::-1]
    assert round(krippendorff_alpha_from_counts(backwards, range(5, 0, -1), level), 3) == published


def test_alpha_of_many_different_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    slider = simulate(20, 6, gaps=0.4, seed=6, variances=(1.0, 0.2, 0.5))
    through_package = krippendorff_alpha(slider)
    monkeypatch.setattr(module, "_MAX_COINCIDENCE_CELLS", 100)
    assert krippendorff_alpha(slider) == pytest.approx(through_package, rel=1e-12)
    with pytest.raises(UolError, match=r"ordinal alpha of .* does not fit in memory"):
        krippendorff_alpha(slider, "ordinal")


@pytest.mark.parametrize(
    "matrix", [np.full((3, 3), 2.0), np.array([[1.0], [2.0]]), np.array([[1.0, NAN], [NAN, 2.0]]), np.empty((0, 0))]
)
def test_alpha_undefined(matrix: np.ndarray) -> None:
    assert math.isnan(krippendorff_alpha(matrix))


def test_alpha_of_an_unknown_level() -> None:
    with pytest.raises(CallError, match="nominal, ordinal, interval, ratio"):
        krippendorff_alpha(KRIPPENDORFF, "cardinal")


# --- split halves ----------------------------------------------------------------------------------------------------


def test_split_half_is_the_loop_over_draws() -> None:
    matrix = simulate(25, 7, gaps=0.5, seed=7, variances=(1.0, 0.3, 0.5))
    matrix = matrix[~np.isnan(matrix).all(axis=1)]
    rng = np.random.default_rng(11)
    shuffles = rng.random((20, 7)).argsort(axis=1)
    correlations = []
    for shuffle in shuffles:
        halves: tuple[list[float], list[float]] = ([], [])
        for row in matrix:
            parts = [
                [value for value, place in zip(row, shuffle, strict=True) if (place < 3) == first and value == value]
                for first in (True, False)
            ]
            if all(parts):
                for half, part in zip(halves, parts, strict=True):
                    half.append(float(np.mean(part)))
        correlations.append(np.corrcoef(halves)[0, 1])
    result = split_half(matrix, draws=20, seed=11)
    assert result.correlation == pytest.approx(np.mean(correlations), rel=1e-12)
    assert result.spearman_brown == pytest.approx(2 * np.mean(correlations) / (1 + np.mean(correlations)))
    assert result.draws == 20


def test_split_half_foretells_the_agreement_of_two_whole_panels() -> None:
    matrix = simulate(2000, 40, gaps=0, seed=8, variances=(1.0, 0.3, 4.0))
    two_panels = np.corrcoef(matrix[:, :20].mean(axis=1), matrix[:, 20:].mean(axis=1))[0, 1]
    assert split_half(matrix[:, :20]).spearman_brown == pytest.approx(two_panels, abs=0.02)
    assert two_panels == pytest.approx(1 / (1 + 4 / 20), abs=0.02)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1.0], [2.0], [3.0]]),
        np.array([[1.0, 2.0], [3.0, 1.0]]),
        np.full((5, 4), 0.1),
        np.tile(np.array([[0.3, -0.3, 0.1, -0.1]]), (5, 1)),
        np.full((2, 2), NAN),
        np.empty((0, 0)),
    ],
)
def test_split_half_undefined(matrix: np.ndarray) -> None:
    result = split_half(matrix)
    assert math.isnan(result.correlation)
    assert math.isnan(result.spearman_brown)


def test_split_half_of_two_opposed_raters() -> None:
    result = split_half(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]))
    assert result.correlation == pytest.approx(-1)
    assert math.isnan(result.spearman_brown)


@pytest.mark.parametrize(
    ("correlation", "whole"),
    [(1, 1), (0.5, 2 / 3), (0, 0), (-0.2, -0.5), (-1 / 3 - 1e-12, -1), (-0.34, NAN), (-1 + 1e-15, NAN), (-1, NAN)],
)
def test_spearman_brown_is_a_correlation_or_nothing(correlation: float, whole: float) -> None:
    assert spearman_brown(correlation) == pytest.approx(whole, nan_ok=True)


def test_split_half_needs_a_draw() -> None:
    with pytest.raises(CallError, match="at least one draw"):
        split_half(SHROUT_FLEISS, draws=0)
    with pytest.raises(CallError, match="at least one draw"):
        split_half_from_counts([[1, 2]], [1, 2], draws=0)


def whole_ratings(images: int, raters: int, seed: int, rater_variance: float = 0.0) -> np.ndarray:
    return np.clip(np.rint(simulate(images, raters, 0, seed, (0.7, rater_variance, 0.5))), 1, 5)


def test_split_half_from_counts_is_that_of_shuffled_ratings() -> None:
    """Halving each image's ratings at random is what an explicit shuffle of every row does."""
    matrix = whole_ratings(150, 9, seed=9)
    rng = np.random.default_rng(0)
    explicit = []
    for _ in range(100):
        shuffled = rng.permuted(matrix, axis=1)
        explicit.append(np.corrcoef(shuffled[:, :4].mean(axis=1), shuffled[:, 4:].mean(axis=1))[0, 1])
    counts = as_ratings(matrix).histogram(range(1, 6))
    result = split_half_from_counts(counts, range(1, 6), draws=100, seed=1)
    assert result.correlation == pytest.approx(np.mean(explicit), abs=0.01)
    assert result.correlation == pytest.approx(split_half(matrix).correlation, abs=0.03)  # no leniency in this panel
    assert split_half_from_counts(counts, range(1, 6), seed=1) == result


def test_split_half_from_counts_skips_images_with_one_rating() -> None:
    counts = [[2, 0, 0], [0, 2, 0], [0, 0, 2], [1, 0, 0], [0, 0, 0]]
    assert split_half_from_counts(counts, [1, 2, 3]).correlation == pytest.approx(1)
    assert math.isnan(split_half_from_counts([[1, 0], [0, 1], [1, 0]], [1, 2]).correlation)


@pytest.mark.parametrize(
    ("counts", "levels", "message"),
    [
        ([[1, 2]], [1, 2, 3], "do not fit 3 levels"),
        ([1, 2], [1, 2], "do not fit 2 levels"),
        ([[1, -2]], [1, 2], "from 0 up"),
        ([[1, NAN]], [1, 2], "from 0 up"),
        ([[1, 2]], [2, 2], "different finite numbers"),
        ([[1.5, 2]], [1, 2], "whole numbers"),
    ],
)
def test_counts_that_cannot_be_used(counts: object, levels: list[float], message: str) -> None:
    with pytest.raises(UolError, match=message):
        split_half_from_counts(counts, levels)  # type: ignore[arg-type]


# --- one-way ICC from counts -----------------------------------------------------------------------------------------


def test_one_way_icc_of_shrout_and_fleiss() -> None:
    counts = as_ratings(SHROUT_FLEISS).histogram(range(1, 11))
    result = one_way_icc_from_counts(counts, range(1, 11))
    assert round(result.single, 2) == 0.17
    assert round(result.average, 2) == 0.44
    assert math.isnan(result.rater_variance)


@given(gappy())
@settings(max_examples=examples(40), deadline=None)
def test_one_way_icc_is_the_analysis_of_variance(matrix: np.ndarray) -> None:
    rows = [row[~np.isnan(row)] for row in matrix]
    sizes = np.array([len(row) for row in rows])
    assume(len(rows) > 1 and sizes.max() > 1)
    together = np.concatenate(rows)
    assume(np.ptp(together) > 0)
    within = sum(np.sum((row - row.mean()) ** 2) for row in rows) / (len(together) - len(rows))
    between = sum(len(row) * (row.mean() - together.mean()) ** 2 for row in rows) / (len(rows) - 1)
    size = (sizes.sum() - np.sum(sizes**2) / sizes.sum()) / (len(rows) - 1)
    image = max(0, (between - within) / size)
    result = one_way_icc_from_counts(as_ratings(matrix).histogram(range(1, 6)), range(1, 6))
    assert result.image_variance == pytest.approx(image, abs=1e-9)
    assert result.residual_variance == pytest.approx(within, abs=1e-9)
    assert result.single == pytest.approx(image / (image + within), abs=1e-9)


@pytest.mark.parametrize("counts", [[[3, 2]], [[1, 0], [0, 1]], [[2, 0], [3, 0]], np.zeros((2, 2))])
def test_one_way_icc_undefined(counts: object) -> None:
    assert math.isnan(one_way_icc_from_counts(counts, [0.1, 0.3]).single)  # type: ignore[arg-type]


def test_moments_that_differ_by_rounding_say_nothing() -> None:
    result, alpha = one_way_from_moments([0.1 + 0.2, 0.3, 0.3], [0.0, 0.0, 0.0], [3, 5, 4])
    assert np.isnan([result.single, result.average, alpha]).all()
    result, alpha = one_way_from_moments([0.1 + 0.2, 0.3, 0.4], [0.0, 0.0, 0.0], [3, 5, 4])
    assert (result.single, alpha) == pytest.approx((1, 1))


# --- raters ----------------------------------------------------------------------------------------------------------


def test_leniency_is_apart_from_the_images_a_rater_saw() -> None:
    image, rater = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([-0.5, 0.2, 0.3])
    matrix = image[:, None] + rater
    matrix[3:, 1] = np.nan  # the second rater saw the worst images, the third the best
    matrix[:2, 2] = np.nan
    table = rater_table(as_ratings(matrix))
    np.testing.assert_allclose(table["leniency"], rater)
    assert list(table.index) == ["r0", "r1", "r2"]
    assert list(table.columns) == ["count", "leniency", "agreement", "spread"]


def test_agreement_count_and_spread_are_the_loops() -> None:
    matrix = simulate(15, 6, gaps=0.5, seed=12, variances=(1.0, 0.3, 0.5))
    matrix = matrix[~np.isnan(matrix).all(axis=1)]
    table = rater_table(as_ratings(matrix))
    for j in range(6):
        own, others = [], []
        for row in matrix:
            rest = [value for k, value in enumerate(row) if k != j and value == value]
            if row[j] == row[j] and rest:
                own.append(row[j])
                others.append(np.mean(rest))
        values = matrix[:, j][~np.isnan(matrix[:, j])]
        assert table["count"].iloc[j] == len(values)
        assert table["spread"].iloc[j] == pytest.approx(np.std(values, ddof=1))
        assert table["agreement"].iloc[j] == pytest.approx(np.corrcoef(own, others)[0, 1])


def test_rater_table_of_idle_brief_and_unvarying_raters() -> None:
    matrix = np.array([[1, 4, NAN, NAN, 1], [2, 4, 2, NAN, 2], [3, 4, 3, NAN, 4], [4, 4, NAN, NAN, 4]])
    table = rater_table(as_ratings(matrix))
    assert table["count"].tolist() == [4, 4, 2, 0, 4]
    assert np.isnan(table["agreement"]).tolist() == [False, True, True, True, False]
    assert np.isnan(table["leniency"]).tolist() == [False, False, False, True, False]
    assert table["spread"].iloc[1] == 0
    assert math.isnan(table["spread"].iloc[3])


# --- all together ----------------------------------------------------------------------------------------------------


def test_reliability_is_ready_for_json() -> None:
    whole = reliability(as_ratings(SHROUT_FLEISS))
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert whole["icc_2_1"] == pytest.approx(0.2898, abs=1e-4)
    assert whole["icc_2_k"] == pytest.approx(0.6201, abs=1e-4)
    assert None not in whole.values()
    one_rater = reliability(as_ratings(np.array([[1.0], [2.0]])))
    assert one_rater == {
        "icc_2_1": None,
        "icc_2_k": None,
        "raters_per_image": 1.0,
        "krippendorff_alpha": None,
        "split_half": None,
        "spearman_brown": None,
        "adjusted_pc": pytest.approx(1.0),
    }


@given(gappy(), st.floats(-100, 100), st.floats(0.1, 50))
@example(np.array([[NAN, 2, 4], [5, 2, 2]]), -10.0, 10 / 3)  # adjusted means are equal but for rounding, and then 0
@example(np.array([[3, 5, 1, NAN], [3, NAN, 3, NAN], [4, NAN, NAN, 1]]), 0.0, 3.0)  # halves correlate by −1
@settings(max_examples=examples(50), deadline=None)
def test_reliability_is_the_same_on_any_linear_scale(matrix: np.ndarray, shift: float, factor: float) -> None:
    ratings = as_ratings(matrix)
    before = reliability(ratings)
    after = reliability(ratings.mapped(lambda r: r * factor + shift))
    assert before == {name: pytest.approx(value, abs=1e-7) for name, value in after.items()}


@given(gappy(), st.randoms(use_true_random=False))
@settings(max_examples=examples(50), deadline=None)
def test_reliability_does_not_depend_on_the_order_of_raters_or_images(matrix: np.ndarray, random: object) -> None:
    rows, columns = (random.sample(range(n), n) for n in matrix.shape)  # type: ignore[attr-defined]
    shuffled = matrix[rows][:, columns]
    np.testing.assert_allclose(icc(shuffled), icc(matrix), atol=1e-9)
    np.testing.assert_allclose(krippendorff_alpha(shuffled), krippendorff_alpha(matrix), atol=1e-9)
    table, expected = rater_table(as_ratings(shuffled)), rater_table(as_ratings(matrix)).iloc[columns]
    np.testing.assert_allclose(table.to_numpy(), expected.to_numpy(), atol=1e-7)


def test_split_half_does_not_depend_on_the_order_of_raters_but_for_the_draws() -> None:
    matrix = simulate(100, 12, gaps=0.2, seed=13, variances=(1.0, 0.3, 0.5))
    assert split_half(matrix[:, ::-1]).correlation == pytest.approx(split_half(matrix).correlation, abs=0.01)


def test_reliability_grows_with_the_panel() -> None:
    matrix = simulate(200, 40, gaps=0, seed=14, variances=(1.0, 0.3, 2.0))
    panels = [reliability(as_ratings(matrix[:, :size])) for size in (5, 10, 20, 40)]
    for name in ("icc_2_k", "spearman_brown"):
        assert all(small[name] < large[name] for small, large in pairwise(panels))
