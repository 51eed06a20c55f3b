"""uol train and evaluate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.options import (
    Device,
    DeviceOption,
    FramingOption,
    InitOption,
    JsonOption,
    PanelOption,
    SetOption,
    SplitOption,
    data_option,
)
from uol.cli.output import load, print_json, print_table, progress_bar, say
from uol.cli.panels import WithOption, WithReadOption, load_panels
from uol.datasets.choosing import DataChoice
from uol.errors import CallError, counted

if TYPE_CHECKING:
    from uol.order.config import ModelConfig
    from uol.ratings.rated_images import RatedImages
    from uol.runs.result import KnownRaters, Result
    from uol.training.packed import PackedImages

COLUMNS = {
    "model": "model", "data": "data", "split": "split", "images": "images", "pc": "PC",
    "mae": "MAE", "rmse": "RMSE", "spearman": "Spearman",
    "order_accuracy": "order", "coverage": "coverage", "dispersion_pc": "dispersion PC",
}  # fmt: skip


@data_option()
def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder; run again to resume a stopped run.")],
    chosen: DataChoice,
    split: SplitOption = None,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="A shipped recipe, or a YAML file.")
    ] = "paper-calibrated",
    init: InitOption = None,
    changes: SetOption = None,
    panels: WithOption = None,
    read_panels: WithReadOption = None,
    devices: Annotated[
        int, typer.Option("--devices", help="GPUs (without any, processes) of each machine that train together.")
    ] = 1,
    nodes: Annotated[int, typer.Option("--nodes", help="Machines that train together.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Train a model on a data set and test it on the test images of the split.

    With --fold all, every fold has a folder in the run folder. Images of different panels (--with) are never compared;
    the model has references for each panel (uol score --panel NAME), which is tested with them. Several devices share
    the images of each batch: the recipe's batch_size, and what is learnt, do not depend on their number.

    Example: uol train --data photos/ --table ratings.csv --init vgg16.safetensors --out runs/first
    """
    from uol.ratings.splits import choose_splits
    from uol.runs.folder import RunFolder
    from uol.runs.lineage import check_teachers
    from uol.runs.multi_panel import PanelSplit
    from uol.runs.run import check_before_reading, starts_at_random
    from uol.runs.train_and_test import Origin, train_and_test
    from uol.training import ranks
    from uol.training.recipe import load_recipe, parse_changes

    ranks.silence_others(devices, nodes)
    asked = parse_changes(changes or [], init)
    settings = load_recipe(recipe, asked)
    RunFolder(out).check_unlocked()
    RunFolder(out).check_free()
    check_before_reading(settings, 1 + len(panels or []), devices * nodes)
    ranks.launch(devices, nodes)
    rated = load(chosen)
    splits = choose_splits(rated, split)
    read = load_panels(rated, panels, read_panels)
    others = {name: [panel.at(name) for panel in read] for name in splits}
    folders = {name: RunFolder(out / name if split == "all" else out) for name in splits}
    for name, parts in splits.items():
        folders[name].check_unlocked()
        folders[name].check_free()
        if not folders[name].finished:  # a finished run does not need its teachers
            own = settings.for_split(name)
            check_teachers(own, rated, name, parts, None if read else parts.train)
            for panel, other, own_parts in others[name]:
                check_teachers(own, panel, other, own_parts, None)
    if split is None and not rated.splits:
        images = counted(len(rated), "image")
        say(f"no split: all {images} train and none test; `uol data split` makes folds for --folds")
    if starts_at_random(settings) and not all(folder.finished for folder in folders.values()):
        say(f"random weights: {settings.model.backbone} starts untrained; --init timm or a file is strongly advised")
    with ranks.first_rank_first():  # the others read what it caches
        packed = _pack(rated, settings.model)
        also = [_pack(panel.rated, settings.model) for panel in read]
    rows: list[dict[str, Any]] = []
    for name, parts in splits.items():
        images, epochs = counted(len(parts.train), "image"), counted(settings.epochs, "epoch")
        say(f"{settings.method} on {rated.name}, {name}: {images}, {epochs}")
        for panel, other, own_parts in others[name]:
            say(f"also trained on {panel.name}, {other}: {counted(len(own_parts.train), 'image')}")
        beside = [PanelSplit(pixels, *one[1:]) for pixels, one in zip(also, others[name], strict=True)]
        with progress_bar("training", settings.epochs) as update:
            result = train_and_test(
                packed, name, parts, settings, folders[name].path, Origin(Path(recipe).stem, asked),
                lambda epoch: update(epoch.epoch, f"loss {epoch.losses['total']:.4f}"), others=beside,
            )  # fmt: skip
        model = folders[name].model
        say(f"model: {model}" if model.is_dir() else f"{settings.method} makes no model folder")
        if result is None:
            say("there are no test images")
        else:
            rows += _rows(result, rated.name)
    _show(rows, as_json, single=split != "all" and not also)


