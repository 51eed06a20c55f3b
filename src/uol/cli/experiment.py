"""uol experiment: list, run, ensemble, held-out, adjusted, table, panel, anchoring, figure, add, release, docs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli import experiment_adjusted, experiment_ensemble, experiment_held_out, experiment_run
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.studies.rows import Source

app = typer.Typer(
    help="Run experiments under one protocol, and show what was measured beside what was published, from results with "
    "their provenance."
)

ResultsOption = Annotated[Path, typer.Option("--results", help="The folder of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Format(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


# The tables of an experiment; a test compares them with `uol.studies.tables`, which loads too slowly for --help.
KINDS = (
    "main", "alone", "published", "headline", "brief", "figures", "folds", "seeds", "transfer", "panels",
    "differences", "makeup", "range", "groups", "gaps", "anchoring",
)  # fmt: skip


class Drawn(StrEnum):
    """What a figure shows."""

    RESULTS = "results"
    RANGE = "range"
    GROUPS = "groups"


@app.command("list")
def list_(results: ResultsOption = Path("results"), as_json: JsonOption = False) -> None:
    """Name the experiments that can be run, how many of their results are there, and the tables at hand.

    Example: uol experiment list
    """
    from uol.studies.plans import PLANS
    from uol.studies.published import FIVE_FOLDS, order_of_methods
    from uol.studies.rows import table_names
    from uol.studies.runner import count_there

    _check(results)
    rows: list[dict[str, Any]] = []
    for name in table_names(results):
        source = _source(results, name)
        methods = {result.method for result in source.results} | {m for panel in source.panels for m in panel.members}
        rows.append(
            {
                "name": name,
                "title": None,
                "results": len(source.results) + len(source.panels),
                "of": None,
                "methods": sorted(methods, key=order_of_methods),
                "published": name in FIVE_FOLDS,
            }
        )
    for plan in PLANS.values():
        there, of = count_there(plan, _source(results, plan.name).results)
        named = list(dict.fromkeys(row.method for row in plan.rows))
        rows.append(
            {"name": plan.name, "title": plan.title, "results": there, "of": of, "methods": named, "published": True}
        )
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


app.command("run")(experiment_run.run)
app.command("ensemble")(experiment_ensemble.ensemble)
app.command("held-out")(experiment_held_out.held_out)
app.command("adjusted")(experiment_adjusted.adjusted)


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="An experiment or a data set; `uol experiment list` names them.")],
    results: ResultsOption = Path("results"),
    kind: Annotated[
        str,
        typer.Option(
            "--show",
            metavar=f"[{'|'.join(KINDS)}]",
            help="Means over folds; those of recipes that no other experiment shows; without intervals; with the data "
            "that settings were chosen on; in brief; more figures; every result; the spread over seeds; other data "
            "sets; other panels that trained too; paired differences; pairs with and without make-up; the range of "
            "scores; groups; how far each group is behind the others; errors by the number of anchors.",
        ),
    ] = "main",
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Print means over folds of one seed, beside the paper's; `folds` below five marks what is not complete.

    Intervals and differences are of a bootstrap over test images, the same images for all rows: they tell how far
    other photographs would move a figure, not how far another training would.

    Example: uol experiment table modules --show pairs
    """
    from uol.reports import formats
    from uol.studies.rows import make_rows
    from uol.studies.tables import view

    found = _source(results, name)
    if found.empty:
        say(f"{name}: no results yet in {results}; uol experiment add RUN adds a run's")
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
    name: Annotated[str, typer.Argument(help="An experiment or a data set; `uol experiment list` names them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A file: .png, .svg or .pdf.")],
    kind: Annotated[
        Drawn | None,
        typer.Option("--show", help="All rows and the paper's figures, the range of scores (for `scores`), or groups."),
    ] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Draw an experiment's figures with their intervals, how far its scores reach, or figures by group.

    Example: uol experiment figure modules --out modules.png
    """
    from uol.storage.files import replacing
    from uol.studies.figures import figures_by_row, groups_of_rows, range_of_scores

    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise CallError(f"{out}: figures are written as .png, .svg or .pdf")
    source = _source(results, name)
    title = name if source.plan is None else source.plan.title
    chosen = kind or (Drawn.RANGE if name == "scores" else Drawn.RESULTS)
    draw = {Drawn.RESULTS: figures_by_row, Drawn.RANGE: range_of_scores, Drawn.GROUPS: groups_of_rows}[chosen]
    drawn = draw(source, title)
    with replacing(out) as temporary:
        drawn.savefig(temporary, format=out.suffix[1:].lower(), dpi=160)
    say(f"figure: {out}")


@app.command()
def panel(
    runs: Annotated[Path, typer.Argument(help="What uol experiment run wrote, tested with --also on the data set.")],
    data: Annotated[str, typer.Option("--data", help="The data set that the methods scored.")] = "color-feret",
    name: Annotated[str, typer.Option("--name", help="The panel's name among the results.")] = "methods",
    method: Annotated[
        list[str] | None, typer.Option("--method", help="A method of the panel; all seven if none.")
    ] = None,
    recipe: Annotated[str, typer.Option("--recipe", help="The recipe of its networks.")] = "matched",
    seed: Annotated[int, typer.Option("--seed", help="The seed of its networks.")] = 0,
    results: ResultsOption = Path("results"),
) -> None:
    """Let methods stand in for raters: each against the mean of all, the lowest and the highest of an image dropped.

    Example: uol experiment panel runs/methods --data color-feret
    """
    from uol.studies.method_panel import METHODS, make_panel, write_panel

    _check(results)
    made = make_panel(runs, data, name, method or METHODS, recipe, seed)
    say(f"panel of {len(made.members)} methods, {made.images} images, {made.folds} folds: {write_panel(results, made)}")


@app.command()
def anchoring(
    model: Annotated[str, typer.Argument(help="A model that ships, or its folder.")],
    data: Annotated[str, typer.Option("--data", help="The panel's data set.")] = "mebeauty",
    root: Annotated[Path | None, typer.Option("--root", help="Its folder, as its owner distributes it.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="Anchors are from its training part.")] = None,
    draws: Annotated[int, typer.Option("--draws", min=2, help="Draws of anchors for each number of them.")] = 10,
    name: Annotated[str | None, typer.Option("--name", help="The curve's name; the model's if none.")] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Measure what anchoring a model with a panel's rated images is worth, by their number.

    Example: uol experiment anchoring uol-fast-scut5500 --data mebeauty --root data/mebeauty --split 2022
    """
    from uol.cli.data import load
    from uol.studies.anchoring import SIZES, measure_anchoring, write_anchoring

    _check(results)
    rated = load(data, root, None)
    chosen = split or (next(iter(rated.splits)) if len(rated.splits) == 1 else None)
    if chosen is None or chosen not in rated.splits:
        raise CallError(f"{data}: name one of its splits with --split: {', '.join(rated.splits) or 'it has none'}")
    with progress_bar("anchoring", len(SIZES) * draws + 1) as update:
        found = measure_anchoring(model, rated, chosen, name or Path(model).name, draws, update)
    say(f"curve: {write_anchoring(results, found)}")


