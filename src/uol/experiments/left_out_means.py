"""Means of several kinds of network on a panel left out, from the predictions that are kept with their results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from uol.experiments.kept_predictions import read_kept
from uol.experiments.leave_one_out import LeftOut
from uol.experiments.rows import Cells, View, interval_of
from uol.ratings.metrics import pearson
from uol.reports.formats import format_interval
from uol.runs.bootstrap import mean_of, paired
from uol.runs.predictions import replicates_elsewhere

MEMBERS = (
    ("strong-balanced-again", "transformer-balanced", "hiera-balanced"),
    ("panels-best", "panels-transformer", "panels-hiera"),
)
"""Networks of three kinds, VGG16, DINOv2's ViT-S and SAM 2's Hiera-Tiny: with as many steps for both panels, and with
the passes of the recipes that ship."""


def means_table(found: Sequence[LeftOut], folder: Path) -> View:
    """The mean of each of `MEMBERS` on each panel left out, by the panel that reads, against the first of them."""
    rows: list[Cells] = []
    for first, names in ((one, names) for names in MEMBERS for one in found if one.recipe == names[0]):
        others = [one for one in found if (one.left_out, one.seed) == (first.left_out, first.seed)]
        for panel in first.readings:
            members = [one for name in names for one in others if one.recipe == name and panel in one.readings]
            tables = [read_kept(folder / one.file_name, panel) for one in members]
            known = [table.set_index("image") for table in tables if table is not None]
            if len(known) < 2 or len(known) < len(members):
                continue
            aligned = [table.loc[known[0].index].reset_index() for table in known]
            mean = aligned[0].assign(value=np.mean([table["value"] for table in aligned], 0))
            pc = pearson(mean["score"], mean["value"])
            drawn = mean_of([replicates_elsewhere(mean, first.left_out).pc])
            alone = first.readings[panel]
            before = mean_of([None if alone.replicates is None else alone.replicates.pc])
            row: Cells = {"left_out": first.left_out, "members": ", ".join(one.recipe for one in members)}
            row |= {"read_on": panel, "images": len(mean), "pc": pc, "interval_pc": format_interval(interval_of(drawn))}
            if drawn is not None and before is not None and alone.pc is not None:
                gap = paired(pc, alone.pc, drawn, before)
                row |= {"difference": gap.difference, "interval": format_interval((gap.low, gap.high), signed=True)}
            rows.append(row)
    columns = {"left_out": "left out", "members": "mean of", "read_on": "read on", "images": "images", "pc": "PC",
               "interval_pc": "95 % of PC", "difference": "above the first alone", "interval": "95 %"}  # fmt: skip
    return View(rows, columns)
