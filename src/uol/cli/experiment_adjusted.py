"""uol experiment adjusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table, say
from uol.cli.train import DataOption, RootOption, TableOption


def adjusted(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of folds.")],
    data: DataOption = "mebeauty",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare what runs have said of a data set with means that are adjusted for who rated each image.

    Where not everybody rated everything, an image's mean tells also how lenient its raters were, of which an image
    shows little or nothing. The adjusted mean takes each rater's leniency off first, by a least-squares fit of images
    and raters to all ratings of the data set. Figures are means over a run's folds, other seeds apart, with 95 %
    intervals of a bootstrap over images.

    Example: uol experiment adjusted runs/distilled runs/best --data mebeauty --root MEBeauty
    """
    from uol.ratings.rater_effects import unconnected_sets
    from uol.reports.formats import told_interval
    from uol.studies.adjusting import figures_of

    rated = load(data, root, table, scale, read)
    rows = figures_of(runs, rated)
    if rated.ratings is not None and (sets := unconnected_sets(rated.ratings)) > 1:
        say(f"{rated.name}: {sets} sets of images with no rater in common: their adjusted means cannot be compared")
    if as_json:
        print_json(rows)
        return
    columns = {
        "run": "run", "folds": "folds", "images": "images", "pc": "PC", "interval": "95 % of PC",
        "adjusted_pc": "adjusted PC", "adjusted_interval": "95 % of adjusted PC",
    }  # fmt: skip
    told = [
        {
            **row,
            "interval": told_interval(row["interval"]),
            "adjusted_interval": told_interval(row["adjusted_interval"]),
        }
        for row in rows
    ]
    print_table(told, columns)
