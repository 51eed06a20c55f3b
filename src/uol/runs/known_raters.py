"""How lenient the raters of tested images are, by what they said of others: never of a tested one or its copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from uol.ratings.rated_images import Split
from uol.ratings.rater_effects import raters_leniency, raters_leniency_by_parts
from uol.training.packed import PackedImages
from uol.training.panels import pixel_digests, without_copies

_PARTS = 10


def known_leniency(packed: PackedImages, split: Split | None) -> npt.NDArray[np.float64] | None:
    """How lenient each test image's raters are, relative to raters of the training images; None if unknown.

    Without a split every image is tested: each by what its raters said of nine tenths of the images that it is not in.
    The tenths are dealt by pixels, so that copies are in one.
    """
    ratings = packed.rated.ratings
    if ratings is None or ratings.same_raters:  # before all pixels are looked at
        return None
    if split is not None:
        (known,) = without_copies([(packed, split)])
        leniency = raters_leniency(ratings, known)
        return None if leniency is None else leniency[np.asarray(split.test)]
    parts = np.array([int(digest, 16) % _PARTS for digest in pixel_digests(packed)], np.intp)
    return raters_leniency_by_parts(ratings, parts)
