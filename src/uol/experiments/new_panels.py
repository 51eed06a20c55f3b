"""Intervals for a panel that nobody has seen: what they are learnt from, and how often they hold on panels left out.

A network's calibration describes errors on its panel. How far another panel may be from it shows on panels left out:
`uol.order.calibration.NEW_PANEL` is the largest root mean square error of networks of one panel on another. To test
the rule, the error for each panel left out is learnt from networks and panels that it had no part in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from uol.experiments.kept_predictions import read_kept
from uol.experiments.leave_one_out import LeftOut
from uol.experiments.rows import Cells, View
from uol.order.calibration import Calibration


def new_panel_error(found: Sequence[LeftOut], without: str | None = None) -> float | None:
    """The largest error of networks of one panel on another, as on a scale of 1 to 5; None if there are none.

    With `without`, that panel neither trained nor tested any of them.
    """
    errors = [
        figures.rmse / one.scale(panel).unit
        for one in found
        if len(one.panels) == 1 and without not in (one.left_out, one.panels[0].name)
        for panel, figures in one.readings.items()
        if figures.rmse is not None
    ]
    return max(errors, default=None)


def coverage_table(found: Sequence[LeftOut], folder: Path) -> View:
    """How many means of a panel left out lie in the network's intervals, and in those for a new panel."""
    rows: list[Cells] = []
    for one in found:
        error = new_panel_error(found, without=one.left_out)
        for panel in one.readings:
            table = read_kept(folder / one.file_name, panel)
            if table is None or error is None:
                continue
            scale = one.scale(panel)
            half = float(Calibration().for_new_panel(scale.unit, error).half_width(0.0))
            low, high = (np.clip(table["value"] + end, *scale) for end in (-half, half))
            row: Cells = {"left_out": one.left_out, "recipe": one.recipe, "read_on": panel, "images": len(table)}
            row |= {"panel": float(table["score"].between(table["low"], table["high"]).mean()), "error": error}
            row |= {"half": half / scale.unit, "new_panel": float(table["score"].between(low, high).mean())}
            rows.append(row)
    columns = {"left_out": "left out", "recipe": "recipe", "read_on": "read on", "images": "images",
               "panel": "in intervals for the panel", "error": "error learnt elsewhere", "half": "half width",
               "new_panel": "in intervals for a new panel"}  # fmt: skip
    return View(rows, columns)
