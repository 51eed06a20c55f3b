"""Panels that train one network together, and what a run keeps of each of them after the first.

The model folder has each panel's references and calibration; the run keeps predictions of each panel's test images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from uol.ratings.rated_images import Indices, Split
from uol.runs.evaluation import figures_of, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.known_raters import known_leniency
from uol.runs.predictions import tested_parts
from uol.scoring.base import BaseScorer
from uol.training.packed import PackedImages
from uol.training.panels import join, without_copies
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, held_out_count


class PanelSplit(NamedTuple):
    """A panel's images, and which of them train and test by the split of a name."""

    packed: PackedImages
    name: str
    split: Split

    @property
    def fingerprints(self) -> tuple[str, str, str, str]:
        """The data set's name, the split's, and digests of ratings and pixels."""
        rated = self.packed.rated
        return rated.name, self.name, rated.fingerprint, self.packed.checksum

    @property
    def division(self) -> str:
        """A digest of which images train and test."""
        return self.packed.rated.division(self.split)


def gather(panels: Sequence[PanelSplit]) -> tuple[PackedImages, list[Indices]]:
    """The images that train, and which images of each panel these are.

    Of several panels, images are left out whose pixels are those of a test image of any panel; of one, none are.
    """
    rows = training_rows(panels)
    return join([panel.packed.subset(own) for panel, own in zip(panels, rows, strict=True)]), rows


def training_rows(panels: Sequence[PanelSplit]) -> list[Indices]:
    """Which images of each panel train or calibrate a network."""
    if len(panels) == 1:
        return [panels[0].split.train]
    return without_copies([(panel.packed, panel.split) for panel in panels])


def joint_name(panels: Sequence[PanelSplit]) -> str:
    """The name of several data sets that train together: a+b."""
    return "+".join(panel.packed.rated.name for panel in panels)


def panels_used(panels: Sequence[PanelSplit], rows: Sequence[Indices], recipe: Recipe) -> list[dict[str, Any]]:
    """Provenance: every panel that trained, the first first, with what was left out of it."""
    return [
        data_used(panel, panel.packed.checksum, len(own), recipe)
        | {"split": panel.name, "left_out": len(panel.split.train) - len(own)}
        for panel, own in zip(panels, rows, strict=True)
    ]


def data_used(panel: PanelSplit, pixels: str, training: int, recipe: Recipe) -> dict[str, Any]:
    """Provenance: one data set, of which this many images trained or calibrated."""
    held_out = held_out_count(training, recipe)
    return {
        "name": panel.packed.rated.name,
        "fingerprint": panel.packed.rated.fingerprint,
        "pixels": pixels,
        "scale": list(panel.packed.rated.scale),
        "training": training - held_out,
        "held_out": held_out,
        "test": len(panel.split.test),
        "division": panel.division,
    }


def keep_panel(scorer: BaseScorer, panel: PanelSplit, run: RunFolder, threshold: float) -> dict[str, Any] | None:
    """Write predictions of a panel's test images; their figures, or None where it has none."""
    place = run.panel(panel.packed.rated.name)
    if len(panel.split.test) == 0:
        return None
    test = panel.packed.subset(panel.split.test)
    predictions = Predictions.of(scorer.score_embedded(scorer.embed_pixels(test.centre)))
    table = predictions_table(test.rated, predictions, known_leniency(panel.packed, panel.split))
    return {
        **figures_of(table, threshold * test.rated.scale.unit),
        **keep_tested(table, place, panel.packed.rated.fingerprint, panel.name),
    }


def keep_tested(table: pd.DataFrame, place: RunFolder, fingerprint: str, split: str) -> dict[str, Any]:
    """Write predictions of a panel's test images; their statistics. `fingerprint` is of all its images."""
    place.write_predictions(table)
    return {
        "trained": True,
        "split": split,
        "score_sd": float(np.std(table["score"])),
        **tested_parts(table, fingerprint, split),
    }
