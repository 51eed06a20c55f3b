"""uol experiment groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.options import JsonOption, data_option
from uol.cli.output import load, print_json, print_table
from uol.datasets.choosing import DataChoice
from uol.errors import CallError


@data_option()
def groups(
    run: Annotated[Path, typer.Argument(help="A run folder, or a folder of folds.")],
    chosen: DataChoice,
    as_json: JsonOption = False,
) -> None:
    """Compare how well a run predicts each group of a data set with the reliability of the group's ratings.

    Nothing correlates with a panel's means by more than the root of their reliability within the group: the ceiling.
    The predictions are those of the run's test images, of a panel that trained it too, or those that uol evaluate
    made. Intervals of 95 % are over images.

    Example: uol experiment groups runs/joint --data mebeauty --root MEBeauty
    """
    from uol.experiments.ceiling_tables import COLUMNS, ceiling_cells
    from uol.runs.ceilings import run_ceilings

    rated = load(chosen)
    rows = [ceiling_cells(found) for found in run_ceilings(run, rated)]
    if not rows:
        raise CallError(f"{rated.name}: its images are in no groups of ten or more")
    if as_json:
        print_json(rows)
        return
    print_table(rows, COLUMNS)
