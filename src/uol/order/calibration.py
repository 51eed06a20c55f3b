"""Intervals that hold: the errors of scores learnt from held-out rated images, and applying what was learnt.

The likelihood's standard error counts the comparisons with hundreds of references as independent evidence, and k
was fitted on images the network knows: it is far too narrow. Held-out images of the panel correct it:

    value    = intercept + slope · (Bradley-Terry score)
    interval = value ± quantile · √((scale · standard error)² + floor²)

`scale` and `floor` maximise the Gaussian likelihood of the held-out errors; `quantile` is then the quantile of the
errors standardised by them, as in split-conformal prediction, but on the same images: the stated coverage is met
closely from some fifty images on, not guaranteed. Where the likelihood's errors carry no information, `scale` is 0 and
all widths are equal. Probabilities of comparisons are softened by a temperature that makes the order of the held-out
images likeliest. The predicted degree of dispersion becomes a standard deviation of ratings in the panel's units by a
straight line between logarithms.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from uol.ratings.numerics import Slopes, least_between, minimise, normal_quantile, student_quantile

Floats = npt.NDArray[np.float64]

ENOUGH_FOR_LINE = 30  # below this many images a fitted line is worse than none
LEAST_DEGREE = 1e-12  # of dispersion: that of a point, which has no logarithm, is raised to it
NEW_PANEL = 0.580
"""Root mean square error on a panel that did not train the network, as on a scale of 1 to 5.

It is the largest of networks of one panel on another: `uol experiment table leave-one-out --show coverage`."""
NORMAL_95 = 1.959963984540054
_LEAST_SLOPE = 0.1
_TEMPERATURES = (-1.4, 3.0)  # logarithms of the lowest and highest
_DIAGONAL = 2  # images that few others are joined by: ten alone may slope anywhere
_ENOUGH_FOR_QUANTILE = 40  # below this, the 95 % quantile of a sample is about its maximum


class Calibrated(NamedTuple):
    """Scores, the ends of their intervals and standard deviations of ratings in the panel's units, each (N,)."""

    value: Floats
    low: Floats
    high: Floats
    dispersion: Floats


class Calibration(BaseModel):
    """How raw estimates become scores with intervals; stored in `config.json` of a model folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: float = Field(0.95, gt=0, lt=1, description="the share of panel means that intervals should cover")
    intercept: float = 0.0
    slope: float = 1.0
    scale: float = Field(1.0, ge=0)
    floor: float = Field(0.0, ge=0)
    quantile: float = Field(NORMAL_95, gt=0, description="of a standard normal error, until learnt")
    dispersion_intercept: float | None = Field(None, description="None where the spread of ratings is unknown")
    dispersion_slope: float = 0.0
    temperature: float = Field(1.0, gt=0, description="of comparisons: above 1 where the network is too sure")
    images: int = Field(0, ge=0, description="how many held-out images it was fitted to; 0: the likelihood's interval")

    def apply(
        self,
        raw: npt.ArrayLike,
        standard_error: npt.ArrayLike,
        degree: npt.ArrayLike,
        bounds: tuple[float, float],
    ) -> Calibrated:
        """Scores with intervals, within `bounds`, and dispersions of N raw estimates, each (N,)."""
        value, half = self.value(raw, bounds), self.half_width(standard_error)
        low, high = np.clip(value - half, *bounds), np.clip(value + half, *bounds)
        return Calibrated(value, low, high, self.dispersion(degree))

    def value(self, raw: npt.ArrayLike, bounds: tuple[float, float]) -> Floats:
        """Scores from Bradley-Terry scores, within `bounds`."""
        return np.clip(self.intercept + self.slope * np.asarray(raw, np.float64), *bounds)

    def half_width(self, standard_error: npt.ArrayLike) -> Floats:
        """Half the width of the interval for each standard error."""
        spread = np.hypot(self.scale * np.asarray(standard_error, np.float64), self.floor)
        return self.quantile * spread

    def dispersion(self, degree: npt.ArrayLike) -> Floats:
        """Standard deviation of the panel's ratings for each predicted degree of dispersion; NaN where unknown."""
        degree = np.maximum(np.asarray(degree, np.float64), LEAST_DEGREE)
        if self.dispersion_intercept is None:
            return np.full(degree.shape, np.nan)
        return np.exp(self.dispersion_intercept + self.dispersion_slope * np.log(degree))

    def comparison(self, probabilities: npt.ArrayLike) -> Floats:
        """Probabilities of less, similar and greater, softened: p^(1/temperature), summing to one again: (..., 3)."""
        return _softened(np.asarray(probabilities, np.float64), self.temperature)

    def with_comparisons(self, probabilities: npt.ArrayLike, order: npt.ArrayLike) -> Self:
        """The same with the temperature under which what happened in P comparisons is likeliest: (P, 3), (P,)."""
        p, happened = np.asarray(probabilities, np.float64), np.asarray(order, np.intp)
        if len(p) < ENOUGH_FOR_LINE:
            return self
        rows = np.arange(len(p))

        def surprise(logarithm: float) -> float:
            predicted = _softened(p, float(np.exp(logarithm)))[rows, happened]
            return float(-np.log(np.maximum(predicted, 1e-12)).mean())

        return self.model_copy(update={"temperature": float(np.exp(least_between(surprise, *_TEMPERATURES, 1e-3)))})

    def with_dispersion(self, degree: npt.ArrayLike, rating_variance: npt.ArrayLike) -> Self:
        """The same with a line log(sd of ratings) = intercept + slope · log(degree) fitted to known variances.

        From few images, or for points without a spread, it is the typical standard deviation for all.
        """
        x, y = np.asarray(degree, np.float64), np.asarray(rating_variance, np.float64)
        known = np.isfinite(y) & (y > 0)
        if not known.any():
            return self
        x, y = np.log(np.maximum(x[known], LEAST_DEGREE)), 0.5 * np.log(y[known])
        slope = _slope(x, y) if len(y) >= ENOUGH_FOR_LINE and np.ptp(x) > 1e-9 else 0.0
        return self.model_copy(
            update={"dispersion_intercept": float(y.mean() - slope * x.mean()), "dispersion_slope": slope}
        )

    def for_new_panel(self, unit: float, error: float = NEW_PANEL) -> Self:
        """The same with intervals for the mean of a panel that nobody has seen, of one width for all images.

        `unit` is that of the scale, and `error` the error to expect, as on a scale of 1 to 5, if the model's on its
        panel is not larger.
        """
        floor = max(error * unit, self.floor * self.quantile / NORMAL_95)
        return self.model_copy(update={"scale": 0.0, "floor": floor, "quantile": NORMAL_95})

    def with_dispersion_of(self, other: Calibration) -> Self:
        """The same with another calibration's line for dispersion."""
        return self.model_copy(update=other.model_dump(include={"dispersion_intercept", "dispersion_slope"}))


