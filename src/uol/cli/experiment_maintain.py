"""uol experiment add, docs, verify, release, anchoring, panel, held-out, adjusted, reliability.

They maintain the result tables and work like the other commands, but `uol experiment --help` lists only `verify`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from uol.cli.options import JsonOption, ReplaceOption, ResultsOption, data_option
from uol.cli.output import check_results, load, print_json, print_table, progress_bar, say
from uol.datasets.choosing import DataChoice, named_folders
from uol.errors import CallError, UolError


def add(
    run: Annotated[Path, typer.Argument(help="A run folder, a folder of folds, or the folder of an experiment.")],
    results: ResultsOption = Path("results"),
    replace: ReplaceOption = False,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Row label, if the recipe has changed since this run.")
    ] = None,
) -> None:
    """For maintainers of the result tables: add a run's results, and its evaluations, to the folder of results.

    Statistics that a result file does not have yet are computed from predictions.csv, if it exists. Predictions are
    kept with the results. A run on whole panels adds what it measured on a panel left out.

    Example: uol experiment add runs/paper
    """
    from uol.experiments.collect import add as add_run
    from uol.experiments.collect import finished_in
    from uol.experiments.leave_one_out import add_left_out, is_whole_run

    check_results(results)
    whole = is_whole_run(run)
    for path, what in (add_left_out if whole else add_run)(run, results, replace, recipe):
        say(f"{what}: {path}")
    for fold in [] if whole else finished_in(run)[1]:
        if not is_whole_run(fold.path):  # which will never have one
            say(f"{fold}: no result yet")


def docs(
    results: ResultsOption = Path("results"),
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help="A document; by default, all documents with tables and the model cards."),
    ] = None,
) -> None:
    """For maintainers of the result tables: rewrite the tables of documents, and the model cards, from the results.

    Example: uol experiment docs
    """
    from uol.experiments.document import DOCUMENTS, rendered
    from uol.experiments.release import renewed_card
    from uol.scoring import released
    from uol.scoring.released import CARD
    from uol.storage.files import write_text

    check_results(results)
    for document in out or DOCUMENTS:
        write_text(document, rendered(document, results / DOCUMENTS.get(document, "")))
        say(f"tables: {document}")
    for folder in [] if out else map(released.find_model, released.names()):
        write_text(folder / CARD, renewed_card(folder, results))
        say(f"card: {folder / CARD}")


def verify(
    results: ResultsOption = Path("results"),
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Check scores and groups with a data set, too: NAME=FOLDER; repeatable."),
    ] = None,
    documents: Annotated[
        bool, typer.Option("--documents/--no-documents", help="Check the tables of documents.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Compute the figures of results again from the predictions that are kept with them, and compare.

    Figures, bootstrap intervals and paired differences of all results with predictions must agree to 1e-6. Results
    without predictions are listed. Exits with 1 on a difference.

    Example: uol experiment verify --data mebeauty=MEBeauty
    """
    from uol import datasets
    from uol.experiments.document import DOCUMENTS
    from uol.experiments.verify import verify as verify_results

    check_results(results)
    given = {name: datasets.load(name, folder) for name, folder in named_folders("--data", data or []).items()}
    checked = {results.parent / path: part for path, part in DOCUMENTS.items() if documents}
    done = verify_results(results, {path: part for path, part in checked.items() if path.is_file()}, given)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        for line in done.summary():
            print(line)
    if done.problems:
        raise UolError(f"differences: {len(done.problems)}; the first: {done.problems[0]}")


