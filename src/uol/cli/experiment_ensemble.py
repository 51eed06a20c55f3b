"""uol experiment ensemble."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.experiment_run import AlsoOption, Takes, TakesOption, VotesOption, others_of
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.cli.score import Device, DeviceOption
from uol.cli.train import DataOption, RootOption, TableOption
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.ratings.rated_images import RatedImages
    from uol.runs.result import Result


class Of(StrEnum):
    """What an ensemble is made of."""

    NETWORKS = "networks"
    PREDICTIONS = "predictions"


def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of folds: matched fold by fold.")],
    name: Annotated[str, typer.Option("--name", help="What stands for a recipe among the results.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder, with one for each fold in it.")],
    data: DataOption = "synthetic",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    of: Annotated[
        Of, typer.Option("--of", help="Ask the networks again, or average the predictions that the runs have.")
    ] = Of.NETWORKS,
    also: AlsoOption = None,
    votes: VotesOption = None,
    takes: TakesOption = Takes.FIRST,
    device: DeviceOption = Device.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask the networks of finished runs as one, calibrated on images that all of them held out; nothing is trained.

    The runs are of one data set, method and hold-out (train them with the same --set held_out_seed). Each fold has a
    run folder, whose result goes through `uol experiment add` like any other.

    With --of predictions nothing is asked: the predictions that the runs have are averaged, those on other rated data
    sets too, and on other panels that trained all of them. The networks may be gone, and of any methods; the mean has
    no intervals and no model folder.

    Example: uol experiment ensemble runs/a runs/b --data scut-fbp5500 --root SCUT-FBP5500_v2 --name two --out both
    """
    if of is Of.PREDICTIONS:
        asked = {
            "--also": also, "--votes": votes, "--takes": takes is not Takes.FIRST,
            "--device": device is not Device.AUTO,
        }  # fmt: skip
        for option, given in asked.items():
            if given:
                raise CallError(f"{option}: with --of predictions no network is asked; leave it out")
        results = _of_predictions(runs, load(data, root, table, scale, read), out, name)
    else:
        results = _of_networks(
            runs, lambda: load(data, root, table, scale, read), out, name, also or [], votes, takes, device
        )
    rows = [{"split": one.split, "networks": one.ensemble, **one.metrics.model_dump()} for one in results]
    if as_json:
        print_json(rows)
        return
    columns = {"split": "split", "networks": "networks", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
               "coverage": "coverage"}  # fmt: skip
    print_table(rows, columns)


def _of_predictions(runs: list[Path], rated: RatedImages, out: Path, name: str) -> list[Result]:
    """The means of all folds, made before any is written."""
    from uol.runs.averaging import average, keep_average
    from uol.runs.ensembling import match_runs
    from uol.storage import provenance

    begun = provenance.now(), provenance.commit()
    folds = match_runs(runs, rated, out, name, "predictions")
    say(f"{len(folds)} means of the predictions of {len(folds[0].members)} networks on {rated.name}, in {out}")
    made = [average(fold, rated) for fold in folds]
    for line in dict.fromkeys(line for one in made for line in one.left_out):
        say(f"left out: {line}")
    return [keep_average(one, fold, rated, name, begun) for one, fold in zip(made, folds, strict=True)]


def _of_networks(
    runs: list[Path],
    load_rated: Callable[[], RatedImages],
    out: Path,
    name: str,
    also: list[str],
    votes: Path | None,
    takes: Takes,
    device: Device,
) -> list[Result]:
    """The ensembles of all folds, asked, tested and kept one by one."""
    from uol.order.config import ModelConfig, common_view
    from uol.runs.ensembling import EnsemblePredictor, build, keep, load_networks, match_runs
    from uol.runs.protocols import read_votes
    from uol.runs.transfer import MakeupRule, Other, judge_elsewhere, pack_other
    from uol.scoring.released import choose_device
    from uol.storage import provenance
    from uol.training.batches import PackedImages

    rule = MakeupRule(None if votes is None else read_votes(votes), takes.value)
    others = others_of(also)
    where = choose_device(device.value)
    rated = load_rated()
    folds = match_runs(runs, rated, out, name)
    say(f"{len(folds)} ensembles of {len(folds[0].members)} networks on {rated.name}, in {out}")
    read_already: dict[tuple[str, ModelConfig], PackedImages] = {}

    def packed(other: Other, config: ModelConfig) -> PackedImages:
        if (other.name, config) not in read_already:
            with progress_bar(f"reading {other.name}", len(other.rated)) as update:
                read_already[other.name, config] = pack_other(other, config, lambda done, _: update(done))
        return read_already[other.name, config]

    results: list[Result] = []
    for fold in folds:
        started = provenance.now()
        networks = [network.to(where) for network in load_networks(fold)]
        config = common_view([network.config for network in networks])
        images = packed(Other(rated), config)
        made = build(fold, networks, images)
        result = keep(made, fold, images, name, started)
        for other in others:
            framing = other.framing or config.framing
            threshold = fold.members[0].recipe.threshold
            predictor, fingerprint = EnsemblePredictor(made), other.rated.fingerprint
            judge_elsewhere(predictor, packed(other, config), framing, fold.folder, threshold, rule, fingerprint)
        results.append(result)
        say(f"model: {fold.folder / 'model'}")
    return results
