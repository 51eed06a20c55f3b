"""Gender and ethnicity of the people in images, as the numbers that method AaNet is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.ratings.rated_images import RatedImages

# Of either attribute: the columns of a data set that may say it, and the numbers of its words.
_ATTRIBUTES = (
    (("gender", "sex"), {"female": -1.0, "f": -1.0, "male": 1.0, "m": 1.0}),
    (("ethnicity", "race"), {"asian": -1.0, "caucasian": 1.0, "white": 1.0}),
)


def attributes_of(rated: RatedImages) -> npt.NDArray[np.float32]:
    """Gender and ethnicity, (N, 2): female −1, male +1; asian −1, caucasian +1; 0 for any other word, or none.

    The words are fixed, so that a number means the same in every data set. Of several columns for one attribute, the
    first with any entry is read.
    """
    found = np.zeros((len(rated), 2), np.float32)
    for column, (names, numbers) in enumerate(_ATTRIBUTES):
        for name in names:
            words = [] if name not in rated.groups else [_word(value) for value in rated.groups[name]]
            if any(words):
                found[:, column] = [numbers.get(word, 0.0) for word in words]
                break
    return found


def _word(value: Any) -> str:
    return "" if pd.isna(value) else str(value).strip().lower()
