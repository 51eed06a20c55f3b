"""uol train and evaluate."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.cli.score import Device, DeviceOption
from uol.errors import CallError

if TYPE_CHECKING:
    import pandas as pd

    from uol.ratings.rated_images import Indices, RatedImages, Split
    from uol.ratings.scale import Scale
    from uol.runs.result import KnownRaters
    from uol.training.batches import PackedImages
    from uol.training.loop import EpochReport

DataOption = Annotated[str, typer.Option("--data", "-d", help="A data set; `uol data list` names them.")]
RootOption = Annotated[Path | None, typer.Option("--root", help="Its folder, as its owner distributes it.")]
TableOption = Annotated[Path | None, typer.Option("--table", help="For --data own: the table of ratings.")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        "--fold",
        help="A split of the data set: 1 is fold-1, all every fold, whole trains on all images; 1-inner keeps a "
        "quarter of fold-1's training images apart, 1-without-GROUP those of a group.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Framing(StrEnum):
    """What of an image is shown to a model."""

    WHOLE = "whole"
    FACE = "face"


EVALUATION_COLUMNS = {
    "model": "model", "data": "data", "split": "split", "images": "images", "pc": "PC",
    "mae": "MAE", "rmse": "RMSE", "spearman": "Spearman",
    "order_accuracy": "order", "coverage": "coverage", "dispersion_pc": "dispersion PC",
}  # fmt: skip


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder; the same call resumes a stopped run.")],
    data: DataOption = "synthetic",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    split: SplitOption = None,
    recipe: Annotated[str, typer.Option("--recipe", "-r", help="A recipe that ships, or a YAML file.")] = "paper",
    init: Annotated[str | None, typer.Option("--init", help="Backbone weights: a safetensors file, or timm.")] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another panel trains the same network: NAME=FOLDER, or NAME=FOLDER:SPLIT."),
    ] = None,
    read_beside: Annotated[
        list[str] | None,
        typer.Option("--with-read", help="How to read it, as NAME:table=FILE, NAME:scale=1,10, NAME:image=COLUMN."),
    ] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set epochs=50.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model on a data set and test it on the images the split keeps apart.

    With --fold all each fold has a folder of its own in the run folder. Panels that train together (--with) are never
    compared; each is tested with references of its own, and its model is in panels/NAME/model of the run folder.

    Example: uol train --data synthetic --recipe demo --out runs/first
    """
    from uol.cli.train_beside import known_row, load_beside, pack_beside, rows_beside, say_known_raters
    from uol.runs.lineage import check_teachers
    from uol.runs.run import check_before_reading
    from uol.runs.train_and_test import MODEL, RESULT, Origin, trial
    from uol.training.batches import PackedImages
    from uol.training.recipe import load_recipe

    asked = changes_of(changes, init)
    settings = load_recipe(recipe, asked)
    check_before_reading(settings, 1 + len(beside or []))
    rated = load(data, root, table, scale, read)
    chosen = splits_of(rated, split)
    others = load_beside(rated, beside or [], read_beside or [])
    for name, parts in chosen.items():
        if not ((out / name if split == "all" else out) / RESULT).is_file():  # one that has finished needs no teachers
            own = settings.for_split(name)
            check_teachers(own, rated, name, parts, None if others else parts.train)
            for panel in others:
                check_teachers(own, *panel, None)
    with progress_bar("reading images", len(rated)) as update:
        packed = PackedImages.pack(rated, settings.model, lambda done, _: update(done))
    also = pack_beside(others, settings.model)
    rows: list[dict[str, Any]] = []
    for name, parts in chosen.items():
        folder = out / name if split == "all" else out
        say(f"{settings.method} on {rated.name}, {name}: {len(parts.train)} images, {settings.epochs} epochs")
        with progress_bar("training", settings.epochs) as update:
            origin = Origin(Path(recipe).stem, asked)
            result = trial(
                packed, name, parts, settings, folder, origin, lambda e: update(e.epoch, _word(e)), beside=also
            )
        say(f"model: {folder / MODEL}" if (folder / MODEL).is_dir() else f"{settings.method} makes no model folder")
        if result is None:
            say("no images are kept apart to test on")
        else:
            known = known_row(result.known_raters)
            rows.append({"data": rated.name, "split": name, **result.metrics.model_dump(), **known})
            say_known_raters(f"{rated.name}, {name}", result.known_raters)
            rows += rows_beside(result, folder)
    _show(rows, as_json, single=split != "all" and not also)


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that ships, a model folder, or a run folder.")],
    data: DataOption = "synthetic",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    split: SplitOption = None,
    framing: Annotated[
        Framing | None, typer.Option("--framing", help="Frame images so, not as the model does: whole, or face.")
    ] = None,
    device: DeviceOption = Device.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Compare a model's scores with a panel's; another scale is mapped linearly to the model's, as the paper does.

    On the data set it was trained on, a run is tested on the images its own split keeps apart. Another data set is
    taken whole where it has several splits and none is named, and what is found is kept in the run folder, under
    evaluations; of a panel's own model, panels/NAME/model of a run, in panels/NAME. A folder of folds is evaluated fold
    by fold. Where the data set tells who rated which image, and not everybody rated everything, figures of predictions
    that know it are said too.

    Example: uol evaluate runs/first --data synthetic
    """
    from uol.cli.train_beside import known_row, say_known_raters
    from uol.runs.train_and_test import MODEL, evaluate_on, keep_evaluation
    from uol.scoring.folder import load_model
    from uol.scoring.released import choose_device
    from uol.training.batches import PackedImages

    runs = _runs(model)
    rated = load(data, root, table, scale, read)
    if not rated.rated:
        raise CallError(f"{data}: nobody rated these images, so there is nothing to compare with")
    where = choose_device(device.value)
    rows = []
    packed: dict[object, PackedImages] = {}
    for run in runs:
        name, own, panel = _tested_on(run, rated, split)
        scorer = load_model(run / panel / MODEL if (run / MODEL).is_dir() else run)
        scorer.to(where)
        config = scorer.config if framing is None else scorer.config.model_copy(update={"framing": framing.value})
        if config not in packed:
            with progress_bar("reading images", len(rated)) as update:
                packed[config] = PackedImages.pack(rated, config, lambda done, _: update(done))
        test = packed[config] if name is None else packed[config].subset(_test_images(rated, name))
        figures, predictions = evaluate_on(scorer, test)
        kept = _keeps_evaluations(run)
        if kept is not None and not own:
            keep_evaluation(kept, rated.name, name, config.framing, figures, predictions)
        known = _known_raters(packed[config], name, predictions, scorer.panel.scale)
        rows.append({"model": run.name, "data": rated.name, "split": name, **figures, **known_row(known)})
        say_known_raters(f"{run.name}, {rated.name}{'' if name is None else f', {name}'}", known)
    _show(rows, as_json, single=runs == [model])


def _runs(model: Path) -> list[Path]:
    """The model folder itself, or the runs of a run folder."""
    from uol.runs.folder import run_folders
    from uol.scoring import released

    if not model.exists() and str(model) in released.names():
        return [released.find_model(model)]
    if (model / "config.json").is_file():
        of_a_run = model.name == "model" and (model.parent / "result.json").is_file()
        return [model.parent if of_a_run else model]
    runs = run_folders(model)
    for run in runs:
        if not (run / "model").is_dir():
            raise CallError(f"{run}: a run without a model folder: it has not finished, or its method makes none")
    return runs


def _home(model: Path) -> Path:
    """The run folder of a panel's model, panels/NAME/model of it; any other folder is its own."""
    from uol.runs.multi_panel import PANELS

    place = model.resolve()
    return place.parents[2] if place.name == "model" and place.parent.parent.name == PANELS else model


