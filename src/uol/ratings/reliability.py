"""How far raters agree: intraclass correlation, Krippendorff's alpha, split halves, and each rater's standing.

Functions take images × raters with NaN for gaps, or, where only counts are known, images × levels.
"""

from __future__ import annotations

from statistics import harmonic_mean
from typing import Any, NamedTuple

import krippendorff
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from uol.errors import CallError, UolError
from uol.ratings.metrics import pearson
from uol.ratings.ratings import Ratings

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEVELS_OF_MEASUREMENT = ("nominal", "ordinal", "interval", "ratio")
_MIN_CORRELATED = 3  # any two points lie on a line, so a correlation over two images says nothing
_MAX_COINCIDENCE_CELLS = 2**25  # images × values² that the krippendorff package holds at once: 256 MB a copy

_LEAST_RATIO = 1e-9  # of variances: below it leniency is known but for a constant


class IntraclassCorrelation(NamedTuple):
    """How much of the variance of one rating, and of the mean of a panel, is due to the image.

    `raters_per_image` is the harmonic mean of the ratings per image, the size of panel that `average` speaks of.
    Variances are NaN where they cannot be told apart, and the correlations also where nothing varies.
    """

    single: float
    average: float
    raters_per_image: float
    image_variance: float
    rater_variance: float
    residual_variance: float


class SplitHalf(NamedTuple):
    """Mean correlation of two halves of the panel, and what it foretells for the whole panel."""

    correlation: float
    spearman_brown: float
    draws: int


def icc(matrix: Floats) -> IntraclassCorrelation:
    """ICC(2,1) and ICC(2,k) of images × raters with gaps (raters are a sample and their leniency counts as error).

    The variance components of y_ij = μ + a_i + b_j + e_ij come from Henderson's third method: with N ratings,
    I images, J raters, and C sets of raters and images that no rating connects,

        E R(a | b) = (N − J) σ_a² + (I − C) σ_e²,    E R(b | a) = (N − I) σ_b² + (J − C) σ_e²,
        E SSE = (N − I − J + C) σ_e²,

    where R is the sum of squares that a factor takes from the residual of the other. Then
    ICC(2,1) = σ_a² / (σ_a² + σ_b² + σ_e²), and ICC(2,k) has (σ_b² + σ_e²) / k. Without gaps this is
    Shrout and Fleiss (1979), but for negative components, which become 0. NaN where a component is not
    defined: one image, one rater, no rating to spare for the residual, or no variance at all.
    """
    matrix = _drop_empty(matrix)
    rated = ~np.isnan(matrix)
    images, raters = matrix.shape
    ratings = int(rated.sum())
    if ratings == 0:
        return IntraclassCorrelation(*[np.nan] * 6)
    y = matrix - np.nanmin(matrix)  # equal ratings become exact zeros
    _, residual_squares, components = _two_way_fit(y)
    freedom = ratings - images - raters + components
    if freedom == 0:  # the fit meets every rating, as it must with one image or one rater
        return IntraclassCorrelation(np.nan, np.nan, _harmonic_mean(rated.sum(axis=1)), np.nan, np.nan, np.nan)
    residual = residual_squares / freedom
    by_image = _within_squares(y.T) - residual_squares
    by_rater = _within_squares(y) - residual_squares
    image = max(0.0, (by_image - (images - components) * residual) / (ratings - raters))
    rater = max(0.0, (by_rater - (raters - components) * residual) / (ratings - images))
    # Sets that no rating connects may differ where nothing varies inside them: what is left is rounding.
    if image + rater + residual <= 1e-12 * np.nanmax(y) ** 2:
        image = rater = residual = 0.0
    return _intraclass(image, rater, residual, rated.sum(axis=1))


