"""uol report: one page on a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.output import say


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, or a folder of runs such as --fold all makes.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page to write; RUN/report.html if none.")] = None,
) -> None:
    """Write a page with figures on a run: curves, errors by score and group, intervals, worst cases.

    Example: uol report runs/first
    """
    from uol.reports.run_report import write_run_report

    path = run / "report.html" if out is None else out
    write_run_report(run, path)
    say(f"report: {path}")
