"""Numbers in a column of ratings that are probably no ratings: codes such as 99 for no answer, and slips of the key.

Nothing is decided here: what is doubtful is reported, and the user says what it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from uol.ratings.scale import Scale

Floats = npt.NDArray[np.float64]

USUAL_SCALES = [(0, 1), (-1, 1), (1, 5), (0, 5), (1, 7), (-3, 3), (1, 9), (1, 10), (0, 10), (1, 100), (0, 100)]
_CODES = (-9999, -999, -998, -99, -98, -97, -88, -77, -66, -55, -9, -8, -7, -1,
          66, 77, 88, 97, 98, 99, 666, 777, 888, 997, 998, 999, 9999)  # fmt: skip
_WIDE = ((-3, 10), (0, 100))  # what nearly all ratings are within
_FEW = 0.1  # of the ratings: as many may be slips of the key
_ODD_TOPS = (5, 7, 9)  # scales from 1 to these are common, and from 0 to these are rare


def guess_scale(values: Floats) -> Scale:
    """The narrowest usual rating scale that holds all values, else the whole numbers around them."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    for usual in USUAL_SCALES:
        if usual[0] <= low and high <= usual[1]:
            return Scale(*map(float, usual))
    bottom = float(np.floor(low))
    return Scale(bottom, max(float(np.ceil(high)), bottom + 1))


def doubtful_values(values: Floats) -> list[float]:
    """Values that are probably no ratings, rising; an empty list where all fit one scale.

    - a usual code outside the scale of the rest: −99, −9, 99, 999 …, and 8 or 9 with a gap below them;
    - at most one value in ten outside −3 … 10, or outside 0 … 100, where all others are within;
    - 0 where the rest are whole numbers up to 5, 7 or 9, or where 0 is more than twice as frequent as 1;
    - 99 on a slider, if it is far more frequent than its neighbours.
    """
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if found.size < 2:
        return []
    return _codes(found) or _slips(found, counts) or _zero(found, counts) or _spike(found, counts)


def _codes(found: Floats) -> list[float]:
    codes = np.isin(found, _CODES)
    high = found[~codes & ~np.isin(found, (8, 9))]
    if high.size and high.max() <= 7 and high.min() >= 0:  # 8 and 9 are codes if nothing leads up to them
        top = found[np.isin(found, (8, 9))]
        if top.size and top.min() - high.max() >= 2 and high.size > 2:
            codes |= np.isin(found, (8, 9))
    rest = found[~codes]
    if not rest.size or not codes.any():
        return []
    scale = guess_scale(rest)
    if not any(low <= scale.low and scale.high <= high for low, high in _WIDE):
        return []  # not ratings on a usual scale: nothing is known of its ends
    outside = found[codes & ((found < scale.low) | (found > scale.high))]
    if np.array_equal(outside, [-1]) and rest.max() <= 1:  # −1, 0, 1
        return []
    if outside.size and outside.min() > rest.max() and (rest > 10).any():  # a slider's upper end
        outside = outside[outside > 100]
    return [float(value) for value in outside]


def _slips(found: Floats, counts: npt.NDArray[np.intp]) -> list[float]:
    for low, high in _WIDE:
        outside = (found < low) | (found > high)
        if outside.any() and counts[outside].sum() <= max(_FEW * counts.sum(), 1) and counts.sum() >= 10:
            return [float(value) for value in found[outside]]
    return []


def _zero(found: Floats, counts: npt.NDArray[np.intp]) -> list[float]:
    if found[0] != 0 or found[-1] > 10 or found[-1] < 2:
        return []
    if np.any(found % 1):  # means, of which none is between 0 and 1
        return [0.0] if found[1] >= 1 and len(found) > 2 else []
    ones = counts[found == 1].sum()
    if found[-1] in _ODD_TOPS or (counts[0] > 2 * ones and counts.sum() >= 20):
        return [0.0]
    return []


def _spike(found: Floats, counts: npt.NDArray[np.intp]) -> list[float]:
    if 99 not in found or found[-1] > 100 or counts.sum() < 50:
        return []
    often = counts[found == 99].sum()
    near = max(counts[found == 97].sum(), counts[found == 98].sum())
    return [99.0] if often > max(5 * near, 0.03 * counts.sum()) else []