def _keeps_evaluations(model: Path) -> Path | None:
    """The folder that evaluations of a model are kept in: a run, or a panel's folder in it; None for a mere model."""
    if (model / "model").is_dir():
        return model
    return model.resolve().parent if _home(model) != model else None


def _tested_on(run: Path, rated: RatedImages, split: str | None) -> tuple[str | None, bool, Path]:
    """The split whose images test a run, None for the whole set; whether it is the run's own data set; whose model.

    On its own data set a run is tested on the images that its own split keeps apart, and on no others, with the model
    of that panel where several trained it.
    """
    from uol.runs.multi_panel import own_split
    from uol.runs.result import read_result

    home = _home(run)
    if (home / "result.json").is_file():
        trained = own_split(read_result(home / "result.json"), rated.fingerprint)
        if trained is not None:
            name, panel, _ = trained
            trained.check(run, rated)
            if split not in (None, "all") and name not in splits_of(rated, split):
                raise CallError(f"{run} was trained on images of that split; its own is {name}")
            if not len(_test_images(rated, name)):
                raise CallError(f"{run} was trained on every image of {rated.name}: there is none to test it on")
            return name, True, panel
    if _trained_on_all(home, rated):
        raise CallError(f"{run} was trained on every image of {rated.name}: there is none to test it on")
    if split == "whole":
        return None, False, Path()
    if split == "all":
        raise CallError(f"--split all: for networks that were trained on the folds of {rated.name}; name one split")
    if split is None and len(rated.splits) != 1:
        return None, False, Path()
    return next(iter(splits_of(rated, split))), False, Path()


