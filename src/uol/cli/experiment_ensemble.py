"""uol experiment ensemble."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.options import (
    AlsoOption,
    Device,
    DeviceOption,
    JsonOption,
    MakeupTakesOption,
    MakeupVotesOption,
    OldTakesOption,
    OldVotesOption,
    Takes,
    data_option,
)
from uol.cli.output import load, print_json, print_table, progress_bar, say
from uol.cli.panels import WithReadOption, load_panels
from uol.datasets.choosing import DataChoice
from uol.errors import CallError, counted

if TYPE_CHECKING:
    from uol.ratings.rated_images import RatedImages
    from uol.runs.result import Result


FIGURES = {"images", "pc", "mae", "rmse", "spearman", "order_accuracy", "coverage", "interval_width", "dispersion_pc"}


class Of(StrEnum):
    """What an ensemble is made of."""

    NETWORKS = "networks"
    PREDICTIONS = "predictions"


@data_option()
def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of folds, which are matched by fold.")],
    name: Annotated[str, typer.Option("--name", help="Name of the row in tables, in the place of a recipe.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write, with a run folder for each fold.")],
    chosen: DataChoice,
    of: Annotated[
        Of, typer.Option("--of", help="Combine the networks, or average predictions that the runs have made.")
    ] = Of.NETWORKS,
    panels: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="Another panel that trained the networks: NAME=FOLDER:SPLIT, or {split}; repeatable."
        ),
    ] = None,
    read_panels: WithReadOption = None,
    also: AlsoOption = None,
    makeup_votes: MakeupVotesOption = None,
    makeup_takes: MakeupTakesOption = None,
    votes: OldVotesOption = None,
    takes: OldTakesOption = None,
    device: DeviceOption = Device.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Combine the networks of finished runs into one model, calibrated on images that all of them held out.

    The runs must have the same data set, method and hold-out (train them with the same --set held_out_seed). Networks
    of several panels are calibrated and tested on each; --with names the others, as in uol train. Nothing is trained;
    the run folder of each fold is like any other.

    With --of predictions, no network is used: predictions on the test images, on other rated data sets and on other
    panels are averaged. The runs may have different methods; the mean has no intervals and no model folder.

    Example: uol experiment ensemble runs/a runs/b --data scut-fbp5500 --root SCUT-FBP5500_v2 --name two --out both
    """
    votes, takes = makeup_votes or votes, makeup_takes or takes or Takes.FIRST
    if of is Of.PREDICTIONS:
        asked = {
            "--with": panels, "--also": also, "--makeup-votes": votes, "--makeup-takes": takes is not Takes.FIRST,
            "--device": device is not Device.AUTO,
        }  # fmt: skip
        for option, given in asked.items():
            if given:
                raise CallError(f"{option}: not with --of predictions, which uses no network; leave it out")
        results = _of_predictions(runs, load(chosen), out, name)
    else:
        results = _of_networks(runs, chosen, out, name, (panels, read_panels), also or [], votes, takes, device)
    rows = [row for one in results for row in _rows(one)]
    if as_json:
        print_json(rows)
        return
    columns = {"data": "data", "split": "split", "networks": "networks", "images": "images", "pc": "PC", "mae": "MAE",
               "rmse": "RMSE", "coverage": "coverage"}  # fmt: skip
    print_table(rows, columns)


def _rows(result: Result) -> list[dict[str, Any]]:
    """A row for the test images of each panel."""
    tested = {result.provenance.data.name: (result.split, result.metrics)}
    tested |= {name: (figures.split, figures) for name, figures in (result.beside or {}).items()}
    return [
        {"data": name, "split": split, "networks": result.ensemble, **figures.model_dump(include=FIGURES)}
        for name, (split, figures) in tested.items()
    ]


def _of_predictions(runs: list[Path], rated: RatedImages, out: Path, name: str) -> list[Result]:
    """Average the predictions of all folds, then write them."""
    from uol.runs.averaging import average, keep_average
    from uol.runs.ensembling import match_runs
    from uol.storage import provenance

    begun = provenance.now(), provenance.commit()
    folds = match_runs(runs, rated, out, name, "predictions")
    means = counted(len(folds), "mean")
    say(f"{means} of the predictions of {len(folds[0].members)} networks on {rated.name}, in {out}")
    made = [average(fold, rated) for fold in folds]
    for line in dict.fromkeys(line for one in made for line in one.left_out):
        say(f"left out: {line}")
    return [keep_average(one, fold, rated, name, begun) for one, fold in zip(made, folds, strict=True)]


def _of_networks(
    runs: list[Path],
    chosen: DataChoice,
    out: Path,
    name: str,
    panels: tuple[list[str] | None, list[str] | None],
    also: list[str],
    votes: Path | None,
    takes: Takes,
    device: Device,
) -> list[Result]:
    """Build, test and keep the ensemble of each fold."""
    from uol.order.config import ModelConfig, common_view
    from uol.runs.ensembling import EnsemblePredictor, OtherPanel, build, keep, load_networks, match_runs
    from uol.runs.makeup import read_votes
    from uol.runs.multi_panel import PanelSplit
    from uol.runs.transfer import MakeupRule, OtherDataset, judge_elsewhere, load_others, pack_other
    from uol.scoring.released import choose_device
    from uol.storage import provenance
    from uol.training.packed import PackedImages

    rule = MakeupRule(None if votes is None else read_votes(votes), takes.value)
    others = load_others(also)
    where = choose_device(device.value)
    rated = load(chosen)
    read = load_panels(rated, *panels)

    def together(split: str) -> list[OtherPanel]:
        return [OtherPanel(*panel.at(split)) for panel in read]

    folds = match_runs(runs, rated, out, name, others=together)
    say(f"{counted(len(folds), 'ensemble')} of {len(folds[0].members)} networks on {rated.name}, in {out}")
    read_already: dict[tuple[str, ModelConfig], PackedImages] = {}

    def packed(other: OtherDataset, config: ModelConfig) -> PackedImages:
        if (other.name, config) not in read_already:
            with progress_bar(f"reading {other.name}", len(other.rated)) as update:
                read_already[other.name, config] = pack_other(other, config, lambda done, _: update(done))
        return read_already[other.name, config]

    results: list[Result] = []
    for fold in folds:
        started = provenance.now()
        networks = [network.to(where) for network in load_networks(fold)]
        config = common_view([network.config for network in networks])
        images = packed(OtherDataset(rated), config)
        splits = [
            PanelSplit(packed(OtherDataset(one.rated), config), one.name, one.split) for one in together(fold.split)
        ]
        made = build(fold, networks, images, splits)
        result = keep(made, fold, images, name, started, splits)
        for other in others:
            framing = other.framing or config.framing
            threshold = fold.members[0].recipe.threshold
            predictor, fingerprint = EnsemblePredictor(made), other.rated.fingerprint
            judge_elsewhere(predictor, packed(other, config), framing, fold.folder, threshold, rule, fingerprint)
        results.append(result)
        say(f"model: {fold.folder.model}")
    return results
