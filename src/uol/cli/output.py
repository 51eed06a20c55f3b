"""What commands print: results on stdout as a table or as JSON, words and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category, east_asian_width

from uol.errors import CallError
from uol.storage.files import check_output, check_replaced, plain

if TYPE_CHECKING:
    from uol.datasets.choosing import DataChoice
    from uol.ratings.rated_images import RatedImages

_EVERY, _AT_LEAST_EVERY = 10, 60  # seconds between lines of progress
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})  # categories of Unicode
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they change the direction of a text
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def say(text: str) -> None:
    """Print a message on stderr; control characters, which names of files may have, are question marks."""
    print("\n".join(map(_plain, text.split("\n"))), file=sys.stderr)


def load(chosen: DataChoice) -> RatedImages:
    """Load a data set, or the answers of a study folder, and say what its loader skipped or repaired."""
    rated = _load_study(chosen) or chosen.load()
    for note in rated.notes:
        say(f"{rated.name}: {note}")
    return rated


def _load_study(chosen: DataChoice) -> RatedImages | None:
    """The images of a study with what participants said of them; None if the choice is no study folder."""
    from uol.study.folder import is_study

    if chosen.named or chosen.table is not None or not is_study(chosen.data):
        return None
    from uol.datasets.folds import with_folds
    from uol.study.folder import open_study
    from uol.study.rated import rated_images
    from uol.study.reading import read_answers
    from uol.study.results import Results

    if chosen.scale is not None or chosen.read or chosen.votes:
        raise CallError(f"{chosen.data}: a study folder; --scale, --read and --votes are for tables")
    study = open_study(chosen.data)
    rated = rated_images(Results(study, read_answers(study)))
    return rated if chosen.folds is None else with_folds(rated, chosen.folds)


def check_page(page: Path | None, inputs: Iterable[Path] = ()) -> None:
    """Refuse a page whose name does not end in .html, or that would overwrite an input or somebody else's page."""
    if page is not None:
        check_output(page, (".html", ".htm"), inputs)
        check_replaced(page, b'<meta name="generator" content="uol">')


def check_results(results: Path) -> None:
    """Refuse a folder of results that does not exist."""
    if not results.is_dir():
        raise CallError(f"{results}: no such folder of results; create it, or name one with --results")


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN and infinities become null, and characters escapes where they cannot be written."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    print(json.dumps(plain(value), indent=2, ensure_ascii=encoding != "utf8", allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Print rows under `columns` (key → heading); numbers to four digits, what is undefined as a dash.

    A terminal folds what is too wide for it; elsewhere each row is one line.
    """
    from uol.reports.formats import cell

    numeric = [any(isinstance(row.get(key), int | float) for row in rows) for key in columns]
    cells = [[_plain(cell(key, row.get(key))) for key in columns] for row in rows]
    if not sys.stdout.isatty():
        print(_aligned([list(columns.values()), *cells], numeric))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, right in zip(columns.values(), numeric, strict=True):
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # as it is: a file may be called [red].png
    Console().print(table)


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Lines of cells under one another, some columns aligned on the right."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        spaces = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        padded = [space + cell if end else cell + space for cell, space, end in zip(row, spaces, right, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A text whose control characters are question marks: they would break a line, or change the terminal."""
    if text.isprintable():
        return text
    return "".join("?" if category(one) in _CONTROLS or one in _TURNING else one for one in text)


def _width(text: str) -> int:
    """Columns that a text takes: characters of East Asia take two, accents that combine none."""
    if text.isascii():
        return len(text)
    return sum(0 if category(one) in _NO_WIDTH else 2 if east_asian_width(one) in "WF" else 1 for one in text)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left on a terminal, a line now and then in a pipe; call it with steps done and a word.

    `title` is a verb: scoring, reading drawn. Another one, `title=` of a call, begins again.
    """
    if not sys.stderr.isatty():
        yield ProgressLines(title, total).update
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[word]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, word="")

        def update(done: int, word: str = "", title: str | None = None) -> None:
            if title is not None and title != bar.tasks[0].description:
                bar.reset(task, description=title)
            bar.update(task, completed=done, word=word)

        yield update


class ProgressLines:
    """Plain lines of progress: the first after ten seconds, then one for each tenth of the work or each minute."""

    def __init__(self, title: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._total, self._clock = title, total, clock
        self._said_at, self._said = clock(), 0

    def update(self, done: int, word: str = "", title: str | None = None) -> None:
        """Print a line if it is time for one."""
        now = self._clock()
        if title is not None and title != self._title:
            self._title, self._said_at, self._said = title, now, 0
        waited, little = now - self._said_at, done - self._said < self._total / 10
        if done >= self._total or waited < (_AT_LEAST_EVERY if little else _EVERY):
            return
        self._said_at, self._said = now, done
        say(f"{self._title}: {done:,} of {self._total:,}{f', {word}' if word else ''}")
