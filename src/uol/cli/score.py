"""uol score, compare, rank, anchor: asking a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError, ImageError

if TYPE_CHECKING:
    from uol.scorer import Scorer
    from uol.scores import Score

ModelOption = Annotated[Path, typer.Option("--model", "-m", help="A model folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SCORE_COLUMNS = {
    "image": "image", "value": "score", "low": "low", "high": "high", "dispersion": "dispersion", "error": "error",
}  # fmt: skip


def score(
    images: Annotated[list[Path], typer.Argument(help="Image files or folders of images.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Score images on the panel's scale, each with an interval and a dispersion.

    Example: uol score photo.jpg holiday/ --model uol-demo/model --json
    """
    from uol.scorer import Scorer

    paths = expand(images)
    scorer = Scorer.from_pretrained(model)
    rows = score_rows(scorer, paths)
    if as_json:
        print_json(rows)
    else:
        print_table(rows, {key: title for key, title in SCORE_COLUMNS.items() if key != "error" or _failed(rows)})
    if _failed(rows):
        say(f"uol: {_failed(rows)} of {len(rows)} images could not be scored")
        raise typer.Exit(1)


def compare(
    first: Annotated[Path, typer.Argument(help="An image.")],
    second: Annotated[Path, typer.Argument(help="Another image.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Say how likely the panel would put the first image below, level with, or above the second.

    Example: uol compare a.jpg b.jpg --model uol-demo/model
    """
    from uol.scorer import Scorer

    first, second = expand([first])[0], expand([second])[0]
    comparison = Scorer.from_pretrained(model).compare(first, second)._asdict()
    if as_json:
        print_json({"first": str(first), "second": str(second), **comparison})
    else:
        print_table([comparison], {"less": "less", "similar": "similar", "greater": "greater"})


def rank(
    images: Annotated[list[Path], typer.Argument(help="Image files or folders of images.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Rank images from best to worst; those whose intervals overlap that of the best of their rank share it.

    Example: uol rank photos/ --model uol-demo/model
    """
    from uol.scorer import Scorer
    from uol.scores import Score, rank_with_ties

    scored = score_rows(Scorer.from_pretrained(model), expand(images))
    good = sorted((row for row in scored if row["error"] is None), key=lambda row: -row["value"])
    ranks = rank_with_ties([Score(row["value"], row["low"], row["high"], row["dispersion"], 0.0) for row in good])
    rows: list[dict[str, Any]] = [
        {"rank": place, "tied": ranks.count(place) > 1, **row} for place, row in zip(ranks, good, strict=True)
    ]
    rows += [{"rank": None, "tied": False, **row} for row in scored if row["error"] is not None]
    if as_json:
        print_json(rows)
    else:
        print_table(
            [{**row, "tied": "=" if row["tied"] else ""} for row in rows], {"rank": "rank", "tied": "", **SCORE_COLUMNS}
        )
    if _failed(rows):
        raise typer.Exit(1)


def anchor(
    folder: Annotated[Path, typer.Argument(help="A folder of images that another panel rated.")],
    table: Annotated[Path, typer.Argument(help="The ratings: CSV, Parquet or XLSX; wide, long or means.")],
    model: ModelOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
    votes: Annotated[bool, typer.Option("--votes", help="The table has votes on pairs instead of ratings.")] = False,
    scale: ScaleOption = None,
    read: ReadOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a model on another panel's scale: its rated images become the references; nothing is trained.

    Example: uol anchor photos/ ratings.csv --model uol-demo/model --out our-model
    """
    from uol.evaluation import evaluate
    from uol.methods.base import Predictions
    from uol.model_folder import check_target
    from uol.scorer import FEW_ANCHORS, FEWEST_ANCHORS, Scorer

    check_target(out)
    scorer = Scorer.from_pretrained(model)
    rated = load("votes" if votes else "own", folder, table, scale, read)
    if FEWEST_ANCHORS <= len(rated) < FEW_ANCHORS:
        say(f"uol: only {len(rated)} rated images: expect wide intervals (better from {FEW_ANCHORS} on)")
    anchored = scorer.anchor(rated)
    anchored.save_pretrained(out)
    row = {"model": str(out), **evaluate(rated, Predictions.of(anchored.leave_one_out()))}
    if as_json:
        print_json(row)
    else:
        print_table(
            [row],
            {"model": "model", "images": "anchors", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "coverage": "coverage"},
        )
        say("PC, MAE and RMSE are leave-one-out: each image scored against the others; coverage is of the same images.")


def expand(paths: list[Path]) -> list[Path]:
    """Files as they are, folders as the images in them; a path that does not exist is a wrong call."""
    from uol.images import find_images

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += find_images(path)
        elif path.exists():
            found.append(path)
        else:
            raise CallError(f"{path}: no such file or folder")
    return found


def score_rows(scorer: Scorer, paths: list[Path], batch_size: int = 32) -> list[dict[str, Any]]:
    """One row per image; one that cannot be read has its error in the row, and the others go on."""
    from uol.images import read_image

    rows: list[dict[str, Any]] = []
    with progress_bar("scoring", len(paths)) as update:
        for start in range(0, len(paths), batch_size):
            batch = paths[start : start + batch_size]
            decoded, errors = [], {}
            for path in batch:
                try:
                    decoded.append(read_image(path))
                except ImageError as error:
                    errors[path] = str(error)
            scores = iter(scorer.score(decoded) if decoded else [])
            rows += [
                _row(path, None, errors[path]) if path in errors else _row(path, next(scores), None) for path in batch
            ]
            update(len(rows), "")
    return rows


def _row(path: Path, score: Score | None, error: str | None) -> dict[str, Any]:
    values = {key: None if score is None else getattr(score, key) for key in ("value", "low", "high", "dispersion")}
    return {"image": str(path), "face": None, **values, "error": error}


def _failed(rows: list[dict[str, Any]]) -> int:
    return sum(row["error"] is not None for row in rows)
