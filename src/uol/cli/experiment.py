"""uol experiment: list, table, add, docs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.output import print_json, print_table, say
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.experiments.result import Result

app = typer.Typer(help="Tables of what was measured, beside what was published, from results with their provenance.")

ResultsOption = Annotated[Path, typer.Option("--results", help="The folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Format(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


class Kind(StrEnum):
    """Which of an experiment's tables."""

    MAIN = "main"
    BRIEF = "brief"
    FIGURES = "figures"
    FOLDS = "folds"
    SEEDS = "seeds"
    TRANSFER = "transfer"


@app.command("list")
def list_(results: ResultsOption = Path("results"), as_json: JsonOption = False) -> None:
    """Name the tables at hand, with how many results each has.

    Example: uol experiment list
    """
    from uol.experiments.published import FIVE_FOLDS, order_of_methods

    rows: list[dict[str, Any]] = []
    for name in _names(results):
        found = _results(results, name)
        methods = sorted({result.method for result in found}, key=order_of_methods)
        rows.append({"name": name, "results": len(found), "methods": methods, "published": name in FIVE_FOLDS})
    if as_json:
        print_json(rows)
        return
    shown = [
        {**row, "methods": ", ".join(row["methods"]) or None, "published": "yes" if row["published"] else None}
        for row in rows
    ]
    print_table(
        shown,
        {"name": "table", "results": "results", "methods": "methods", "published": "with the paper's figures"},
    )


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="A table; `uol experiment list` names them.")],
    results: ResultsOption = Path("results"),
    kind: Annotated[
        Kind,
        typer.Option(
            "--show",
            help="Means over folds, in brief, further figures, every result, the spread over seeds, other data sets.",
        ),
    ] = Kind.MAIN,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Print means over folds of one seed, beside the paper's; `folds` below five marks what is not complete.

    Example: uol experiment table scut-fbp5500 --format markdown
    """
    from uol.experiments import formats
    from uol.experiments.table import table as table_rows
    from uol.experiments.views import view

    found = _results(results, name)
    if not found:
        say(f"{name}: no results yet in {results}; uol experiment add RUN adds a run's")
    if as_json:
        print_json(table_rows(found) if kind is Kind.MAIN else view(kind, found).rows)
        return
    rows, columns = view(kind, found)
    if form is not Format.TABLE:
        written = {"markdown": formats.markdown, "csv": formats.comma_separated, "latex": formats.latex}
        print(written[form](rows, columns), end="")
    elif rows:
        print_table(rows, {key: heading for key, heading in columns.items() if not key.startswith("difference")})


@app.command()
def add(
    run: Annotated[Path, typer.Argument(help="A run folder, or the folder of a run's folds.")],
    results: ResultsOption = Path("results"),
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a different result.")] = False,
) -> None:
    """Take a run's results, with its evaluations on other data sets, into the folder that tables are made from.

    Example: uol experiment add runs/paper
    """
    from uol.experiments.adding import add as add_run
    from uol.experiments.adding import finished_in

    _check(results)
    for path, what in add_run(run, results, replace):
        say(f"{what}: {path}")
    for fold in finished_in(run)[1]:
        say(f"{fold}: no result yet")


@app.command()
def docs(
    results: ResultsOption = Path("results"),
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help="A document; docs/results.md and README.md if none is named."),
    ] = None,
) -> None:
    """Make the tables of documents again from the results; their prose stays.

    Example: uol experiment docs
    """
    from uol.experiments.document import rendered
    from uol.files import write_text

    _check(results)
    for document in out or [Path("docs/results.md"), Path("README.md")]:
        write_text(document, rendered(document, results))
        say(f"tables: {document}")


def _check(results: Path) -> None:
    if not results.is_dir():
        raise CallError(f"{results}: no such folder of results; make it, go to where it is, or name one with --results")


def _names(results: Path) -> list[str]:
    """The tables at hand: those with published figures, and those with results."""
    from uol.experiments.published import FIVE_FOLDS

    _check(results)
    return sorted(FIVE_FOLDS.keys() | {path.parent.name for path in results.glob("*/*.json")})


def _results(results: Path, name: str) -> list[Result]:
    from uol.experiments.result import read_results

    names = _names(results)
    if name not in names:
        raise CallError(f"no table called {name!r}: there are {', '.join(names)}")
    return read_results(results / name)
