"""uol score, compare, rank, anchor: use a trained model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uol.cli.options import (
    ClusterOption,
    CsvOption,
    Device,
    DeviceOption,
    FaceCacheOption,
    FacesOption,
    ImagesArgument,
    Interval,
    IntervalOption,
    JsonOption,
    ModelOption,
    ModelOutOption,
    On,
    OnOption,
    PanelOption,
    PartSizeOption,
    PriceOption,
    ReadPartsOption,
    ReplaceFileOption,
    ReplaceOption,
    Runtime,
    RuntimeOption,
    WorkersOption,
    data_argument,
)
from uol.cli.output import check_page, load, print_json, print_table, progress_bar, say
from uol.datasets.choosing import DataChoice
from uol.errors import CallError, ImageError, StoppedError, counted
from uol.scale import PART_SIZE
from uol.scoring.released import ALL_PANELS, DEFAULT

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer
    from uol.scoring.job import Progress
    from uol.scoring.rows import ScoreRow

_MOST_DOUBTS = 5  # lines on stderr; files and JSON list all
_LOW = 0.2  # a correlation below which the anchored scale means little
FIGURES = {"value": "score", "low": "low", "high": "high", "dispersion": "dispersion"}


def score(
    images: ImagesArgument,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Write rows to a .csv, .json, .jsonl or .parquet file, with --on ray to a folder or an address; run "
            "again to resume.",
        ),
    ] = None,
    replace: ReplaceFileOption = False,
    all_faces: FacesOption = False,
    face_cache: FaceCacheOption = None,
    explain: Annotated[
        Path | None, typer.Option("--explain", help="Draw how each score was made: a .png file, or a folder for many.")
    ] = None,
    panel: PanelOption = None,
    interval: IntervalOption = Interval.PANEL,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
    on: OnOption = On.LOCAL,
    workers: WorkersOption = None,
    cluster: ClusterOption = None,
    part_size: PartSizeOption = PART_SIZE,
    read: ReadPartsOption = None,
    price: PriceOption = None,
) -> None:
    """Score images on the panel's scale, each with an interval and a dispersion.

    Models of faces find and align the largest face of a photograph. If an image cannot be scored, its row has the
    reason, the other images are scored, and the exit status is 1. A model may know several panels: --panel all scores
    images on the scale of each.

    With --on ray, images are folders, lists (.txt), Parquet files or addresses such as s3://bucket/folder; --out has
    the rows in parts of Parquet, images that cannot be scored included, and the exit status is 0.

    Example: uol score photo.jpg holiday/ --json
    """
    from uol.images.paths import check_cache, expand_paths
    from uol.scoring.released import open_model
    from uol.scoring.row_file import check_scores_file

    _check_format(as_json, as_csv)
    if on is On.RAY:
        from uol.cli.score_ray import read_settings, score_on_ray
        from uol.scale.bulk_scoring import Request

        unfit: dict[str, object] = {"--csv": as_csv, "--explain": explain, "--face-cache": face_cache}
        if given := [name for name, value in unfit.items() if value]:
            raise CallError(f"{given[0]} is not for --on ray")
        if out is None:
            raise CallError("--on ray needs --out: a folder, or an address such as s3://bucket/scores")
        request = Request(
            images, out, model, runtime.value, device.value, panel, interval.value, all_faces,
            read_settings(read or []), part_size, workers, cluster, replace,
        )  # fmt: skip
        score_on_ray(request, price, as_json)
        return
    only_ray: dict[str, object] = {
        "--workers": workers,
        "--cluster": cluster,
        "--read": read,
        "--price": price,
        "--part-size": None if part_size == PART_SIZE else part_size,
    }
    if given := [name for name, value in only_ray.items() if value is not None]:
        raise CallError(f"{given[0]} is for --on ray")
    paths = expand_paths(images, sys.stdin, say)
    rows_file = None if out is None else Path(out)
    if rows_file is not None:
        check_scores_file(rows_file, paths, replace)
    check_cache(images, face_cache)
    if explain is not None:
        from uol.reports.explain import check_explainable, picture_paths

        picture_paths([str(path) for path in paths], explain)
    all_panels = panel == ALL_PANELS
    if all_panels and explain is not None:
        raise CallError("--explain draws the score of one panel; name it with --panel")
    asked = None if all_panels else panel
    scorer = open_model(model, runtime.value, device.value, asked, interval.value, wait=False)
    _say_interval(interval, scorer)
    if explain is not None:
        check_explainable(scorer)
    rows = _score(scorer, model, paths, rows_file, all_faces, face_cache, all_panels)
    if explain is not None:
        from uol.reports.explain import explain_rows

        for path in explain_rows(scorer, [row for row in rows if row["error"] is None], explain):
            say(f"picture: {path}")
    if out is not None:
        scale = "" if all_panels else _scale_of(scorer, panel)
        say(f"{counted(len(rows), 'row')}{scale}: {out}")
    if out is None or as_json or as_csv:
        _print(rows, as_json, as_csv, scorer if all_panels else None)
    _finish(rows)


def compare(
    first: Annotated[Path, typer.Argument(help="An image.")],
    second: Annotated[Path, typer.Argument(help="Another image.")],
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
    panel: PanelOption = None,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Print the probabilities that the panel rates the first image below, similar to, or above the second.

    The probabilities are overconfident for photographs that differ from those the model was calibrated on.

    Example: uol compare a.jpg b.jpg
    """
    from uol.images.read import check_file
    from uol.scoring.released import open_model

    for path in (first, second):
        try:
            check_file(path)
        except ImageError as error:
            raise CallError(str(error)) from error
    comparison = open_model(model, runtime.value, device.value, panel).compare(first, second)._asdict()
    if as_json:
        print_json({"first": str(first), "second": str(second), **comparison})
    else:
        print_table([comparison], {"less": "less", "similar": "similar", "greater": "greater"})


