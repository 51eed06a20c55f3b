"""The document of results: prose by hand, and tables that are made again between markers.

A block begins with `<!-- table: NAME -->`, `<!-- table: NAME KIND -->` with a kind of `uol.experiments.tables`, or
`<!-- table: NAME KIND RECIPE … -->` for some rows alone, and ends with `<!-- end -->`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

from uol.errors import CallError, UolError
from uol.experiments.rows import ARCHIVE, Source, find_source
from uol.experiments.tables import OLD_NAMES, view
from uol.reports.formats import markdown
from uol.storage.files import why_unread

END = "<!-- end -->"
DOCUMENTS = {  # each with the folder, within that of the results, that its tables are made from
    Path("docs/results.md"): "",
    Path("docs/results-appendix.md"): "",
    Path("README.md"): "",
    Path("results/archive/README.md"): ARCHIVE,
}
_START = re.compile(r"^<!-- table: *(\S+)(?: +(\S+)((?: +\S+)*?))? *-->$")
_EMPTY = {
    "seeds": "No split was run with more than one seed.",
    "transfer": "No result on another data set.",
    "panels": "No network was trained on several panels.",
    "headline": "No row has all its predictions.",
    "earlier": "All rows have their predictions.",
    "differences": "No two rows to compare.",
    "makeup": "No result on pairs with and without make-up.",
}


def render(text: str, source_of: Callable[[str], Source]) -> str:
    """The text with every block made again from the results of its experiment; nothing else changes."""
    lines: list[str] = []
    open_block: str | None = None
    for line in text.split("\n"):
        start = _START.match(line)
        if start is not None and open_block is None:
            open_block = line
            source = source_of(start[1]).only((start[3] or "").split())
            lines += [line, *block(start[2] or "main", source).splitlines()]
        elif start is not None:
            break
        elif line == END and open_block is not None:
            open_block = None
        elif line == END:
            raise UolError(f"a line {END} without a block to end")
        if open_block is None:
            lines.append(line)
    if open_block is not None:
        raise UolError(f"{open_block} has no line {END}")
    return "\n".join(lines)


def block(kind: str, source: Source) -> str:
    """What stands between a block's markers: a Markdown table, or that there is nothing to show."""
    rows, columns = view(kind, source)
    if source.empty:
        return "\nNo results yet.\n\n"
    if not rows:
        return f"\n{_EMPTY.get(OLD_NAMES.get(kind, kind), 'No results yet.')}\n\n"
    return f"\n{markdown(rows, columns)}\n"


def rendered(document: Path, results: Path) -> str:
    """A document's text as the results in a folder make it."""
    try:
        text = document.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CallError(f"{document}: not there; write one with lines <!-- table: NAME --> and {END}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UolError(f"{document}: cannot be read ({why_unread(error)})") from error

    @functools.cache
    def source_of(name: str) -> Source:
        try:
            return find_source(results, name)
        except CallError as error:
            raise UolError(f"<!-- table: {name} -->: no table of that name") from error

    try:
        made = render(text, source_of)
    except UolError as error:
        raise type(error)(f"{document}: {error}") from error
    if not any(_START.match(line) for line in text.split("\n")):
        raise CallError(f"{document}: no line <!-- table: NAME -->, so there is nothing to make")
    return made