def _trained_on_all(run: Path, rated: RatedImages) -> bool:
    from uol.scoring.folder import PROVENANCE

    made = json.loads((run / PROVENANCE).read_text(encoding="utf-8")) if (run / PROVENANCE).is_file() else {}
    learnt = [made["data"], *made.get("panels", [])] if made else []
    return rated.fingerprint in [data["fingerprint"] for data in learnt]


def splits_of(rated: RatedImages, name: str | None) -> dict[str, Split]:
    """The named split, all folds for "all", or the only one; "whole", or without any, all train and none test."""
    if name == "whole" or (name is None and not rated.splits):
        import numpy as np

        from uol.ratings.rated_images import Split

        return {"whole": Split(np.arange(len(rated)), np.arange(0))}
    if name is None and len(rated.splits) > 1:
        raise CallError(f"{rated.name} has several splits; choose one with --split: {', '.join(rated.splits)}")
    if name == "all":
        folds = {key: parts for key, parts in rated.splits.items() if key.startswith("fold-")}
        if not folds:
            raise CallError(f"{rated.name} has no folds; its splits: {', '.join(rated.splits) or 'none'}")
        return folds
    from uol.ratings.splits import find_split

    if name is None:
        name = next(iter(rated.splits))
    found = find_split(rated, name)
    if found is None and name[:1].isdigit():  # after the split's own name: MEBeauty has one called 2022
        name = f"fold-{name}"
        found = find_split(rated, name)
    if found is None:
        raise CallError(f"{rated.name} has no split {name!r}; there are {', '.join(rated.splits) or 'none'}")
    return {name: found}


def _known_raters(
    packed: PackedImages, name: str | None, predictions: pd.DataFrame, scale: Scale
) -> KnownRaters | None:
    """Figures of predictions, on a model's scale, that are told who rated each image; None is the whole set."""
    from uol.ratings.splits import find_split
    from uol.runs.evaluation import LENIENCY
    from uol.runs.known_raters import known_leniency
    from uol.runs.predictions import known_raters_of

    rated = packed.rated
    leniency = known_leniency(packed, None if name is None else find_split(rated, name))
    if leniency is None:
        return None
    told = predictions.assign(**{LENIENCY: leniency * scale.unit / rated.scale.unit})
    return known_raters_of(told, rated.fingerprint, name or "whole")


def _test_images(rated: RatedImages, name: str) -> Indices:
    """The images that a split keeps apart; none where there is no such split, as with `whole`."""
    import numpy as np

    from uol.ratings.splits import find_split

    found = find_split(rated, name)
    return np.arange(0) if found is None else found.test


def _word(epoch: EpochReport) -> str:
    return f"loss {epoch.losses['total']:.4f}"


def changes_of(changes: list[str] | None, init: str | None) -> dict[str, Any]:
    """Settings as --set name=value gives them, and --init."""
    import yaml

    values: dict[str, Any] = {}
    for change in changes or []:
        name, equals, value = change.partition("=")
        if not equals:
            raise CallError(f"--set {change}: write it as name=value")
        try:
            values[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise CallError(f"--set {change}: the value is not readable") from error
    return values | ({} if init is None else {"init": init})


def _show(rows: list[dict[str, Any]], as_json: bool, single: bool) -> None:
    """Print one row, or several with their mean."""
    if as_json:
        print_json(rows[0] if single and rows else rows)
        return
    data = dict.fromkeys(row["data"] for row in rows)
    means = [_mean([row for row in rows if row["data"] == name], name if len(data) > 1 else None) for name in data]
    rows = [*rows, *(row for row in means if row is not None)]
    if rows:
        print_table(rows, {key: head for key, head in EVALUATION_COLUMNS.items() if any(key in row for row in rows)})


def _mean(rows: list[dict[str, Any]], data: str | None) -> dict[str, Any] | None:
    """The mean of several rows of one data set, which is named where there are others."""
    from uol.studies.rows import mean

    if len(rows) < 2:
        return None
    figures = [key for key in EVALUATION_COLUMNS if isinstance(rows[0].get(key), float)]
    name = {} if data is None else {"data": data}
    return {**name, "model" if "model" in rows[0] else "split": "mean"} | {
        key: mean(row[key] for row in rows) for key in figures
    }
