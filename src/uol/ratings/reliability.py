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

from uol.errors import CallError, UolError
from uol.ratings.metrics import pearson
from uol.ratings.rater_effects import adjusted_means, drop_empty, leniency, unconnected_sets, variances
from uol.ratings.ratings import Ratings

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEVELS_OF_MEASUREMENT = ("nominal", "ordinal", "interval", "ratio")
_MIN_CORRELATED = 3  # any two points lie on a line, so a correlation over two images says nothing
_ROUNDING = 1e-12  # of the largest rating: what differs by less is the same
_LEAST_CORRELATION = -1 / 3 - 1e-9  # of halves whose Spearman-Brown is at least −1, up to rounding
_MAX_COINCIDENCE_CELLS = 2**25  # images × values² that the krippendorff package holds at once: 256 MB a copy


class IntraclassCorrelation(NamedTuple):
    """How much of the variance of one rating, and of the mean of a panel, is due to the image.

    `raters_per_image` is the harmonic mean of the ratings per image, the size of panel that `average` refers to.
    Variances are NaN where they cannot be separated, and the correlations also where nothing varies.
    """

    single: float
    average: float
    raters_per_image: float
    image_variance: float
    rater_variance: float
    residual_variance: float


class SplitHalf(NamedTuple):
    """Mean correlation of two halves of the panel, and the prediction for the whole panel, `spearman_brown` of it."""

    correlation: float
    spearman_brown: float
    draws: int


def icc(matrix: Floats) -> IntraclassCorrelation:
    """ICC(2,1) and ICC(2,k) of images × raters with gaps (raters are a sample and their leniency counts as error).

    ICC(2,1) = σ_a² / (σ_a² + σ_b² + σ_e²) with the variances of `rater_effects.variances`, and ICC(2,k) has
    (σ_b² + σ_e²) / k. Without gaps this is Shrout and Fleiss (1979), except for negative variances, which become 0.
    NaN where a variance is not defined, or nothing varies.

    >>> found = icc(np.array([[1.0, 2, 1], [3, 4, 3], [5, 5, np.nan]]))
    >>> round(found.single, 3), round(found.average, 3)
    (0.914, 0.965)
    """
    sizes = np.sum(~np.isnan(drop_empty(matrix)), axis=1)
    return _intraclass(*variances(matrix), sizes)


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


def one_way_from_moments(
    means: npt.ArrayLike, variances: npt.ArrayLike, counts: npt.ArrayLike
) -> tuple[IntraclassCorrelation, float]:
    """ICC(1,1) and ICC(1,k), and Krippendorff's interval α, from each image's mean, variance and number of ratings.

    These are the figures of `one_way_icc_from_counts` and of `krippendorff_alpha`; variances of images with one rating
    are not used. NaN where they are not defined.
    """
    mean, size = np.asarray(means, np.float64), np.asarray(counts, np.float64)
    spread = np.where(size > 1, np.asarray(variances, np.float64), 0.0)
    total, images = size.sum(), len(size)
    if images < 2 or total == images:
        return IntraclassCorrelation(np.nan, np.nan, _harmonic_mean(size), np.nan, np.nan, np.nan), np.nan
    within = np.sum((size - 1) * spread) / (total - images)
    between = np.sum(size * (mean - size @ mean / total) ** 2) / (images - 1)
    effective_size = (total - np.sum(size**2) / total) / (images - 1)
    image = max(0.0, (between - within) / effective_size)
    mean, spread, paired = mean[size > 1], spread[size > 1], size[size > 1]
    n = paired.sum()
    expected = (np.sum((paired - 1) * spread) + np.sum(paired * (mean - paired @ mean / n) ** 2)) / (n - 1)
    nothing = (_ROUNDING * np.abs(np.asarray(means, np.float64)).max()) ** 2
    alpha = 1 - np.sum(paired * spread) / n / expected if expected > nothing else np.nan
    if image + within <= nothing:
        image = within = 0.0
    return _intraclass(image, 0.0, float(within), size)._replace(rater_variance=np.nan), float(alpha)


