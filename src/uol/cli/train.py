"""uol train and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError

if TYPE_CHECKING:
    from uol.rated_images import RatedImages, Split

DataOption = Annotated[str, typer.Option("--data", "-d", help="A data set; `uol data list` names them.")]
RootOption = Annotated[Path | None, typer.Option("--root", help="Its folder, as its owner distributes it.")]
TableOption = Annotated[Path | None, typer.Option("--table", help="For --data own: the table of ratings.")]
SplitOption = Annotated[
    str | None, typer.Option("--split", "--fold", help="Which of the data set's splits; 1 is fold-1.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

EVALUATION_COLUMNS = {
    "data": "data", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "spearman": "Spearman",
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
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set epochs=50.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model on a data set and test it on the images the split keeps apart.

    Example: uol train --data synthetic --recipe demo --out runs/first
    """
    import pandas as pd

    from uol.evaluation import evaluate
    from uol.files import write_json, write_text
    from uol.training.batches import PackedImages
    from uol.training.recipe import load_recipe
    from uol.training.run import run

    settings = load_recipe(recipe, _changes(changes, init))
    rated = load(data, root, table, scale, read)
    chosen = _split(rated, split)
    packed = PackedImages.pack(rated, settings)
    training = packed.subset(chosen.train)
    say(f"{settings.method} on {rated.name}: {len(training)} training images, {settings.epochs} epochs")
    with progress_bar("training", settings.epochs) as update:
        method = run(training, settings, out, lambda e: update(e.epoch, f"loss {e.losses['total']:.4f}"))
    scorer = getattr(method, "scorer", None)
    if scorer is not None:
        scorer.save_pretrained(out / "model")
    say(f"model: {out / 'model'}" if scorer is not None else f"{settings.method} has no references: no model folder")
    if len(chosen.test) == 0:
        say("the data set has no test images")
        return
    test = packed.subset(chosen.test)
    predictions = method.predict(test.centre)
    figures = evaluate(test.rated, predictions, settings.threshold)
    rows = pd.DataFrame({"image": list(test.rated.names), "score": test.rated.scores, **predictions._asdict()})
    write_text(out / "predictions.csv", rows.to_csv(index=False, float_format="%.6g"))
    write_json(out / "evaluation.json", {"data": rated.name, **figures})
    _show(rated.name, figures, as_json)


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder, or a run folder with one in it.")],
    data: DataOption = "synthetic",
    root: RootOption = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    split: SplitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a model's scores with a panel's; another scale is mapped linearly to the model's, as the paper does.

    Without --split, a data set with several splits is taken whole: its images should not have trained the model.

    Example: uol evaluate runs/first --data synthetic
    """
    from uol.evaluation import evaluate as evaluate_predictions
    from uol.methods.base import Predictions
    from uol.scorer import Scorer

    if (model / "recipe.yaml").is_file() and not (model / "model").is_dir():
        raise CallError(f"{model}: a run without a model folder: it has not finished, or its method makes none")
    scorer = Scorer.from_pretrained(model / "model" if (model / "model").is_dir() else model)
    rated = load(data, root, table, scale, read)
    whole = split is None and len(rated.splits) != 1
    test = rated if whole else rated.subset(_split(rated, split).test)
    if not test.rated:
        raise CallError(f"{data}: nobody rated these images, so there is nothing to compare with")
    test = test.rescaled(scorer.panel.scale)
    _show(test.name, evaluate_predictions(test, Predictions.of(scorer.score(test.images))), as_json)


def _split(rated: RatedImages, name: str | None) -> Split:
    """The named split, or the only one; without any, all images train and none test."""
    if name is None and len(rated.splits) > 1:
        raise CallError(f"{rated.name} has several splits; choose one with --split: {', '.join(rated.splits)}")
    if name is None and not rated.splits:
        import numpy as np

        from uol.rated_images import Split

        return Split(np.arange(len(rated)), np.arange(0))
    name = next(iter(rated.splits)) if name is None else f"fold-{name}" if name.isdigit() else name
    if name not in rated.splits:
        raise CallError(f"{rated.name} has no split {name!r}; there are {', '.join(rated.splits) or 'none'}")
    return rated.splits[name]


def _changes(changes: list[str] | None, init: str | None) -> dict[str, Any]:
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


def _show(name: str, figures: Any, as_json: bool) -> None:
    row = {"data": name, **figures}
    if as_json:
        print_json(row)
    else:
        print_table([row], EVALUATION_COLUMNS)
