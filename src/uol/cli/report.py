"""uol report: a page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.output import check_page, say


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, or a folder of folds.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page; RUN/report.html by default.")] = None,
) -> None:
    """Write a page about a run: curves, errors by score and group, intervals, worst cases.

    Example: uol report runs/first
    """
    from uol.reports.run_report import write_run_report

    check_page(out)
    path = run / "report.html" if out is None else out
    write_run_report(run, path)
    say(f"report: {path}")
