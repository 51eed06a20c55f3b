"""uol demo: the whole method on drawn faces, in a few minutes on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.options import JsonOption
from uol.cli.output import print_json, print_table, progress_bar, say


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the model.")] = Path("uol-demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of faces, raters and training.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train regression, order learning and UOL on drawn faces, compare them, and write a report with figures.

    Example: uol demo --out uol-demo
    """
    from uol.demo import METHODS, TABLE_COLUMNS, demo_recipe, run_demo

    epochs = demo_recipe(seed).epochs
    with progress_bar("training", epochs * len(METHODS)) as update:
        result = run_demo(out, seed, lambda done, word: update(done, word))
    if as_json:
        print_json(result)
    else:
        print_table(result["rows"], TABLE_COLUMNS)
    say(f"report: {out / 'report.html'}   model: {out / 'model'}   {result['seconds']:.0f} s")