@app.command()
def add(
    run: Annotated[Path, typer.Argument(help="A run folder, the folder of a run's folds, or what a plan wrote.")],
    results: ResultsOption = Path("results"),
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a different result.")] = False,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Name the row so: for settings that the recipe has no longer.")
    ] = None,
) -> None:
    """Take a run's results, with its evaluations on other data sets, into the folder that tables are made from.

    Example: uol experiment add runs/paper
    """
    from uol.studies.collect import add as add_run
    from uol.studies.collect import finished_in

    _check(results)
    for path, what in add_run(run, results, replace, recipe):
        say(f"{what}: {path}")
    for fold in finished_in(run)[1]:
        say(f"{fold}: no result yet")


@app.command()
def release(
    run: Annotated[Path, typer.Argument(help="A run on every image of a data set: uol train --split whole.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder, named as the model shall be called.")],
    recipe: Annotated[str, typer.Option("--recipe", help="Whose figures on the folds stand in the card.")],
    results: ResultsOption = Path("results"),
) -> None:
    """Make a model ready to be given away: weights in 16 bits, graphs for onnxruntime, and a card with its figures.

    Example: uol experiment release runs/best/whole --recipe best --out uol-vgg16-scut5500
    """
    from uol.studies.release import release as make

    _check(results)
    size, difference = make(run, out, recipe, results)
    say(f"model: {out}, {size / 1e6:.1f} MB; graphs differ from PyTorch by at most {difference:.1g}")


@app.command()
def docs(
    results: ResultsOption = Path("results"),
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help="A document; all documents and the models' cards if none is given."),
    ] = None,
) -> None:
    """Make the tables of documents again from the results, and the cards of models that ship; prose stays.

    Example: uol experiment docs
    """
    from uol.scoring import released
    from uol.scoring.folder import CARD
    from uol.storage.files import write_text
    from uol.studies.document import DOCUMENTS, rendered
    from uol.studies.release import renewed_card

    _check(results)
    for document in out or DOCUMENTS:
        write_text(document, rendered(document, results / DOCUMENTS.get(document, "")))
        say(f"tables: {document}")
    for folder in [] if out else map(released.find_model, released.names()):
        write_text(folder / CARD, renewed_card(folder, results))
        say(f"card: {folder / CARD}")


def _check(results: Path) -> None:
    if not results.is_dir():
        raise CallError(f"{results}: no such folder of results; make it, go to where it is, or name one with --results")


def _source(results: Path, name: str) -> Source:
    from uol.studies.rows import find_source

    _check(results)
    return find_source(results, name)
