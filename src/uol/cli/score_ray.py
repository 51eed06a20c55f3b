"""uol score --on ray."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from uol.cli.output import print_json, progress_bar, say
from uol.errors import CallError, StoppedError, counted

if TYPE_CHECKING:
    from uol.scale.bulk_scoring import Request, Summary


def read_settings(given: Sequence[str]) -> dict[str, str]:
    """Columns of Parquet files by what they hold."""
    settings = [text.partition("=") for text in given]
    for name, _, value in settings:
        if name not in ("image", "key") or not value:
            raise CallError(f"--read {name}: of Parquet files, write image=COLUMN or key=COLUMN")
    return {name: value for name, _, value in settings}


def score_on_ray(request: Request, price: float | None, as_json: bool) -> None:
    """Score a source in parts, with lines of progress and a closing summary."""
    from uol.scale.bulk_scoring import score_on_ray

    done = 0
    update: Callable[..., None] | None = None
    with ExitStack() as shown:

        def progress(now: int, total: int) -> None:
            nonlocal done, update
            done = now
            update = update or shown.enter_context(progress_bar("scoring", total))
            update(now)

        try:
            summary = score_on_ray(request, sys.stdin, say, progress)
        except KeyboardInterrupt:
            raise StoppedError(f"interrupted after {counted(done, 'image')}; run the same command to resume") from None
    _show(summary, request.out, price, as_json)
    if summary.not_fetched:
        say(f"uol: {counted(summary.not_fetched, 'row')} not fetched; run the same command to try these images again")
        raise typer.Exit(1)


def _show(summary: Summary, out: str, price: float | None, as_json: bool) -> None:
    speed, counts = summary.images_per_second, summary.counts
    cost = None if price is None else summary.cost_per_million(price)
    if as_json:
        print_json({
            "out": out, "images": counts.images, "rows": counts.rows, "errors": counts.errors,
            "before": summary.before, "workers": summary.workers, "seconds": summary.seconds,
            "start_seconds": summary.start_seconds, "images_per_second": speed, "cost_per_million": cost,
        })  # fmt: skip
        return
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.errors.items()))
    failed = f", {sum(counts.errors.values()):,} with an error ({kinds})" if kinds else ""
    say(f"{counts.images:,} images, {counts.rows:,} rows{failed}: {out}")
    if speed is not None:
        words = f"{speed:,.1f} images per second by {counted(summary.workers, 'worker')}"
        say(words + ("" if cost is None else f"; a million images cost {cost:,.2f} at {price:g} an hour"))