def release(
    run: Annotated[Path, typer.Argument(help="A run; one on all images is described by results on the folds.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder; its name is the model's name.")],
    recipe: Annotated[str, typer.Option("--recipe", help="The recipe whose figures in the results go into the card.")],
    left_out: Annotated[
        str | None,
        typer.Option("--left-out", help="The recipe whose results on panels left out choose the default panel."),
    ] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """For maintainers of the result tables: make a model to ship, with 16-bit weights, ONNX graphs and a card.

    The run of a split must have been added to the results. A model of several panels answers by default for the panel
    that predicts panels left out best.

    Example: uol experiment release runs/best/whole --recipe best --out my-model
    """
    from uol.experiments.release import release as make

    check_results(results)
    size, difference = make(run, out, recipe, results, left_out)
    say(f"model: {out}, {size / 1e6:.1f} MB; graphs differ from PyTorch by at most {difference:.1g}")


@data_option("mebeauty")
def anchoring(
    model: Annotated[str, typer.Argument(help="A shipped model, or a model folder.")],
    chosen: DataChoice,
    split: Annotated[str | None, typer.Option("--split", help="Anchors are drawn from its training images.")] = None,
    draws: Annotated[int, typer.Option("--draws", min=2, help="Draws for each number of anchors.")] = 10,
    name: Annotated[str | None, typer.Option("--name", help="Name of the curve; by default, the model's.")] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """For maintainers of the result tables: measure how accurate an anchored model is, by the number of anchors.

    Example: uol experiment anchoring my-model --data mebeauty --root MEBeauty --split 2022
    """
    from uol.experiments.anchoring_curve import SIZES, measure_anchoring, write_anchoring

    check_results(results)
    rated = load(chosen)
    found = split or (next(iter(rated.splits)) if len(rated.splits) == 1 else None)
    if found is None or found not in rated.splits:
        raise CallError(f"{rated.name}: choose a split with --split: {', '.join(rated.splits) or 'there are none'}")
    with progress_bar("anchoring", len(SIZES) * draws + 1) as update:
        curve = measure_anchoring(model, rated, found, name or Path(model).name, draws, update)
    say(f"curve: {write_anchoring(results, curve)}")


def panel(
    runs: Annotated[Path, typer.Argument(help="The folder of an experiment, tested with --also on the data set.")],
    data: Annotated[str, typer.Option("--data", help="The data set that the methods scored.")] = "color-feret",
    name: Annotated[str, typer.Option("--name", help="Name of the panel in the results.")] = "methods",
    method: Annotated[
        list[str] | None, typer.Option("--method", help="A method of the panel; by default, all seven; repeatable.")
    ] = None,
    recipe: Annotated[str, typer.Option("--recipe", help="Recipe of the networks.")] = "matched",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the networks.")] = 0,
    results: ResultsOption = Path("results"),
) -> None:
    """For maintainers of the result tables: compare each method with the trimmed mean of all, on unrated images.

    Example: uol experiment panel runs/methods --data color-feret
    """
    from uol.experiments.method_panel import METHODS, make_panel, write_panel

    check_results(results)
    made = make_panel(runs, data, name, method or METHODS, recipe, seed)
    say(f"panel of {len(made.members)} methods, {made.images} images, {made.folds} folds: {write_panel(results, made)}")


def held_out(
    runs: Annotated[list[Path], typer.Argument(help="Folders of folds, or single runs.")],
    as_json: JsonOption = False,
) -> None:
    """For maintainers of the result tables: compare runs, and their average, on held-out images, not on test images.

    Figures are means over folds. The average is tested on the images that all runs held out: all of them if held_out
    and held_out_seed are the same. MAE and RMSE are a little too small, since a line was fitted on these images.

    Example: uol experiment held-out runs/strong-0 runs/strong-1
    """
    from uol.runs.held_out import AVERAGE, figures_of

    rows = figures_of(runs)
    if len(rows) > 1 and rows[-1]["run"] != AVERAGE:
        say("no average: no image was held out by all runs")
    elif len({row["images"] for row in rows}) > 1:
        say("these runs held out different images: compare their figures with care")
    if as_json:
        print_json(rows)
        return
    columns = {"run": "run", "folds": "folds", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    print_table([dict(row) for row in rows], columns)


@data_option("mebeauty")
def adjusted(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of folds.")],
    chosen: DataChoice,
    as_json: JsonOption = False,
) -> None:
    """For maintainers of the result tables: compare predictions with means adjusted for who rated each image.

    If raters rated different images, the mean of an image also depends on how lenient its raters are. The adjusted mean
    removes each rater's leniency, by a least-squares fit of images and raters to all ratings of the data set. Figures
    are means over the folds of one seed, with 95 % intervals of a bootstrap over images.

    Example: uol experiment adjusted runs/distilled runs/best --data mebeauty --root MEBeauty
    """
    from uol.experiments.adjusting import figures_of
    from uol.ratings.rater_effects import unconnected_sets
    from uol.reports.formats import format_interval

    rated = load(chosen)
    rows = figures_of(runs, rated)
    if rated.ratings is not None and (sets := unconnected_sets(rated.ratings)) > 1:
        say(f"{rated.name}: {sets} sets of images have no rater in common: their adjusted means are not comparable")
    if as_json:
        print_json(rows)
        return
    columns = {
        "run": "run", "folds": "folds", "images": "images", "pc": "PC", "interval": "95 % of PC",
        "adjusted_pc": "adjusted PC", "adjusted_interval": "95 % of adjusted PC",
    }  # fmt: skip
    shown = [
        {
            **row,
            "interval": format_interval(row["interval"]),
            "adjusted_interval": format_interval(row["adjusted_interval"]),
        }
        for row in rows
    ]
    print_table(shown, columns)


@data_option()
def reliability(chosen: DataChoice, results: ResultsOption = Path("results")) -> None:
    """For maintainers of the result tables: keep the reliability of a data set's means within each group.

    Tables of groups (--show ceilings) divide correlations by its root. Halves of the ratings are drawn a hundred times.
    Results without figures by group on this panel, which trained their networks too, get them from kept predictions.

    Example: uol experiment reliability --data mebeauty --root MEBeauty
    """
    from uol.experiments.ceiling_tables import fill_in_panels, keep_reliability
    from uol.experiments.rows import RELIABILITY, read_reliability

    check_results(results)
    rated = load(chosen)
    if not len(rated.groups):
        raise CallError(f"{rated.name}: its images are in no groups")
    keep_reliability(results, rated, read_reliability(results))
    say(f"reliability of {rated.name}: {results / RELIABILITY}")
    for path in fill_in_panels(results, rated):
        say(f"groups of {rated.name}: {path}")