def krippendorff_alpha(matrix: Floats, level: str = "interval") -> float:
    """Krippendorff's α = 1 − D_o / D_e of images × raters with gaps; NaN where no two ratings can be compared.

    The package's coincidence table grows with the square of the number of different ratings; for a slider's ratings
    the interval α is taken from sums of squares instead: with m_u ≥ 2 ratings of image u and n = Σ m_u,
    D_o = 2/n Σ_u m_u SS_u / (m_u − 1) and D_e = 2 SS / (n − 1).

    >>> round(krippendorff_alpha(np.array([[1.0, 2], [3, 4], [5, 5]])), 3)
    0.875
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
            "does not fit in memory: round the ratings or use the interval level"
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

    The Pearson correlation r is averaged over `draws` random halves; the whole panel's is `spearman_brown(r)`.

    >>> rng = np.random.default_rng(0)
    >>> ratings = rng.normal(size=(50, 1)) + rng.normal(size=(50, 12))
    >>> round(split_half(ratings).spearman_brown, 2)
    0.92
    """
    _check_draws(draws)
    matrix = drop_empty(matrix)
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
        raise UolError("split halves need whole numbers of ratings, but some counts are fractions")
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


def spearman_brown(correlation: float) -> float:
    """The correlation 2r / (1 + r) of a whole panel with another such panel, from that of its halves.

    NaN where it would be below −1, as of halves that correlate by less than −1/3: no correlation is.

    >>> spearman_brown(0.5), spearman_brown(-0.5)
    (0.6666666666666666, nan)
    """
    return 2 * correlation / (1 + correlation) if correlation >= _LEAST_CORRELATION else np.nan


def rater_table(ratings: Ratings) -> pd.DataFrame:
    """One row per rater: count, leniency, agreement and spread.

    `leniency` is the rater's effect b_j in the two-way least-squares fit y_ij = μ + a_i + b_j, mean 0 over the raters
    (over each connected set of them), so that rating attractive images makes nobody lenient. `agreement` is
    the correlation with the mean of the other raters over the images they share, NaN below three images. `spread` is
    the standard deviation of the rater's ratings (divisor n − 1).
    """
    matrix = ratings.matrix
    rated = ~np.isnan(matrix)
    count = rated.sum(axis=0)
    others = rated.sum(axis=1, keepdims=True) - 1
    values = np.where(rated, matrix, 0.0)
    mean_of_others = (values.sum(axis=1, keepdims=True) - values) / np.maximum(others, 1)
    agreement = _correlate_columns(values, mean_of_others, rated & (others > 0), values)
    centred = np.where(rated, matrix - values.sum(axis=0) / np.maximum(count, 1), 0.0)
    spread = np.where(count > 1, np.sqrt(np.sum(centred**2, axis=0) / np.maximum(count - 1, 1)), np.nan)
    return pd.DataFrame(
        {"count": count, "leniency": leniency(matrix), "agreement": agreement, "spread": spread},
        index=pd.Index(ratings.raters, name="rater"),
    )


def reliability(ratings: Ratings, seed: int = 0) -> dict[str, float | None]:
    """Every reliability of a panel, ready for JSON: None where one is not defined, as Spearman-Brown below −1 is not.

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
        "adjusted_pc": _adjusted_pc(ratings),
    }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def _adjusted_pc(ratings: Ratings) -> float:
    mean, adjusted = ratings.mean, adjusted_means(ratings)
    same = min(np.ptp(mean), np.ptp(adjusted)) <= _ROUNDING * np.nanmax(np.abs(ratings.matrix), initial=0.0)
    return np.nan if same or unconnected_sets(ratings) > 1 else pearson(mean, adjusted)


def _correlate_columns(x: Floats, y: Floats, used: Bools, ratings: Floats) -> Floats:
    """Pearson correlation of each column of x with that of y over the rows `used`; NaN where it is not defined.

    The largest of `ratings`, of which x and y are means, shows what differs by rounding only.
    """
    rounding = _ROUNDING * np.abs(ratings).max(initial=0.0)
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
    return SplitHalf(r, spearman_brown(r), draws)


def _intraclass(image: float, rater: float, residual: float, sizes: npt.NDArray[Any]) -> IntraclassCorrelation:
    panel = _harmonic_mean(sizes)
    total = image + rater + residual
    single = image / total if total > 0 else np.nan
    average = image / (image + (rater + residual) / panel) if total > 0 else np.nan
    return IntraclassCorrelation(*map(float, (single, average, panel, image, rater, residual)))


def _harmonic_mean(sizes: npt.NDArray[Any]) -> float:
    return float(harmonic_mean(sizes.tolist())) if len(sizes) else np.nan


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
