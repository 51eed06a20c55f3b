"""Several panels that train one network: joined for training, never compared, each with separate references afterwards.

Panels have different standards: an image that one calls 3.4 another may call 4. So an image is only ever compared with
images of its own panel. Thresholds, bin widths and errors are stated as on a scale of 1 to 5 and stretched to a
panel's own; here the panels are stretched instead, to the scale of the first, which comes to the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from uol.errors import CallError, UolError
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe


def join(panels: Sequence[PackedImages]) -> PackedImages:
    """Join panels to one set of images to train on; its `parts` are the single panels.

    Scores and variances are stretched to the first panel's scale. Histograms have as many levels as the longest, with 0
    ratings at the levels that a panel does not have, and no ratings at all if a panel's are unknown.
    """
    first = panels[0]
    if len(panels) == 1:
        return first
    names = [panel.rated.name for panel in panels]
    if len(set(names)) < len(names):
        raise CallError(f"panels that train together need different names: {', '.join(names)}")
    for panel in panels:
        if not panel.rated.rated:
            raise UolError(f"{panel.rated.name}: nobody rated these images; training needs ratings")
        if (panel.crop, panel.pixels.shape[1:]) != (first.crop, first.pixels.shape[1:]):
            raise ValueError("panels that train together must be framed in the same way")
    moved = [panel.rated.rescaled(first.rated.scale) for panel in panels]
    rated = RatedImages(
        name="+".join(names),
        images=[image for panel in moved for image in panel.images],
        names=[f"{panel.name}/{name}" for panel in moved for name in panel.names],
        scores=np.concatenate([first.rated.scores, *(panel.scores for panel in moved[1:])]),
        scale=first.rated.scale,
        variances=np.concatenate([panel.variances for panel in moved]),
        counts=np.concatenate([panel.counts for panel in moved]),
        histograms=_histograms([panel.rated for panel in panels]),
    )
    import torch  # here alone: copies are found without it

    pixels = torch.cat([panel.pixels for panel in panels])
    views = torch.split(pixels, [len(panel) for panel in panels])  # the same memory, not another copy of all images
    parts = tuple(PackedImages(p.rated, view, p.crop) for p, view in zip(panels, views, strict=True))
    return PackedImages(rated, pixels, first.crop, parts)


def rating_levels(packed: PackedImages) -> int:
    """The number of levels in the histograms of ratings, 0 if they are unknown."""
    histograms = packed.rated.histograms
    return 0 if histograms is None else histograms.shape[1]


def check_panels(packed: PackedImages, recipe: Recipe) -> None:
    """Refuse panels that are smaller than a batch, and `panel_passes` of another number than the panels."""
    number = len(packed.panels)
    if recipe.panel_passes and len(recipe.panel_passes) != number:
        found = ", ".join(panel.rated.name for panel in packed.panels)
        raise CallError(f"panel_passes: one number for each of {number} panels ({found}), not {recipe.panel_passes}")
    for panel in packed.parts:
        if len(panel) < recipe.batch_size:
            raise UolError(
                f"{panel.rated.name}: {len(panel)} training images do not fill a batch, and batches of several panels "
                f"are of one size: lower batch_size (now {recipe.batch_size})"
            )


def without_copies(panels: Sequence[tuple[PackedImages, Split]]) -> list[Indices]:
    """The training images of each panel, without those that have the same pixels as a test image of any panel.

    One photograph may be in a data set under two names, or in two data sets. Near copies (`uol.datasets.checks`) stay.
    """
    digests = [pixel_digests(packed) for packed, _ in panels]
    tested = np.concatenate([digest[split.test] for digest, (_, split) in zip(digests, panels, strict=True)])
    return [
        split.train[~np.isin(digest[split.train], tested)] for digest, (_, split) in zip(digests, panels, strict=True)
    ]


def pixel_digests(packed: PackedImages) -> npt.NDArray[np.bytes_]:
    """A digest of each image's pixels, in hexadecimal, equal for copies."""
    rows = (np.ascontiguousarray(row).data for row in np.asarray(packed.pixels))
    return np.array([hashlib.blake2b(row, digest_size=16).hexdigest() for row in rows], "S32")


def _histograms(panels: Sequence[RatedImages]) -> npt.NDArray[np.float64] | None:
    found = [np.zeros((len(panel), 0)) if panel.histograms is None else panel.histograms for panel in panels]
    levels = max(histogram.shape[1] for histogram in found)
    if levels == 0:
        return None
    return np.concatenate([np.pad(histogram, ((0, 0), (0, levels - histogram.shape[1]))) for histogram in found])