def _softened(probabilities: Floats, temperature: float) -> Floats:
    logits = np.log(np.maximum(probabilities, 1e-300)) / temperature
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def calibrate(
    truth: npt.ArrayLike,
    raw: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    level: float = 0.95,
    line: bool = True,
    enough: int = ENOUGH_FOR_LINE,
) -> Calibration:
    """Learn a `Calibration` from images whose panel means `truth` had no part in their raw scores.

    From fewer than `enough` images no line is fitted. From fewer than 30 its slope is drawn towards one, and it is
    never so small as to level all scores or turn their order round. From fewer than 40 the quantile is Student's
    instead of the sample's. Errors are widened by √(n/(n − p)) for the p numbers fitted to them.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(1, 5, 200)
    >>> learnt = calibrate(truth, truth + rng.normal(0, 0.3, 200), np.full(200, 0.05))
    >>> bool(0.5 < learnt.half_width(0.05) < 0.7)  # near 1.96 · 0.3, not 1.96 · 0.05
    True
    """
    y, x = np.asarray(truth, np.float64), np.asarray(raw, np.float64)
    error = np.asarray(standard_error, np.float64)
    n = len(y)
    if n < 2:
        return Calibration(level=level, quantile=float(normal_quantile(0.5 + level / 2)))
    slope, intercept = 1.0, 0.0
    if line and n >= enough:
        slope = max(_slope(x, y, _DIAGONAL if n < ENOUGH_FOR_LINE else 0), _LEAST_SLOPE)
        intercept = float(y.mean() - slope * x.mean())
    residual = y - (intercept + slope * x)
    scale, floor = _spread(residual, error)
    free = max(n - (2 if slope == 1 and intercept == 0 else 4), 1)
    standardised = np.abs(residual) / np.hypot(scale * error, floor) * np.sqrt(n / free)
    if n >= _ENOUGH_FOR_QUANTILE:
        rank = min(int(np.ceil((n + 1) * level)), n)
        quantile = float(np.sort(standardised)[rank - 1])
    else:
        quantile = float(student_quantile(free, 0.5 + level / 2) * np.sqrt(np.square(standardised).mean()))
    return Calibration(
        level=level,
        intercept=intercept,
        slope=slope,
        scale=scale,
        floor=floor,
        quantile=max(quantile, 1e-9),
        images=n,
    )


def _slope(x: Floats, y: Floats, diagonal: int = 0) -> float:
    """Least-squares slope, as if `diagonal` more images lay on a slope of one; 1 where x is constant."""
    centred = x - x.mean()
    square = float(centred @ centred)
    more = diagonal * square / len(x)
    return (float(centred @ y) + more) / (square + more) if square > 1e-12 else 1.0


def _spread(residual: Floats, error: Floats) -> tuple[float, float]:
    """scale and floor that maximise the Gaussian likelihood of residuals with variance (scale·error)² + floor².

    Standard errors may be 0, most of them too: their unit is the median of the others. If all are, so is `scale`.
    """
    typical = float(np.sqrt(np.square(residual).mean())) or 1e-6
    some = error[error > 0]
    middle = max(float(np.median(some)), 1e-12) if some.size else 1.0
    relative, unit = np.square(residual / typical), np.square(error / middle)

    def negative(squares: Floats) -> Slopes:
        variance = squares[0] * unit + squares[1]
        by_variance = (1 - relative / variance) / variance
        both = unit / variance**2
        across = both.mean()
        expected = np.array([[(unit * both).mean(), across], [across, (variance**-2.0).mean()]]) / 2
        gradient = np.array([(by_variance * unit).mean(), by_variance.mean()]) / 2
        return float((np.log(variance) + relative / variance).mean() / 2), gradient, expected

    low, high = np.array([0.0, 0.05**2]), np.array([100.0 if some.size else 0.0, 100.0])
    found = [minimise(negative, np.square(start), low, high) for start in ((0.3, 0.9), (0.9, 0.3))]
    scale, floor = np.sqrt(min(found, key=lambda squares: negative(squares)[0]))
    return float(scale) * typical / middle, float(floor) * typical