def one_way_icc_from_counts(counts: npt.ArrayLike, levels: npt.ArrayLike) -> IntraclassCorrelation:
    """ICC(1,1) and ICC(1,k) where only the number of ratings per level is known: counts is images × levels.

    σ_a² = (MSB − MSW) / k₀ with k₀ = (N − Σ m_i² / N) / (I − 1) for m_i ratings of image i. Who rated is not
    known, so the raters' leniency is part of the residual and `rater_variance` is NaN.
    """
    table, values = _as_counts(counts, levels)
    table = table[table.sum(axis=1) > 0]
    size = table.sum(axis=1)
    total, images = size.sum(), len(size)
    if images < 2 or total == images:
        return IntraclassCorrelation(np.nan, np.nan, _harmonic_mean(size), np.nan, np.nan, np.nan)
    mean = table @ values / size
    within = np.sum(table * (values - mean[:, None]) ** 2) / (total - images)
    between = np.sum(size * (mean - size @ mean / total) ** 2) / (images - 1)
    effective_size = (total - np.sum(size**2) / total) / (images - 1)
    image = max(0.0, (between - within) / effective_size)
    if np.count_nonzero(table.sum(axis=0)) < 2:
        image = within = 0.0
    return _intraclass(image, 0.0, within, size)._replace(rater_variance=np.nan)


def krippendorff_alpha(matrix: Floats, level: str = "interval") -> float:
    """Krippendorff's α = 1 − D_o / D_e of images × raters with gaps; NaN where no two ratings can be compared.

    The package's coincidence table grows with the square of the number of different ratings; for a slider's ratings
    the interval α is taken from sums of squares instead: with m_u ≥ 2 ratings of image u and n = Σ m_u,
    D_o = 2/n Σ_u m_u SS_u / (m_u − 1) and D_e = 2 SS / (n − 1).
    """
    _check_level(level)
    pairable = matrix[np.sum(~np.isnan(matrix), axis=1) > 1]
    rows, columns = np.nonzero(~np.isnan(pairable))
    values, codes = np.unique(pairable[rows, columns], return_inverse=True)
    if level == "interval" and len(pairable) * len(values) ** 2 > _MAX_COINCIDENCE_CELLS:
        size = np.sum(~np.isnan(pairable), axis=1)
        squares = np.nansum((pairable - np.nanmean(pairable, axis=1, keepdims=True)) ** 2, axis=1)
        observed = np.sum(size * squares / (size - 1)) / size.sum()
        return float(1 - observed / np.nanvar(pairable, ddof=1))
    if len(pairable) * len(values) ** 2 > _MAX_COINCIDENCE_CELLS:
        raise UolError(
            f"Krippendorff's {level} alpha of {len(pairable):,} images with {len(values):,} different ratings "
            "does not fit memory: round the ratings or take the interval level"
        )
    cells = np.bincount(rows * len(values) + codes, minlength=len(pairable) * len(values))
    return krippendorff_alpha_from_counts(cells.reshape(len(pairable), len(values)), values, level)


def krippendorff_alpha_from_counts(counts: npt.ArrayLike, levels: npt.ArrayLike, level: str = "interval") -> float:
    """Krippendorff's α where only the number of ratings per level is known: counts is images × levels."""
    _check_level(level)
    table, values = _as_counts(counts, levels)
    pairable = table[table.sum(axis=1) > 1]
    if np.count_nonzero(pairable.sum(axis=0)) < 2:
        return np.nan
    order = np.argsort(values)
    return float(
        krippendorff.alpha(value_counts=pairable[:, order], value_domain=values[order], level_of_measurement=level)
    )


