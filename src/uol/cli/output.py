"""What commands print: results on stdout as a table or as JSON, words and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uol.errors import CallError
from uol.storage.files import plain

if TYPE_CHECKING:
    from uol.datasets.choosing import DataChoice
    from uol.ratings.rated_images import RatedImages


def say(text: str) -> None:
    """Print a message on stderr."""
    print(text, file=sys.stderr)


def load(chosen: DataChoice) -> RatedImages:
    """Load a data set and say what its loader skipped or repaired."""
    rated = chosen.load()
    for note in rated.notes:
        say(f"{rated.name}: {note}")
    return rated


def check_results(results: Path) -> None:
    """Refuse a folder of results that does not exist."""
    if not results.is_dir():
        raise CallError(f"{results}: no such folder of results; create it, or name one with --results")


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN and infinities become null."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Print rows under `columns` (key → heading); numbers to four digits, what is undefined as a dash."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from uol.reports.formats import cell

    table = Table(box=None, pad_edge=False, header_style="bold")
    for key, heading in columns.items():
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(key, row.get(key))) for key in columns))  # as it is: a file may be called [red].png
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left on a terminal, nothing in a pipe; call it with the steps done and a word."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[word]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total, word="")

        def update(done: int, word: str = "") -> None:
            bar.update(task, completed=done, word=word)

        yield update
