"""Ratings of images by raters, with gaps: means, variances, counts and histograms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import CallError, UolError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ratings:
    """The rating of each image by each rater: `matrix` is images × raters, NaN where a rater did not rate.

    Every image has at least one rating and a unique name; a rater may have no rating (after `subset`).

    >>> Ratings(np.array([[1, 2], [4, np.nan]]), images=("a.jpg", "b.jpg"), raters=("ann", "ben")).mean
    array([1.5, 4. ])
    """

    matrix: Floats
    images: tuple[str, ...]
    raters: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.images:
            raise UolError("no rated images: give at least one image with a rating")
        if not self.raters:
            raise UolError("no raters: give at least one rating that is not empty")
        if self.matrix.shape != (len(self.images), len(self.raters)):
            raise UolError(
                f"the ratings are an array of shape {self.matrix.shape}, "
                f"but there are {len(self.images)} images and {len(self.raters)} raters"
            )
        for what, names in (("image", self.images), ("rater", self.raters)):
            name, times = Counter(names).most_common(1)[0]
            if times > 1:
                raise UolError(f"{what} {name} occurs {times} times: give each {what} a unique name")
        infinite = np.argwhere(np.isinf(self.matrix))
        if infinite.size:
            image, rater = infinite[0]
            raise UolError(
                f"image {self.images[image]}: the rating by {self.raters[rater]} is infinite; correct or remove it"
            )
        unrated = np.flatnonzero(np.isnan(self.matrix).all(axis=1))
        if unrated.size:
            raise UolError(f"image {self.images[unrated[0]]} has no rating: rate it or remove it")

    @classmethod
    def from_long(cls, images: Sequence[Any], raters: Sequence[Any], values: Sequence[Any]) -> Ratings:
        """Ratings from three columns, a row per rating, in order of first appearance.

        Empty ratings are dropped; a rater's several ratings of one image become their mean.

        >>> ratings = Ratings.from_long(["a", "a", "b"], ["Ann", "Bob", "Ann"], [3, 4, 1])
        >>> ratings.matrix
        array([[ 3.,  4.],
               [ 1., nan]])
        """
        if not len(images) == len(raters) == len(values):
            raise UolError(
                f"{len(images)} images, {len(raters)} raters and {len(values)} ratings: "
                "the three columns must have the same length"
            )
        image_names, rater_names = _names(images, "image"), _names(raters, "rater")
        numbers = _numbers(pd.Series(values), image_names)
        kept = np.flatnonzero(~np.isnan(numbers))
        image_codes, image_list = pd.factorize(np.array(image_names, object))
        rater_codes, rater_list = pd.factorize(np.array(rater_names, object)[kept])
        cells = image_codes[kept] * len(rater_list) + rater_codes
        shape = len(image_list), len(rater_list)
        sums = np.bincount(cells, numbers[kept], minlength=shape[0] * shape[1])
        times = np.bincount(cells, minlength=shape[0] * shape[1])
        matrix = np.divide(sums, times, out=np.full(sums.shape, np.nan), where=times > 0)
        return cls(matrix.reshape(shape), tuple(image_list), tuple(rater_list))

    @classmethod
    def from_wide(cls, frame: pd.DataFrame) -> Ratings:
        """Ratings from a table indexed by image with a column per rater; raters who rated nothing are left out.

        >>> table = pd.DataFrame({"Ann": [3, 1], "Bob": [4, None]}, index=["a", "b"])
        >>> Ratings.from_wide(table).mean
        array([3.5, 1. ])
        """
        images, raters = _names(frame.index, "image"), _names(frame.columns, "rater")
        matrix = np.empty(frame.shape)
        for column in range(frame.shape[1]):
            matrix[:, column] = _numbers(frame.iloc[:, column], images)
        active = ~np.isnan(matrix).all(axis=0) if images else np.ones(len(raters), bool)
        return cls(matrix[:, active], tuple(images), tuple(np.array(raters, object)[active]))

    def subset(self, indices: npt.ArrayLike) -> Ratings:
        """The images at `indices` (or where a mask is true), in that order, with all the raters."""
        chosen = np.asarray(indices)
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.intp)
        return Ratings(self.matrix[rows], tuple(self.images[row] for row in rows), self.raters)

    def mapped(self, fn: Callable[[Floats], Floats]) -> Ratings:
        """The same ratings with `fn` applied to an array of them; gaps stay gaps."""
        matrix = np.full(self.matrix.shape, np.nan)
        rated = ~np.isnan(self.matrix)
        matrix[rated] = fn(self.matrix[rated])
        return Ratings(matrix, self.images, self.raters)

    @property
    def same_raters(self) -> bool:
        """Whether all images were rated by the same raters."""
        rated = ~np.isnan(self.matrix)
        return bool((rated == rated[:1]).all())

    @property
    def count(self) -> npt.NDArray[np.int64]:
        """Ratings per image."""
        return np.asarray(np.sum(~np.isnan(self.matrix), axis=1), np.int64)

    @property
    def mean(self) -> Floats:
        """Mean rating of each image."""
        return np.asarray(np.nanmean(self.matrix, axis=1))

    @property
    def variance(self) -> Floats:
        """Variance of each image's ratings, Σ(r − r̄)² / (n − 1); NaN where there is one rating only.

        The divisor n − 1 (ddof = 1) is the one that reproduces the mean rating variance published for
        SCUT-FBP5500: 0.421, where the divisor n (ddof = 0) gives 0.414.
        """
        count = self.count
        squares = np.nansum((self.matrix - self.mean[:, None]) ** 2, axis=1)
        return np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan)

    def histogram(self, levels: npt.ArrayLike) -> Floats:
        """Ratings of each image at each of the rising `levels`: (images, levels).

        A rating between two levels, such as the mean of two ratings, is shared between them so that the mean is kept.

        >>> Ratings.from_long(["a", "a"], ["Ann", "Bob"], [3, 4]).histogram([1, 2, 3, 4, 5])
        array([[0., 0., 1., 1., 0.]])
        """
        steps = np.asarray(levels, np.float64)
        if steps.ndim != 1 or steps.size == 0 or np.any(np.diff(steps) <= 0):
            raise CallError("the levels of a histogram must be a rising list of numbers")
        slack = 1e-9 * max(1.0, float(np.ptp(steps)))  # rescaled levels and ratings differ in the last digits
        outside = np.argwhere((self.matrix < steps[0] - slack) | (self.matrix > steps[-1] + slack))
        if outside.size:
            row, column = outside[0]
            raise UolError(
                f"image {self.images[row]}: rating {self.matrix[row, column]:g} is outside "
                f"the levels {steps[0]:g} to {steps[-1]:g}"
            )
        rows, columns = np.nonzero(~np.isnan(self.matrix))
        position = np.interp(self.matrix[rows, columns], steps, np.arange(steps.size))
        lower = np.floor(position).astype(np.intp)
        share = position - lower
        histogram = np.zeros((len(self.images), steps.size))
        np.add.at(histogram, (rows, lower), 1 - share)
        np.add.at(histogram, (rows, np.minimum(lower + 1, steps.size - 1)), share)
        return histogram


def _names(values: Any, what: str) -> list[str]:
    column = pd.Series(values, dtype=object)
    empty = np.flatnonzero(column.isna())
    if empty.size:
        raise UolError(f"{what} {empty[0] + 1} has no name: fill it in or remove it")
    return [str(value) for value in column]


def _numbers(column: pd.Series[Any], images: Sequence[str]) -> Floats:
    """Ratings as numbers, NaN where empty; `images` names the image of each for the error message."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(np.float64, na_value=np.nan)
    else:
        numbers = np.array([_number(value) for value in column], np.float64)
    wrong = np.flatnonzero(np.isinf(numbers))
    if wrong.size:
        raise UolError(f"image {images[wrong[0]]}: rating {column.iloc[wrong[0]]!s} is not a finite number")
    return numbers


def _number(value: Any) -> float:
    """A cell as a number, NaN where empty, infinite where it is something else, such as a date."""
    if pd.isna(value) or str(value).strip().lower() in ("", "nan"):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.inf