@data_option()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A shipped model, a model folder, or a run folder.")],
    chosen: DataChoice,
    split: SplitOption = None,
    framing: FramingOption = None,
    panel: PanelOption = None,
    device: DeviceOption = Device.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Compare a model's scores with a panel's, which are mapped linearly to the model's scale.

    On the data set it was trained on, a run is tested on the test images of its split. Another data set is used whole
    unless it has one split or --split names one, and the figures are kept in the run folder, in evaluations. A folder
    of folds is evaluated fold by fold. A model of several panels answers on the scale of the one whose images it is
    tested on, or else of its first, unless --panel names another. If raters are identified and rated different images,
    figures of predictions that know the raters are reported too.

    Example: uol evaluate runs/first --data photos/ --table ratings.csv
    """
    from uol.runs.evaluating import evaluate_model, find_models

    models = find_models(model)
    rated = load(chosen)
    if not rated.rated:
        raise CallError(f"{rated.name}: nobody rated these images: there is nothing to compare with")
    packed: dict[ModelConfig, PackedImages] = {}

    def pack(config: ModelConfig) -> PackedImages:
        if config not in packed:
            packed[config] = _pack(rated, config, as_arrays=True)
        return packed[config]

    def scoring(images: int) -> AbstractContextManager[Callable[..., None]]:
        return progress_bar("scoring", images)

    rows = []
    for run in models:
        found = evaluate_model(run, rated, split, framing and framing.value, device.value, pack, panel, scoring)
        label = f"{run.name}, {rated.name}" + ("" if found.split is None else f", {found.split}")
        row = {"model": run.name, "data": rated.name, "split": found.split, **found.figures}
        rows.append(row | _known_raters(label, found.known_raters))
    _show(rows, as_json, single=models == [model])


def _pack(rated: RatedImages, config: ModelConfig, as_arrays: bool = False) -> PackedImages:
    """The images of a data set as a network receives them, with a progress bar."""
    from uol.training.packed import PackedImages

    with progress_bar(f"reading {rated.name}", len(rated)) as update:
        return PackedImages.pack(rated, config, lambda done, _: update(done), as_arrays)


def _rows(result: Result, data: str) -> list[dict[str, Any]]:
    """A row for each panel's test images; says what else there is to know of them."""
    first = {"data": data, "split": result.split, **result.metrics.model_dump()}
    rows = [first | _known_raters(f"{data}, {result.split}", result.known_raters)]
    for panel in result.provenance.panels or ():
        if panel.left_out:
            say(f"{panel.name}: {panel.left_out} training images are left out, since they are copies of test images")
    for name, figures in (result.beside or {}).items():
        row = figures.model_dump(exclude={"trained", "score_sd", "replicates", "known_raters", "split"})
        known = _known_raters(f"{name}, {figures.split}", figures.known_raters)
        rows.append({"data": name, "split": figures.split, **row, **known})
    return rows


def _known_raters(label: str, known: KnownRaters | None) -> dict[str, Any]:
    """Figures of predictions that know who rated each test image, for --json; says them too."""
    if known is None:
        return {}
    if known.pc is not None:
        figures = f"PC {known.pc:.4f}, MAE {known.mae:.4f}, RMSE {known.rmse:.4f}"
        say(f"{label}: predictions that know who rated each image: {figures}")
    return {"known_raters": known.model_dump(include={"pc", "mae", "rmse"})}


def _show(rows: list[dict[str, Any]], as_json: bool, single: bool) -> None:
    """Print one row, or several with their mean."""
    if as_json:
        print_json(rows[0] if single and rows else rows)
        return
    data = dict.fromkeys(row["data"] for row in rows)
    means = [_mean([row for row in rows if row["data"] == name], name if len(data) > 1 else None) for name in data]
    rows = [*rows, *(row for row in means if row is not None)]
    if rows:
        print_table(rows, {key: head for key, head in COLUMNS.items() if any(key in row for row in rows)})


def _mean(rows: list[dict[str, Any]], data: str | None) -> dict[str, Any] | None:
    """The mean of several rows of one data set, which is named if there are others."""
    if len(rows) < 2:
        return None
    label = ({} if data is None else {"data": data}) | {"model" if "model" in rows[0] else "split": "mean"}
    figures = [key for key in COLUMNS if isinstance(rows[0].get(key), float)]
    columns = {key: [row[key] for row in rows] for key in figures}
    return label | {key: None if None in values else fmean(values) for key, values in columns.items()}
