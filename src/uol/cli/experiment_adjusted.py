"""uol experiment adjusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table
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

    Where not everybody rated everything, an image's mean tells also how lenient its raters were, which no image shows.
    The adjusted mean takes each rater's leniency off first, by a least-squares fit of images and raters to all ratings
    of the data set. Figures are means over a run's networks, with 95 % intervals of a bootstrap over images.

    Example: uol experiment adjusted runs/distilled runs/best --data mebeauty --root MEBeauty
    """
    from uol.experiments.adjusting import figures_of

    rows = figures_of(runs, load(data, root, table, scale, read))
    if as_json:
        print_json(rows)
        return
    columns = {"run": "run", "networks": "networks", "images": "images", "pc": "PC", "interval": "95 %",
               "adjusted_pc": "adjusted PC", "adjusted_interval": "95 % of it"}  # fmt: skip
    print_table(
        [{**row, **{key: _told(row[key]) for key in ("interval", "adjusted_interval")}} for row in rows], columns
    )


def _told(interval: tuple[float, float] | None) -> str | None:
    return None if interval is None else "{:.4f}–{:.4f}".format(*interval)
