"""The demonstration: three methods learn from one simulated panel and are tested on two panels."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from uol.datasets.synthetic import load_synthetic
from uol.errors import CallError, UolError
from uol.methods.uol import Uol
from uol.ratings.rated_images import RatedImages
from uol.reports import figures
from uol.reports.html import Section, write_report
from uol.runs.evaluation import Evaluation, evaluate
from uol.runs.run import run
from uol.storage.files import write_json
from uol.training.method import Method
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, load_recipe

METHODS = ("regression", "order-learning", "uol")
TRAINING, TEST, ANCHORS, SIZE = 3000, 1000, 100, 72
TABLE_COLUMNS = {
    "method": "method", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "order_accuracy": "order", "coverage": "coverage",
    "other_pc": "other panel: PC", "other_mae": "MAE", "other_rmse": "RMSE", "seconds": "seconds",
}  # fmt: skip


def demo_recipe(seed: int = 0, method: str = "uol") -> Recipe:
    """The recipe that ships as `demo`, for one of the methods."""
    return load_recipe("demo", {"method": method, "seed": seed})


def run_demo(
    folder: str | os.PathLike[str], seed: int = 0, report: Callable[[int, str], None] | None = None
) -> dict[str, Any]:
    """Train and test the methods; writes results.json, report.html and a model folder, and returns the results."""
    began = time.perf_counter()
    folder = Path(folder)
    _make(folder)
    own = load_synthetic(TRAINING + TEST, TEST, seed=seed, panel="a", size=SIZE)
    other = load_synthetic(TRAINING + TEST, TEST, seed=seed, panel="b", size=SIZE)
    split = own.splits["default"]
    packed = PackedImages.pack(own, demo_recipe(seed).model)
    training, test, other_test = packed.subset(split.train), packed.subset(split.test), other.subset(split.test)
    rows: list[dict[str, Any]] = []
    predictions: dict[str, Predictions] = {}
    curves: dict[str, list[float]] = {}
    trained: Method | None = None
    for number, name in enumerate(METHODS):
        recipe = demo_recipe(seed, name)
        start = time.perf_counter()
        curve = curves.setdefault(name, [])

        def note(epoch: Any, curve: list[float] = curve, number: int = number, name: str = name) -> None:
            curve.append(epoch.losses["total"])
            if report is not None:
                report(number * epoch.epochs + epoch.epoch, name)

        trained = run(training, recipe, report=note, accelerator="cpu")
        seconds = time.perf_counter() - start
        predictions[name] = trained.predict(test.centre)
        moved = evaluate(other_test.rescaled(own.scale), predictions[name], recipe.threshold)
        rows.append(_row(name, evaluate(test.rated, predictions[name], recipe.threshold), moved, seconds))
    assert isinstance(trained, Uol)
    anchors = other.subset(split.train[:ANCHORS])
    anchored = trained.scorer.anchor(anchors)
    on_other = Predictions.of(anchored.score_embedded(trained.embed(test.centre)))
    moved = evaluate(other_test, on_other).copy()
    for name in ("mae", "rmse", "interval_width"):  # shown on the scale of 1 to 5, as in the other rows
        moved[name] *= own.scale.unit / other.scale.unit  # type: ignore[literal-required]
    rows.append(_row(f"uol, {ANCHORS} anchors", None, moved, None))
    trained.scorer.save_pretrained(folder / "model")
    result = {
        "rows": rows,
        "seed": seed,
        "images": {"training": len(training), "test": len(test), "anchors": ANCHORS},
        "recipe": demo_recipe(seed).model_dump(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "seconds": time.perf_counter() - began,
    }
    _write_report(folder, rows, test, other_test, predictions, on_other, curves, trained)
    result["seconds"] = time.perf_counter() - began
    write_json(folder / "results.json", result)
    return result


def _write_report(
    folder: Path,
    rows: list[dict[str, Any]],
    test: PackedImages,
    other_test: RatedImages,
    predictions: dict[str, Predictions],
    on_other: Predictions,
    curves: dict[str, list[float]],
    trained: Uol,
) -> None:
    best = predictions["uol"]
    scorer = trained.scorer
    places = shown_faces(best.value, test.rated)
    one = int(np.argsort(best.value)[len(test) * 2 // 3])
    outcomes = scorer.outcomes(trained.embed(test.centre[one : one + 1]))[0]
    rated = test.rated
    sections = [
        Section(
            "Three methods, two panels",
            "Each method learnt from one panel's ratings (1 to 5). The left columns test it on new faces that "
            "the same panel rated; the right columns on the same faces, rated by another panel with other standards "
            "(1 to 10, mapped linearly to 1 to 5). The last row is UOL moved to that panel's scale by a hundred faces "
            "that the panel rated, without any training. Order is the share of pairs in the correct ternary order.",
            TABLE_COLUMNS,
            rows,
        ),
        Section(
            "Scores and intervals",
            "Intervals are calibrated on training images that were held out, because the likelihood's interval is too "
            "narrow: it treats hundreds of comparisons of one image as independent. An interval should contain the "
            "panel's mean score in 95 % of cases; those that do not are drawn in colour.",
            figures=[figures.score_against_truth(rated.scores, predictions, rated.scale, "the panel")],
        ),
        Section(
            "Where faces fall on the scale",
            "New faces, drawn by a program: nobody was photographed, and the rule behind their scores says nothing "
            "about people.",
            figures=[
                figures.places_on_scale(
                    [np.asarray(rated.images[i]) for i in places],
                    Predictions(*(column[places] for column in best)),
                    rated.scores[places],
                    rated.scale,
                )
            ],
        ),
        Section(
            "One face against its references",
            "Every comparison with a reference of known score gives less, similar or greater; together they give "
            "the likelihood of each score.",
            figures=[
                figures.likelihood_of_one(
                    outcomes,
                    scorer.references.scores,
                    scorer.bradley_terry,
                    (best.value[one], best.low[one], best.high[one]),
                    float(rated.scores[one]),
                    rated.scale,
                )
            ],
        ),
        Section(
            "Raters who disagree",
            "UOL also predicts how much single raters differ about a face.",
            figures=[
                figures.dispersion_against_spread(best.dispersion, np.sqrt(rated.variances)),
                figures.loss_curves(curves),
            ],
        ),
        Section(
            "Another panel's scale",
            "The same model after anchoring: the order stays, the scale is the other panel's.",
            figures=[
                figures.score_against_truth(
                    other_test.scores, {f"uol, {ANCHORS} anchors": on_other}, other_test.scale, "the other panel"
                )
            ],
        ),
    ]
    write_report(
        folder / "report.html",
        "Order learning on uncertain ratings",
        f"{len(test)} new drawn faces, rated by simulated panels: the predictions of three methods, with intervals.",
        sections,
    )


def shown_faces(value: npt.NDArray[np.float64], rated: RatedImages, count: int = 16) -> npt.NDArray[np.intp]:
    """Faces at even steps of the ranking, of each skin tone in turn.

    Scores do not depend on skin tone, but among sixteen faces chance may suggest that they do.
    """
    order = np.argsort(value)
    tones = rated.groups["skin"].to_numpy()
    kinds = list(dict.fromkeys(tones))
    chosen: list[int] = []
    for k, place in enumerate(np.linspace(3, len(order) - 4, count)):
        fitting = np.flatnonzero(tones[order] == kinds[k % len(kinds)])
        fitting = fitting[~np.isin(order[fitting], chosen)]
        chosen.append(int(order[fitting[np.abs(fitting - place).argmin()]]))
    return np.array(chosen, np.intp)


def _row(method: str, own: Evaluation | None, other: Evaluation, seconds: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"method": method, **(own or {})}
    return (
        row
        | {f"other_{name}": value for name, value in other.items()}
        | {"seconds": None if seconds is None else round(seconds)}
    )


def _make(folder: Path) -> None:
    """Make the folder, or take that of an earlier demonstration; one with other files in it is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UolError(f"cannot make the folder {folder}: {error.strerror}") from error
    others = {path.name for path in folder.iterdir()} - {"results.json", "report.html", "model"}
    if others:
        raise CallError(f"{folder}: a folder with other files in it ({min(others)}); choose another folder")