def split_half(matrix: Floats, draws: int = 100, seed: int = 0) -> SplitHalf:
    """Correlation of the image means of two random halves of the raters, over the images both halves rated.

    The Pearson correlation r is averaged over `draws` random halves; the whole panel's is 2r / (1 + r).
    """
    _check_draws(draws)
    matrix = _drop_empty(matrix)
    rated = ~np.isnan(matrix)
    raters = matrix.shape[1]
    shuffled = np.random.default_rng(seed).random((draws, raters)).argsort(axis=1)
    first = (shuffled < raters // 2).T.astype(np.float64)  # raters × draws: 1 in the first half, 0 in the second
    values, presence = np.where(rated, matrix, 0.0), rated.astype(np.float64)
    sizes = presence @ first, presence @ (1 - first)
    both = (sizes[0] > 0) & (sizes[1] > 0)
    means = values @ first / np.maximum(sizes[0], 1), values @ (1 - first) / np.maximum(sizes[1], 1)
    return _split_half(_correlate_columns(*means, both, values), draws)


def split_half_from_counts(counts: npt.ArrayLike, levels: npt.ArrayLike, draws: int = 100, seed: int = 0) -> SplitHalf:
    """`split_half` where only the number of ratings per level is known: counts is images × levels.

    Each image's ratings are halved at random (a multivariate hypergeometric draw), so a rater's leniency does not
    stay within one half, as it does in `split_half`.
    """
    _check_draws(draws)
    table, values = _as_counts(counts, levels)
    whole = np.rint(table).astype(np.int64)
    if np.any(np.abs(table - whole) > 1e-6):
        raise UolError("halves can be drawn from whole numbers of ratings only: some of the counts are fractions")
    whole = whole[whole.sum(axis=1) > 1]
    rng = np.random.default_rng(seed)
    size = whole.sum(axis=1)
    left = np.tile((size // 2)[:, None], draws)  # ratings still to be drawn into the first half: images × draws
    later = size
    first_sum = np.zeros(left.shape)
    for column, value in zip(whole.T, values, strict=True):
        later = later - column
        drawn = rng.hypergeometric(column[:, None], later[:, None], left)
        left = left - drawn
        first_sum += drawn * value
    first = first_sum / (size // 2)[:, None]
    second = ((whole @ values)[:, None] - first_sum) / (size - size // 2)[:, None]
    return _split_half(_correlate_columns(first, second, np.ones(first.shape, bool), values), draws)


def rater_table(ratings: Ratings) -> pd.DataFrame:
    """One row per rater: count, leniency, agreement and spread.

    `leniency` is the rater's effect b_j in the two-way least-squares fit y_ij = μ + a_i + b_j, mean 0 over the raters
    (over each connected set of them), so that who rated the attractive images is not called lenient. `agreement` is
    the correlation with the mean of the other raters over the images they share, NaN below three images. `spread` is
    the standard deviation of the rater's ratings (divisor n − 1).
    """
    matrix = ratings.matrix
    rated = ~np.isnan(matrix)
    count = rated.sum(axis=0)
    leniency = np.full(len(count), np.nan)
    leniency[count > 0] = _two_way_fit(_drop_empty(matrix))[0]
    others = rated.sum(axis=1, keepdims=True) - 1
    values = np.where(rated, matrix, 0.0)
    mean_of_others = (values.sum(axis=1, keepdims=True) - values) / np.maximum(others, 1)
    agreement = _correlate_columns(values, mean_of_others, rated & (others > 0), values)
    centred = np.where(rated, matrix - values.sum(axis=0) / np.maximum(count, 1), 0.0)
    spread = np.where(count > 1, np.sqrt(np.sum(centred**2, axis=0) / np.maximum(count - 1, 1)), np.nan)
    return pd.DataFrame(
        {"count": count, "leniency": leniency, "agreement": agreement, "spread": spread},
        index=pd.Index(ratings.raters, name="rater"),
    )


def adjusted_means(ratings: Ratings) -> Floats:
    """The mean rating of each image by raters of equal leniency: the mean of y_ij − b_j, with b_j as in `rater_table`.

    Where everybody rated everything it is the plain mean; with gaps the plain mean tells also who rated an image.
    Images of sets that no rater connects are each on the scale of their own raters. Few ratings by severe or lenient
    raters may take an adjusted mean a little beyond the scale.
    """
    matrix = ratings.matrix
    effects = np.zeros(len(ratings.raters))
    effects[~np.isnan(matrix).all(axis=0)] = _two_way_fit(_drop_empty(matrix))[0]
    return np.asarray(np.nanmean(matrix - effects, axis=1))


def raters_leniency(ratings: Ratings, known: npt.ArrayLike) -> Floats | None:
    """How lenient each image's raters are together, learnt from what they said of the images `known` alone.

    `known` are rows, or a mask of them. The mean over an image's raters of b_j, less its mean over the known images: a
    network that learnt their means expects raters like theirs, and what it says of an image plus this is about what the
    image's own raters should give it. With rows that trained as `known`, nothing that anybody said of a test image is
    used, only who was asked. b_j is the best linear prediction in y_ij = μ + a_i + b_j + e_ij with the variances of
    `icc`, so that few ratings say little of a rater, and none nothing.

    None where that says nothing, as all images have the same raters, or cannot be told, as some raters of the known
    images share none, by any chain, with the others, or no rating is to spare for chance.
    """
    given = np.asarray(known)
    rows = np.flatnonzero(given) if given.dtype == np.bool_ else np.unique(given.astype(np.intp))
    if ratings.same_raters or not len(rows):
        return None
    there = ratings.matrix[rows]
    variances = icc(there)
    if np.isnan(variances.rater_variance) or _two_way_fit(_drop_empty(there))[2] > 1:
        return None
    leniency = np.zeros(len(ratings.raters))
    if variances.rater_variance > 0:
        leniency = _predicted_leniency(there, variances.residual_variance / variances.rater_variance)
    mean = (~np.isnan(ratings.matrix) @ leniency) / ratings.count
    return np.asarray(mean - mean[rows].mean())


def unconnected_sets(ratings: Ratings) -> int:
    """How many sets of images and raters there are that no rating connects; leniency is known within each alone."""
    return _two_way_fit(_drop_empty(ratings.matrix))[2]


def reliability(ratings: Ratings, seed: int = 0) -> dict[str, float | None]:
    """Every reliability of a panel, ready for JSON: None where one is not defined.

    `adjusted_pc` is the correlation of the images' means with those adjusted for their raters' leniency: below 1, who
    rated an image shows in its mean. None where some raters share no images, by any chain, with the others.
    """
    correlation = icc(ratings.matrix)
    halves = split_half(ratings.matrix, seed=seed)
    values = {
        "icc_2_1": correlation.single,
        "icc_2_k": correlation.average,
        "raters_per_image": correlation.raters_per_image,
        "krippendorff_alpha": krippendorff_alpha(ratings.matrix),
        "split_half": halves.correlation,
        "spearman_brown": halves.spearman_brown,
        "adjusted_pc": pearson(ratings.mean, adjusted_means(ratings)) if unconnected_sets(ratings) == 1 else np.nan,
    }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def _two_way_fit(matrix: Floats) -> tuple[Floats, float, int]:
    """Least-squares fit of y_ij = μ + a_i + b_j: rater effects (mean 0), residual sum of squares, connected sets.

    The larger factor is eliminated: its effects are the means of what the smaller one leaves over.
    """
    rated = ~np.isnan(matrix)
    images, raters = matrix.shape
    rows, columns = np.nonzero(rated)
    edges = coo_array((np.ones(len(rows)), (rows, images + columns)), shape=(images + raters, images + raters))
    components, labels = connected_components(edges, directed=False)
    image_set, rater_set = labels[:images], labels[images:]
    y = matrix - np.nanmean(matrix)
    if images >= raters:
        rater_effects = _solve_columns(y, rater_set)
    else:
        rater_effects = np.nanmean(y - _solve_columns(y.T, image_set)[:, None], axis=0)
    centres = np.bincount(rater_set, rater_effects) / np.bincount(rater_set)
    rater_effects = rater_effects - centres[rater_set]
    return rater_effects, _within_squares(y - rater_effects), int(components)


def _predicted_leniency(matrix: Floats, ratio: float) -> Floats:
    """Best linear predictions of b_j in y_ij = μ + a_i + b_j + e_ij, b_j random and a_i fixed; ratio is σ_e² / σ_b².

    The larger factor is eliminated. With W, 1 where rated, D_i the ratings per image and D_j those per rater,
    (D_j + ratio − Wᵀ D_i⁻¹ W) b = column sums of y − row means; or (D_i − W (D_j + ratio)⁻¹ Wᵀ) a = row sums of
    y − W (D_j + ratio)⁻¹ column sums, and b = (D_j + ratio)⁻¹ (column sums − Wᵀ a).
    """
    presence = (~np.isnan(matrix)).astype(np.float64)
    y = np.where(np.isnan(matrix), 0.0, matrix - np.nanmean(matrix))
    per_image, per_rater = presence.sum(axis=1), presence.sum(axis=0) + max(ratio, _LEAST_RATIO)
    if len(per_rater) <= len(per_image):
        system = np.diag(per_rater) - presence.T @ (presence / per_image[:, None])
        return np.asarray(np.linalg.solve(system, y.sum(axis=0) - presence.T @ (y.sum(axis=1) / per_image)))
    system = np.diag(per_image) - presence @ (presence / per_rater).T
    image = np.linalg.solve(system, y.sum(axis=1) - presence @ (y.sum(axis=0) / per_rater))
    return np.asarray((y.sum(axis=0) - presence.T @ image) / per_rater)


def _solve_columns(y: Floats, column_set: npt.NDArray[np.int32]) -> Floats:
    """Column effects of the two-way fit with the rows eliminated: (D_c − Wᵀ D_r⁻¹ W) b = column sums of y − row means.

    W is 1 where rated. The matrix is singular once per connected set, since a constant can move from columns to rows;
    adding a block of ones per set picks the solution with sum 0 there and leaves the fit alone.
    """
    rated = ~np.isnan(y)
    presence = rated.astype(np.float64)
    weighted = presence / presence.sum(axis=1, keepdims=True)
    system = np.diag(presence.sum(axis=0)) - presence.T @ weighted
    system += column_set[:, None] == column_set[None, :]
    target = np.nansum(y - np.nanmean(y, axis=1, keepdims=True), axis=0)
    return np.asarray(np.linalg.solve(system, target))


def _within_squares(matrix: Floats) -> float:
    """Sum of squares around the mean of each row."""
    return float(np.nansum((matrix - np.nanmean(matrix, axis=1, keepdims=True)) ** 2))


def _correlate_columns(x: Floats, y: Floats, used: Bools, ratings: Floats) -> Floats:
    """Pearson correlation of each column of x with that of y over the rows `used`; NaN where it is not defined.

    The largest of `ratings`, of which x and y are means, tells what differs by rounding only.
    """
    rounding = 1e-12 * np.abs(ratings).max(initial=0.0)
    size = used.sum(axis=0)
    defined = size >= _MIN_CORRELATED
    centred, squares = [], []
    for values in (x, y):
        mean = np.sum(values, axis=0, where=used) / np.maximum(size, 1)
        centred.append(np.where(used, values - mean, 0.0))
        squares.append(np.sum(centred[-1] ** 2, axis=0))
        defined &= squares[-1] > size * rounding**2
    scale = np.sqrt(np.where(defined, squares[0] * squares[1], 1.0))
    return np.where(defined, np.sum(centred[0] * centred[1], axis=0) / scale, np.nan)


def _split_half(correlations: Floats, draws: int) -> SplitHalf:
    defined = correlations[~np.isnan(correlations)]
    r = float(defined.mean()) if defined.size else np.nan
    return SplitHalf(r, 2 * r / (1 + r) if r > -1 else np.nan, draws)


def _intraclass(image: float, rater: float, residual: float, sizes: npt.NDArray[Any]) -> IntraclassCorrelation:
    panel = _harmonic_mean(sizes)
    total = image + rater + residual
    single = image / total if total > 0 else np.nan
    average = image / (image + (rater + residual) / panel) if total > 0 else np.nan
    return IntraclassCorrelation(*map(float, (single, average, panel, image, rater, residual)))


def _harmonic_mean(sizes: npt.NDArray[Any]) -> float:
    return float(harmonic_mean(sizes.tolist())) if len(sizes) else np.nan


def _drop_empty(matrix: Floats) -> Floats:
    rated = ~np.isnan(matrix)
    return matrix[rated.any(axis=1)][:, rated.any(axis=0)]


def _as_counts(counts: npt.ArrayLike, levels: npt.ArrayLike) -> tuple[Floats, Floats]:
    table, values = np.asarray(counts, np.float64), np.asarray(levels, np.float64)
    if table.ndim != 2 or values.shape != table.shape[1:]:
        raise UolError(f"counts of shape {table.shape} do not fit {values.size} levels: give images × levels")
    if not np.all(table >= 0) or not np.all(np.isfinite(table)):
        raise UolError("the counts of ratings must be numbers from 0 up")
    if not np.all(np.isfinite(values)) or len(np.unique(values)) < values.size:
        raise UolError("the levels of the ratings must be different finite numbers")
    return table, values


def _check_level(level: str) -> None:
    if level not in LEVELS_OF_MEASUREMENT:
        raise CallError(f"unknown level of measurement {level!r}: choose from {', '.join(LEVELS_OF_MEASUREMENT)}")


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise CallError(f"split-half reliability needs at least one draw, not {draws}")