def rank(
    images: ImagesArgument,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the ranking to a .csv, .json, .jsonl or .parquet file.")
    ] = None,
    replace: ReplaceFileOption = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the ranked images.")] = None,
    all_faces: FacesOption = False,
    face_cache: FaceCacheOption = None,
    panel: PanelOption = None,
    interval: IntervalOption = Interval.PANEL,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Rank images from best to worst; an image whose interval overlaps that of a rank's best image shares the rank.

    Example: uol rank photos/ --html ranking.html
    """
    from uol.images.paths import check_cache, expand_paths
    from uol.scoring.job import RANK_COLUMNS
    from uol.scoring.released import open_model
    from uol.scoring.row_file import check_scores_file, write_rows
    from uol.scoring.rows import rank_rows

    _check_format(as_json, as_csv)
    paths = expand_paths(images, sys.stdin, say)
    check_page(html, paths)
    check_cache(images, face_cache)
    if out is not None:
        check_scores_file(out, paths, replace)
    scorer = open_model(model, runtime.value, device.value, panel, interval.value)
    _say_interval(interval, scorer)
    rows = rank_rows(_score(scorer, model, paths, None, all_faces, face_cache))
    if out is not None:
        write_rows(out, rows, RANK_COLUMNS)
        say(f"{counted(len(rows), 'row')}{_scale_of(scorer, panel)}: {out}")
    if html is not None:
        from uol.reports.contact_sheet import write_contact_sheet

        write_contact_sheet(html, rows, scorer.panel)
        say(f"page: {html}")
    if (out is None and html is None) or as_json or as_csv:
        _print(rows, as_json, as_csv)
    _finish(rows)


@data_argument
def anchor(
    chosen: DataChoice,
    out: ModelOutOption,
    model: ModelOption = DEFAULT,
    panel: Annotated[
        str | None, typer.Option("--panel", help="Start from this panel of the model; by default from its first.")
    ] = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move a model to another panel's scale: the images that this panel rated become its references, without training.

    Ten rated images are the least, thirty give useful intervals.

    Example: uol anchor photos/ --table ratings.csv --out our-model
    """
    from uol.runs.evaluation import evaluate
    from uol.scoring.base import FEW_ANCHORS
    from uol.scoring.folder import check_target, save_anchored
    from uol.scoring.released import find_model, open_model
    from uol.training.predictions import Predictions

    if out.resolve() == find_model(model).resolve():
        raise CallError(f"{out}: the model itself; choose another folder for the anchored model")
    check_target(out, replace)
    rated = load(chosen)
    if not rated.rated:
        raise CallError(f"{rated.name}: nobody rated these images: they cannot anchor a model")
    with progress_bar("embedding", len(rated)) as update:
        scorer = open_model(model, panel=panel)
        rated, embedded = scorer.embed_anchors(rated, lambda done, _: update(done))
    if len(rated) < FEW_ANCHORS:
        say(f"uol: only {len(rated)} rated images: expect wide intervals (use {FEW_ANCHORS} or more)")
    anchored = scorer.anchor_embedded(rated, embedded)
    save_anchored(anchored, out, find_model(model))
    figures = evaluate(rated, Predictions.of(anchored.leave_one_out()))
    if not figures["pc"] >= _LOW:
        doubt = "are they reversed?" if figures["pc"] < 0 else "the scale means little"
        say(f"uol: these ratings hardly follow the model's order (PC {figures['pc']:.2f}); {doubt}")
    row: dict[str, object] = {"model": str(out), **figures}
    if as_json:
        print_json(row)
        return
    columns = {"model": "model", "images": "anchors", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "coverage": "coverage"}
    print_table([row], columns)
    say("PC, MAE and RMSE are leave-one-out: each image is scored against the others; coverage is on the same images.")


