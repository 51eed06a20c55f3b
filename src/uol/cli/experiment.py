"""uol experiment: list, run, ensemble, table, figure, verify; and, not listed, what maintains the result tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from uol.cli import experiment_groups, experiment_maintain
from uol.cli.experiment_ensemble import ensemble
from uol.cli.experiment_run import run
from uol.cli.options import JsonOption, ResultsOption, TableNameArgument
from uol.cli.output import check_results, print_json, print_table, say

app = typer.Typer(help="Run experiments under one protocol, and print their results next to the published ones.")


class Format(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


# The tables that help lists; `uol.experiments.tables` has them all, and loads too slowly for --help.
KINDS = (
    "main",
    "settings",
    "folds",
    "differences",
    "transfer",
    "panels",
    "lines",
    "duplicates",
    "groups",
    "gaps",
    "ceilings",
    "makeup",
    "anchoring",
    "coverage",
)


class Drawn(StrEnum):
    """What a figure shows."""

    RESULTS = "results"
    RANGE = "range"
    GROUPS = "groups"
    SETTINGS = "settings"


@app.command("list")
def list_(results: ResultsOption = Path("results"), as_json: JsonOption = False) -> None:
    """List the experiments, how many of their results exist, and the data sets with results.

    Example: uol experiment list
    """
    from uol.experiments.listing import list_experiments

    check_results(results)
    rows = list_experiments(results)
    if as_json:
        print_json(rows)
        return
    shown = [
        {
            "name": row["name"],
            "what": row["title"] or "results of a data set",
            "results": str(row["results"]) if row["of"] is None else f"{row['results']} of {row['of']}",
            "methods": ", ".join(row["methods"]) or None,
        }
        for row in rows
    ]
    print_table(shown, {"name": "name", "what": "what", "results": "results", "methods": "methods"})


app.command("run")(run)
app.command("ensemble")(ensemble)


@app.command()
def table(
    name: TableNameArgument,
    results: ResultsOption = Path("results"),
    kind: Annotated[
        str,
        typer.Option(
            "--show",
            metavar=f"[{'|'.join(KINDS)}]",
            help="main: means over folds, or what each row gains (ladder, sensitivity); settings: what each "
            "value of a setting gains (sensitivity); folds: every result; differences: paired differences; transfer: "
            "other data sets; panels: each panel of networks that several trained; lines: errors with the best line "
            "for each row; duplicates: figures without test images that training has a near-duplicate of; groups: "
            "figures by group; gaps: each group against the "
            "others; ceilings: groups and the reliability of their ratings; makeup: pairs with and without make-up; "
            "anchoring: errors by the number of anchors; coverage: how often intervals hold on a panel left out.",
        ),
    ] = "main",
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Print means over the folds of one seed, next to the paper's; with fewer than five folds a row is incomplete.

    Intervals and differences are from a bootstrap over test images, the same images for all rows: they show how much
    a figure depends on the photographs, not on the training.

    Example: uol experiment table modules --show differences
    """
    from uol.experiments.rows import find_source, make_rows
    from uol.experiments.tables import view
    from uol.reports import formats

    check_results(results)
    found = find_source(results, name)
    if found.empty:
        say(f"{name}: no results yet in {results}; uol experiment run --add adds them")
    rows, columns = view(kind, found)
    if as_json:
        means = kind == "main" and found.results and found.tested_on is None
        print_json(make_rows(found.results, found.plan) if means else rows)
        return
    if form is not Format.TABLE:
        written = {"markdown": formats.markdown, "csv": formats.comma_separated, "latex": formats.latex}
        print(written[form](rows, columns), end="")
    elif rows:
        print_table(rows, {key: heading for key, heading in columns.items() if not key.startswith("difference_")})
    elif not found.empty:
        say(f"{name}: no results for --show {kind}")


@app.command()
def figure(
    name: TableNameArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .png, .svg or .pdf.")],
    kind: Annotated[
        Drawn | None,
        typer.Option(
            "--show",
            help="All rows and the paper's, the range of scores (default for `scores`), groups, or the gain of each "
            "value of a setting (default for `sensitivity`).",
        ),
    ] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Draw the figures of an experiment with their intervals, its range of scores, or figures by group.

    Example: uol experiment figure modules --out modules.png
    """
    from uol.experiments.figures import figures_by_row, gains_by_setting, groups_of_rows, range_of_scores
    from uol.experiments.rows import find_source
    from uol.storage.files import check_output, replacing

    check_output(out, (".png", ".svg", ".pdf"))
    check_results(results)
    source = find_source(results, name)
    title = name if source.plan is None else source.plan.title
    chosen = kind or {"scores": Drawn.RANGE, "sensitivity": Drawn.SETTINGS}.get(name, Drawn.RESULTS)
    draw = {
        Drawn.RESULTS: figures_by_row, Drawn.RANGE: range_of_scores, Drawn.GROUPS: groups_of_rows,
        Drawn.SETTINGS: gains_by_setting,
    }  # fmt: skip
    drawn = draw[chosen](source, title)
    with replacing(out) as temporary:
        drawn.savefig(temporary, format=out.suffix[1:].lower(), dpi=160)
    say(f"figure: {out}")


app.command("groups")(experiment_groups.groups)
app.command("verify")(experiment_maintain.verify)
for hidden in ("add", "docs", "release", "anchoring", "panel", "held_out", "adjusted", "reliability"):
    app.command(hidden.replace("_", "-"), hidden=True)(getattr(experiment_maintain, hidden))
