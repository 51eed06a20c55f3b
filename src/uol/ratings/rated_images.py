"""Images with a panel's ratings: the one form that every data set takes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import UolError
from uol.images.read import Images
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


class Split(NamedTuple):
    """Which images train and which test."""

    train: Indices
    test: Indices


@dataclass(frozen=True)
class RatedImages:
    """n images with the panel's mean score, the variance of its ratings, and what else is known.

    `variances` is NaN and `counts` 0 where unknown; `histograms` (n, levels) counts the ratings at each `level`;
    `people` is how many rated or voted, where `ratings` do not show it, and `standard_errors` are those of scores that
    are scale values of votes; both are None where unknown.
    `groups` has one row per image (gender, ethnicity, …); `splits` names the data set's own divisions; `notes` say
    what the loader had to skip or repair. A set that nobody rated has NaN for every score: `rated` is then False.

    >>> pixels = np.zeros((2, 8, 8, 3), np.uint8)  # or paths, or PIL images
    >>> rated = RatedImages("two", pixels, names=["a", "b"], scores=np.array([2, 4.5]), scale=Scale(1, 5))
    >>> len(rated), rated.subset([1]).names
    (2, ['b'])
    """

    name: str
    images: Images
    names: Sequence[str]
    scores: Floats
    scale: Scale
    variances: Floats = field(default_factory=lambda: np.empty(0))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    histograms: Floats | None = None
    levels: Floats | None = None
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    splits: Mapping[str, Split] = field(default_factory=dict)
    ratings: Ratings | None = None
    people: int | None = None
    standard_errors: Floats | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        n = len(self.images)
        if n == 0:
            raise UolError(f"{self.name}: no rated images")
        if self.variances.size == 0:
            object.__setattr__(self, "variances", np.full(n, np.nan))
        if self.counts.size == 0:
            object.__setattr__(self, "counts", np.zeros(n, np.int64))
        for what in ("names", "scores", "variances", "counts"):
            if len(getattr(self, what)) != n:
                raise UolError(f"{self.name}: {n} images but {len(getattr(self, what))} {what}")
        bad = np.flatnonzero(~np.isfinite(self.scores))
        if bad.size and self.rated:
            raise UolError(
                f"{self.name}: {bad.size} of {n} images have no score (first: {self.names[bad[0]]}); "
                "rate every image at least once or remove it"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def rated(self) -> bool:
        """Whether any panel rated these images."""
        return not bool(np.isnan(self.scores).all())

    @property
    def fingerprint(self) -> str:
        """A digest of names, scores, variances and scale: the same for the same images with the same ratings."""
        digest = hashlib.sha256(repr((list(self.names), tuple(self.scale))).encode())
        digest.update(np.ascontiguousarray(self.scores).tobytes() + np.ascontiguousarray(self.variances).tobytes())
        return digest.hexdigest()

    def division(self, split: Split) -> str:
        """A digest of which images train and which test, by name: equal for equal splits of any name."""
        parts = [[self.names[i] for i in rows] for rows in split]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def subset(self, indices: npt.ArrayLike) -> RatedImages:
        """The images at `indices`, in that order, without the splits (they number the whole set)."""
        chosen = np.asarray(indices, np.intp)
        return replace(
            self,
            images=self.images[chosen] if isinstance(self.images, np.ndarray) else [self.images[i] for i in chosen],
            names=[self.names[i] for i in chosen],
            scores=self.scores[chosen],
            variances=self.variances[chosen],
            counts=self.counts[chosen],
            histograms=None if self.histograms is None else self.histograms[chosen],
            standard_errors=None if self.standard_errors is None else self.standard_errors[chosen],
            groups=self.groups.iloc[chosen].reset_index(drop=True) if len(self.groups) else self.groups,
            splits={},
            ratings=None if self.ratings is None else self.ratings.subset(chosen),
        )

    def rescaled(self, scale: Scale) -> RatedImages:
        """The same images with scores, variances and levels mapped linearly to another scale.

        >>> one = RatedImages("two faces", ["a.jpg", "b.jpg"], ["a", "b"], np.array([1.0, 10.0]), Scale(1, 10))
        >>> one.rescaled(Scale(1, 5)).scores
        array([1., 5.])
        """
        factor = (scale.high - scale.low) / (self.scale.high - self.scale.low)
        return replace(
            self,
            scale=scale,
            scores=self.scale.rescale(self.scores, scale),
            variances=self.variances * factor**2,
            standard_errors=None if self.standard_errors is None else self.standard_errors * factor,
            levels=None if self.levels is None else self.scale.rescale(self.levels, scale),
            ratings=None if self.ratings is None else self.ratings.mapped(lambda r: self.scale.rescale(r, scale)),
        )
