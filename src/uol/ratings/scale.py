"""The scale on which a panel rates, and how differences on it become logits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Scale(NamedTuple):
    """The lowest and highest rating that a panel could give.

    >>> Scale(low=1, high=7).unit
    1.5
    """

    low: float
    high: float

    @property
    def unit(self) -> float:
        """A quarter of the range: 1 on the scale of 1 to 5, on which thresholds and bin widths are stated."""
        return (self.high - self.low) / 4

    @property
    def decimals(self) -> int:
        """How many decimals show a hundredth of the unit: 2 on the scale of 1 to 5."""
        return max(2 - math.floor(math.log10(self.unit)), 0)

    def rescale(self, values: npt.ArrayLike, to: Scale) -> Floats:
        """Map values linearly from this scale to another, as the paper does before comparing data sets.

        >>> Scale(1, 10).rescale([1, 5.5, 10], to=Scale(1, 5))
        array([1., 3., 5.])
        """
        factor = (to.high - to.low) / (self.high - self.low)
        return to.low + (np.asarray(values, np.float64) - self.low) * factor