def _score(
    scorer: BaseScorer,
    model: str,
    paths: list[Path],
    out: Path | None,
    all_faces: bool,
    face_cache: Path | None,
    all_panels: bool = False,
) -> list[ScoreRow]:
    """The rows of all files, with a progress bar."""
    from uol.scoring.job import score_job

    done = 0
    with progress_bar("scoring", len(paths)) as update:

        def report(progress: Progress) -> None:
            nonlocal done
            if progress.done == 0 and progress.before:
                say(f"{progress.before} of {progress.total} images are scored already")
            done = progress.before + progress.done
            update(done)

        try:
            return score_job(scorer, model, paths, out, all_faces, face_cache, all_panels, report)
        except KeyboardInterrupt:
            resume = "" if out is None else "; run the same command to resume"
            raise StoppedError(f"interrupted after {done} of {counted(len(paths), 'image')}{resume}") from None


def _scale_of(scorer: BaseScorer, named: str | None) -> str:
    """The panel whose scale scores are on, if named or one of several: files of scores do not say it."""
    panel, known = scorer.panel, len(scorer.panels)
    return f", on the scale of {panel.name}, {panel.low:g} to {panel.high:g}" if named or known > 1 else ""


def _say_interval(interval: Interval, scorer: BaseScorer) -> None:
    if interval is Interval.NEW_PANEL:
        say("intervals: 95 %, for the mean of a panel that nobody has seen, on this scale")
        return
    from uol.scoring.base import NOT_CALIBRATED

    if not scorer.calibration.images:
        say(f"intervals: {NOT_CALIBRATED}")


def _check_format(as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise CallError("--json and --csv: choose one")


def _print(rows: Sequence[ScoreRow], as_json: bool, as_csv: bool, of_panels: BaseScorer | None = None) -> None:
    """Print scored or ranked rows, with the scores on the scale of each panel if the scorer that made them is given."""
    from uol.scoring import job, row_file

    ranked = bool(rows) and "rank" in rows[0]
    if as_json:
        print_json(rows)
        return
    if as_csv:
        print(
            row_file.as_csv(
                rows, job.RANK_COLUMNS if ranked else job.columns_of(None if of_panels is None else of_panels.panels)
            ),
            end="",
        )
        return
    names = [] if of_panels is None else [panel.name for panel in of_panels.panels]
    shown = [
        {**row, **{name: _with_interval(row, name) for name in names}, "place": row_file.flat(row["face"])}
        | {
            "tie": "=" if row.get("tied") else "",
            "error": row["error"] and row["error"].removeprefix(f"{row['image']}: "),
        }
        for row in rows
    ]
    hidden = set() if len({row["image"] for row in rows}) < len(rows) else {"place"}
    hidden |= set() if _failed(rows) else {"error"}
    figures = {name: name for name in names} or FIGURES
    headings = {"rank": "rank", "tie": ""} if ranked else {}
    headings |= {"image": "image", "place": "face", **figures, "error": "error"}
    print_table(shown, {key: title for key, title in headings.items() if key not in hidden})


def _with_interval(row: ScoreRow, panel: str) -> str:
    """A score and its interval on one panel's scale, as text."""
    figures = row["panels"][panel]
    if figures["value"] is None:
        return ""
    return f"{figures['value']:.2f} ({figures['low']:.2f}–{figures['high']:.2f})"


def _finish(rows: Sequence[ScoreRow]) -> None:
    """Report doubtful faces and failures; exit with 1 if there are failures."""
    doubtful = [(row["image"], face["problems"]) for row in rows if (face := row["face"]) and face["problems"]]
    for image, problems in doubtful[:_MOST_DOUBTS]:
        say(f"{image}: {', '.join(problems)}")
    if len(doubtful) > _MOST_DOUBTS:
        say(f"… and {len(doubtful) - _MOST_DOUBTS} more doubtful faces (`problems` in --json and --csv)")
    if failed := _failed(rows):
        images = counted(len({row["image"] for row in rows}), "image")
        say(f"uol: {failed} of {images} could not be scored")
        raise typer.Exit(1)


def _failed(rows: Sequence[ScoreRow]) -> int:
    return sum(row["error"] is not None for row in rows)
