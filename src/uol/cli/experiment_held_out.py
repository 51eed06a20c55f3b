"""uol experiment held-out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.output import print_json, print_table, say


def held_out(
    runs: Annotated[list[Path], typer.Argument(help="Folders of folds; or single runs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare runs, and their average, on the images they held out: to choose without looking at test images.

    Figures are means over folds, each on the images it held out; those of the average on images that all runs held out,
    which is all of them where held_out and held_out_seed are the same. A line was fitted to each run's scores on
    these images, so MAE and RMSE come out a little small.

    Example: uol experiment held-out runs/strong-0 runs/strong-1
    """
    from uol.runs.held_out import AVERAGE, figures_of

    rows = figures_of(runs)
    if len(rows) > 1 and rows[-1]["run"] != AVERAGE:
        say("no average: no image was held out by all")
    elif len({row["images"] for row in rows}) > 1:
        say("these runs held out different images: compare their figures with care")
    if as_json:
        print_json(rows)
        return
    columns = {"run": "run", "folds": "folds", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    print_table([dict(row) for row in rows], columns)
