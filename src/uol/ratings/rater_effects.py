"""Raters' leniency, and image means adjusted for it, in the model of ratings y_ij = μ + a_i + b_j + e_ij.

a_i is image i's effect, b_j rater j's leniency, e_ij what is left. Matrices are images × raters with NaN for gaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from uol.ratings.numerics import connected_sets
from uol.ratings.ratings import Ratings

Floats = npt.NDArray[np.float64]

_LEAST_RATIO = 1e-9  # of variances: below it leniency is known up to a constant only


class TwoWayFit(NamedTuple):
    """Least-squares fit: leniency b_j with mean 0 (in each connected set), residual sum of squares, connected sets.

    A connected set is one of images and raters that ratings connect, by any chain.
    """

    leniency: Floats
    residual_squares: float
    connected_sets: int


class Variances(NamedTuple):
    """Variances of a_i, b_j and e_ij; NaN where they cannot be separated."""

    image: float
    rater: float
    residual: float


def adjusted_means(ratings: Ratings) -> Floats:
    """The mean rating of each image by raters of equal leniency: the mean of y_ij − b_j over the image's raters.

    Where everybody rated everything it is the plain mean; with gaps the plain mean depends on who rated an image.
    In each connected set of images and raters the mean leniency is 0. Few ratings by severe or lenient raters may take
    an adjusted mean a little outside the scale.

    >>> ratings = Ratings.from_long(list("aabbc"), list("xyxyy"), [3, 5, 1, 3, 5])  # y is lenient by 2
    >>> adjusted_means(ratings)
    array([4., 2., 4.])
    """
    return np.asarray(np.nanmean(ratings.matrix - np.nan_to_num(leniency(ratings.matrix)), axis=1))


def leniency(matrix: Floats) -> Floats:
    """b_j of each rater in the least-squares fit, NaN for raters without a rating."""
    effects = np.full(matrix.shape[1], np.nan)
    effects[~np.isnan(matrix).all(axis=0)] = fit_two_way(drop_empty(matrix)).leniency
    return effects


def unconnected_sets(ratings: Ratings) -> int:
    """How many sets of images and raters there are that no rating connects; leniency is known within each only."""
    return fit_two_way(drop_empty(ratings.matrix)).connected_sets


def raters_leniency(ratings: Ratings, known: npt.ArrayLike) -> Floats | None:
    """How lenient each image's raters are on average, estimated from the ratings of the `known` images only.

    `known` are rows, or a mask of them. The result is the mean of b_j over an image's raters, minus its mean over the
    known images: a network that learnt from these expects raters like theirs, so its score plus this is about what the
    image's own raters give. If `known` are the training images, no rating of a test image is used, only who rated it.
    b_j is the best linear prediction with the variances of `variances`, so that few ratings move it little from 0.

    None if all images have the same raters, if no chain of images connects the raters of the known images, or if there
    are too few ratings to estimate the variances.
    """
    chosen = np.asarray(known)
    rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else np.unique(chosen.astype(np.intp))
    if ratings.same_raters or not len(rows):
        return None
    matrix = ratings.matrix[rows]
    found = variances(matrix)
    if np.isnan(found.rater) or fit_two_way(drop_empty(matrix)).connected_sets > 1:
        return None
    effects = np.zeros(len(ratings.raters))
    if found.rater > 0:
        effects = _predicted_leniency(matrix, found.residual / found.rater)
    mean = (~np.isnan(ratings.matrix) @ effects) / ratings.count
    return np.asarray(mean - mean[rows].mean())


def raters_leniency_by_parts(ratings: Ratings, parts: npt.NDArray[np.intp]) -> Floats | None:
    """`raters_leniency` of the images of each part (n,), estimated from the images of all other parts."""
    found = np.empty(len(parts))
    for part in np.unique(parts):
        estimated = raters_leniency(ratings, parts != part)
        if estimated is None:
            return None
        found[parts == part] = estimated[parts == part]
    return found


def variances(matrix: Floats) -> Variances:
    """Variances of images, raters and residuals by Henderson's third method.

    With N ratings, I images, J raters, and C sets of raters and images that no rating connects,

        E R(a | b) = (N − J) σ_a² + (I − C) σ_e²,    E R(b | a) = (N − I) σ_b² + (J − C) σ_e²,
        E SSE = (N − I − J + C) σ_e²,

    where R is the sum of squares by which a factor reduces the residual of the other. Negative variances become 0. NaN
    for one image, one rater, or without a degree of freedom for the residual.
    """
    matrix = drop_empty(matrix)
    images, raters = matrix.shape
    ratings = int((~np.isnan(matrix)).sum())
    if ratings == 0:
        return Variances(np.nan, np.nan, np.nan)
    y = matrix - np.nanmin(matrix)  # equal ratings become exact zeros
    _, residual_squares, sets = fit_two_way(y)
    freedom = ratings - images - raters + sets
    if freedom == 0:  # the fit meets every rating, as it must with one image or one rater
        return Variances(np.nan, np.nan, np.nan)
    residual = residual_squares / freedom
    by_image = _within_squares(y.T) - residual_squares
    by_rater = _within_squares(y) - residual_squares
    image = max(0.0, (by_image - (images - sets) * residual) / (ratings - raters))
    rater = max(0.0, (by_rater - (raters - sets) * residual) / (ratings - images))
    # Unconnected sets may differ although nothing varies inside them: what remains is rounding.
    if image + rater + residual <= 1e-12 * np.nanmax(y) ** 2:
        return Variances(0.0, 0.0, 0.0)
    return Variances(image, rater, residual)


def fit_two_way(matrix: Floats) -> TwoWayFit:
    """Fit the model by least squares to a matrix without empty rows or columns.

    The larger factor is eliminated: its effects are the means of what the smaller one leaves.
    """
    rated = ~np.isnan(matrix)
    images, raters = matrix.shape
    rows, columns = np.nonzero(rated)
    labels = connected_sets(np.stack([rows, images + columns], 1), images + raters)
    image_set, rater_set = labels[:images], labels[images:]
    y = matrix - np.nanmean(matrix)
    if images >= raters:
        effects = _solve_columns(y, rater_set)
    else:
        effects = np.nanmean(y - _solve_columns(y.T, image_set)[:, None], axis=0)
    centres = np.bincount(rater_set, effects) / np.bincount(rater_set)
    effects = effects - centres[rater_set]
    return TwoWayFit(effects, _within_squares(y - effects), int(labels.max()) + 1)


def drop_empty(matrix: Floats) -> Floats:
    """The matrix without the rows and columns that have no rating."""
    rated = ~np.isnan(matrix)
    return matrix[rated.any(axis=1)][:, rated.any(axis=0)]


def _predicted_leniency(matrix: Floats, ratio: float) -> Floats:
    """Best linear predictions of b_j, with b_j random and a_i fixed; ratio is σ_e² / σ_b².

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


def _solve_columns(y: Floats, column_set: npt.NDArray[np.intp]) -> Floats:
    """Column effects of the two-way fit with the rows eliminated: (D_c − Wᵀ D_r⁻¹ W) b = column sums of y − row means.

    W is 1 where rated. The matrix is singular once per connected set, since a constant can move from columns to rows;
    adding a block of ones per set picks the solution with sum 0 there and does not change the fit.
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
