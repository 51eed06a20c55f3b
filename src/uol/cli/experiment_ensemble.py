"""uol experiment ensemble."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.experiment_run import AlsoOption, Takes, TakesOption, VotesOption, others_of
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.cli.score import Device, DeviceOption
from uol.cli.train import DataOption, RootOption, TableOption


class Combine(StrEnum):
    """What of the members is averaged."""

    SCORES = "scores"
    OUTCOMES = "outcomes"


def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of folds: matched fold by fold.")],
    name: Annotated[str, typer.Option("--name", help="What stands for a recipe among the results.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder, with one for each fold in it.")],
    data: DataOption = "synthetic",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    combine: Annotated[
        Combine, typer.Option("--combine", help="Average scores, or outcomes against the same references.")
    ] = Combine.SCORES,
    also: AlsoOption = None,
    votes: VotesOption = None,
    takes: TakesOption = Takes.FIRST,
    device: DeviceOption = Device.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask the networks of finished runs as one, calibrated on images that all of them held out; nothing is trained.

    The runs are of one data set, method and hold-out (train them with the same --set held_out_seed). Each fold has a
    run folder, whose result goes through `uol experiment add` like any other.

    Example: uol experiment ensemble runs/a runs/b --data scut-fbp5500 --root SCUT-FBP5500_v2 --name two --out both
    """
    from uol import provenance
    from uol.experiments.elsewhere import MakeupRule, Other, judge_elsewhere, pack_other
    from uol.experiments.ensembles import EnsemblePredictor, build, keep, load_networks, match_runs
    from uol.experiments.protocols import read_votes
    from uol.model_config import ModelConfig
    from uol.released import choose_device
    from uol.training.batches import PackedImages

    rule = MakeupRule(None if votes is None else read_votes(votes), takes.value)
    others = others_of(also or [])
    where = choose_device(device.value)
    rated = load(data, root, table, scale, read)
    folds = match_runs(runs, rated, out, name, combine.value)
    say(f"{len(folds)} ensembles of {len(folds[0].members)} networks on {rated.name}, in {out}")
    read_already: dict[tuple[str, ModelConfig], PackedImages] = {}

    def packed(other: Other, config: ModelConfig) -> PackedImages:
        if (other.name, config) not in read_already:
            with progress_bar(f"reading {other.name}", len(other.rated)) as update:
                read_already[other.name, config] = pack_other(other, config, lambda done, _: update(done))
        return read_already[other.name, config]

    rows: list[dict[str, Any]] = []
    for fold in folds:
        started = provenance.now()
        networks = [network.to(where) for network in load_networks(fold)]
        config = max((network.config for network in networks), key=lambda one: one.crop)
        images = packed(Other(rated), config)
        made = build(fold, networks, images, combine.value)
        result = keep(made, fold, images, name, started)
        for other in others:
            framing = other.framing or config.framing
            threshold = fold.members[0].recipe.threshold
            predictor, fingerprint = EnsemblePredictor(made), other.rated.fingerprint
            judge_elsewhere(predictor, packed(other, config), framing, fold.folder, threshold, rule, fingerprint)
        rows.append({"split": fold.split, "networks": result.ensemble, **result.metrics.model_dump()})
        say(f"model: {fold.folder / 'model'}")
    if as_json:
        print_json(rows)
        return
    columns = {"split": "split", "networks": "networks", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
               "coverage": "coverage"}  # fmt: skip
    print_table(rows, columns)
