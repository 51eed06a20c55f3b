"""uol score, compare, rank, anchor: asking a trained model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uol.cli.data import ReadOption, ScaleOption, load
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError
from uol.scoring.released import DEFAULT

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer
    from uol.scoring.rows import ScoreRow


class Runtime(StrEnum):
    """What computes."""

    AUTO = "auto"
    TORCH = "torch"
    ONNX = "onnx"


class Device(StrEnum):
    """Where it is computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


ImagesArgument = Annotated[
    list[str], typer.Argument(help="Files, folders or patterns such as 'a/*.jpg'; - for a list on stdin.")
]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="A model that ships, or a model folder.")]
RuntimeOption = Annotated[Runtime, typer.Option("--runtime", help="torch, onnx, or whichever answers sooner.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="The processor, a GPU, or a GPU where there is one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write rows to a .csv, .json, .jsonl or .parquet file; a stopped job goes on."),
]
FaceCacheOption = Annotated[
    Path | None, typer.Option("--face-cache", help="Keep aligned faces in this folder: each is found once.")
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Put it in the place of a model that is there.")]
FacesOption = Annotated[bool, typer.Option("--all-faces", help="A row for every face, not the largest alone.")]

COLUMNS = (
    "image", "face", "face_left", "face_top", "face_width", "face_height", "problems", "value", "low", "high",
    "dispersion", "error",
)  # fmt: skip
_LITTLE = 0.2  # a correlation below which a scale means little
_MOST_DOUBTS = 5  # lines on stderr; tables and JSON have all
HEADINGS = {
    "image": "image", "place": "face", "value": "score", "low": "low", "high": "high", "dispersion": "dispersion",
    "error": "error",
}  # fmt: skip


def score(
    images: ImagesArgument,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    out: OutOption = None,
    all_faces: FacesOption = False,
    face_cache: FaceCacheOption = None,
    explain: Annotated[
        Path | None, typer.Option("--explain", help="Draw how a score came about: a .png file, or a folder for many.")
    ] = None,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Score images on the panel's scale, each with an interval and a dispersion.

    Models of faces find and align the largest face of a photograph themselves. An image that cannot be scored has its
    reason in its row; the others are scored, and the exit status is 1.

    Example: uol score photo.jpg holiday/ --model runs/first --json
    """
    from uol.scoring.released import open_model

    form = _format(as_json, as_csv)
    paths = expand(images)
    _check_targets(paths, out, explain)
    _check_cache(images, face_cache)
    if explain is not None:
        from uol.reports.explain import picture_paths

        picture_paths([str(path) for path in paths], explain)
        if runtime is Runtime.ONNX:
            raise CallError("--explain needs --runtime torch")
    scorer = open_model(model, "torch" if explain is not None else runtime.value, device.value)
    if explain is not None:
        from uol.reports.explain import check_explainable

        check_explainable(scorer)
    rows = _score(scorer, model, paths, out, all_faces, face_cache)
    if explain is not None:
        _explain(scorer, rows, explain)
    if out is None or as_json or as_csv:
        _print(rows, form, HEADINGS)
    else:
        say(f"{len(rows)} rows: {out}")
    _finish(rows)


def compare(
    first: Annotated[Path, typer.Argument(help="An image.")],
    second: Annotated[Path, typer.Argument(help="Another image.")],
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Say how likely the panel would put the first image below, level with, or above the second.

    On photographs unlike those that the model was calibrated on, the probabilities are too sure.

    Example: uol compare a.jpg b.jpg --model runs/first
    """
    from uol.scoring.released import open_model

    for path in (first, second):
        if not path.is_file():
            raise CallError(f"{path}: no such image file")
    comparison = open_model(model, runtime.value, device.value).compare(first, second)._asdict()
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
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the images in their order.")] = None,
    all_faces: FacesOption = False,
    face_cache: FaceCacheOption = None,
    runtime: RuntimeOption = Runtime.AUTO,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Rank images from best to worst; those whose intervals overlap that of the best of their rank share it.

    Example: uol rank photos/ --model runs/first --html ranking.html
    """
    from uol.scoring.released import open_model
    from uol.scoring.row_file import check_suffix, write_rows
    from uol.scoring.rows import rank_rows

    form = _format(as_json, as_csv)
    paths = expand(images)
    _check_targets(paths, out, html)
    _check_cache(images, face_cache)
    if out is not None:
        check_suffix(out)
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise CallError(f"--html {html}: name a file that ends in .html")
    scorer = open_model(model, runtime.value, device.value)
    rows = rank_rows(_score(scorer, model, paths, None, all_faces, face_cache))
    columns = ("rank", "tied", *COLUMNS)
    if out is not None:
        write_rows(out, rows, columns)
        say(f"{len(rows)} rows: {out}")
    if html is not None:
        from uol.reports.contact_sheet import write_contact_sheet

        write_contact_sheet(html, rows, scorer.panel)
        say(f"page: {html}")
    if (out is None and html is None) or as_json or as_csv:
        _print(rows, form, {"rank": "rank", "tie": "", **HEADINGS}, columns)
    _finish(rows)


def anchor(
    folder: Annotated[Path, typer.Argument(help="A folder of images that another panel rated.")],
    table: Annotated[Path, typer.Argument(help="The ratings: CSV, Parquet or XLSX; wide, long or means.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
    model: ModelOption = DEFAULT,
    votes: Annotated[bool, typer.Option("--votes", help="The table has votes on pairs instead of ratings.")] = False,
    scale: ScaleOption = None,
    read: ReadOption = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put a model on another panel's scale: its rated images become the references; nothing is trained.

    Example: uol anchor photos/ ratings.csv --model runs/first --out our-model
    """
    from uol.runs.evaluation import evaluate
    from uol.scoring.base import FEW_ANCHORS, FEWEST_ANCHORS
    from uol.scoring.folder import check_target, load_model, save_anchored
    from uol.scoring.released import find_model
    from uol.training.method import Predictions

    if votes and scale is not None:
        raise CallError("--scale: for ratings; votes make a scale of their own")
    if out.resolve() == find_model(model).resolve():
        raise CallError(f"{out}: the model itself; choose another folder for the anchored one")
    check_target(out, replace)
    scorer = load_model(model)
    rated = load("votes" if votes else "own", folder, table, scale, read)
    if FEWEST_ANCHORS <= len(rated) < FEW_ANCHORS:
        say(f"uol: only {len(rated)} rated images: expect wide intervals (better from {FEW_ANCHORS} on)")
    anchored = scorer.anchor(rated)
    save_anchored(anchored, out, find_model(model))
    figures = evaluate(rated, Predictions.of(anchored.leave_one_out()))
    row: dict[str, object] = {"model": str(out), **figures}
    if not figures["pc"] >= _LITTLE:
        say(f"uol: these ratings hardly follow the model's order (PC {figures['pc']:.2f}); are they reversed?")
    if as_json:
        print_json(row)
    else:
        print_table(
            [row],
            {"model": "model", "images": "anchors", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "coverage": "coverage"},
        )
        say("PC, MAE and RMSE are leave-one-out: each image scored against the others; coverage is of the same images.")


def expand(images: Iterable[str]) -> list[Path]:
    """Files as they are, folders as the images in them, patterns as what they match, - as the lines of stdin.

    What an argument names must be there; a missing file of a list has its row, with the reason, like a broken one.
    """
    found: list[Path] = []
    for name in images:
        if name == "-":
            lines = (line.rstrip("\r\n").removeprefix("\ufeff") for line in sys.stdin)
            found += [path for line in lines if line.strip() for path in _expanded(line, missing_ok=True)]
        else:
            found += _expanded(name)
    if not found:
        raise CallError("no images were given")
    return list(dict.fromkeys(found))


def _expanded(name: str, missing_ok: bool = False) -> list[Path]:
    import glob

    from uol.images.read import find_images

    path = Path(name)
    try:
        if path.is_dir():
            return find_images(path)
        if path.exists():
            return [path]
        matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
    except (OSError, ValueError) as error:  # names that no file can have
        raise CallError(f"{name[:100]!r}: not the name of a file ({error})") from error
    files = [match for match in matches if match.is_file()]
    if not files and not missing_ok:
        raise CallError(f"{name}: no such file or folder")
    return files or [path]


def _check_targets(paths: list[Path], *targets: Path | None) -> None:
    """Refuse to write over what is to be scored."""
    files = {path.resolve() for path in paths}
    folders = {path.parent for path in files}
    for target in targets:
        if target is not None and target.resolve() in files | folders:
            raise CallError(f"{target}: holds images that are to be scored; choose another name")


def _check_cache(images: Iterable[str], cache: Path | None) -> None:
    """Refuse to keep faces among photographs, where a later run would score them as such."""
    if cache is None:
        return
    for name in images:
        if name != "-" and Path(name).is_dir() and cache.resolve().is_relative_to(Path(name).resolve()):
            raise CallError(f"--face-cache {cache}: lies among the images of {name}; name a folder outside")
        if Path(name).is_file() and Path(name).resolve().parent == cache.resolve():
            raise CallError(f"--face-cache {cache}: holds {name}; name a folder without photographs")


def _score(
    scorer: BaseScorer,
    model: str,
    paths: list[Path],
    out: Path | None,
    all_faces: bool,
    face_cache: Path | None,
) -> list[ScoreRow]:
    """The rows of all files; with a file to write to, finished rows are kept and an earlier run is taken up."""
    from uol.scoring.bulk import score_files
    from uol.scoring.released import find_model, fingerprint
    from uol.scoring.row_file import RowFile

    if all_faces and scorer.config.framing == "whole":
        raise CallError("--all-faces: this model takes images whole; it looks for no faces")
    cache = None
    if face_cache is not None:
        if all_faces:
            raise CallError("--face-cache keeps the main face of an image: not with --all-faces")
        if face_cache.exists() and not face_cache.is_dir():
            raise CallError(f"{face_cache}: a file is there; name a folder for the faces")
        if scorer.config.framing == "face":
            from uol.images.face_cache import FaceCache

            cache = FaceCache(face_cache)
    job = {"model": fingerprint(find_model(model)), "all_faces": all_faces}
    rows: list[ScoreRow] = []
    with RowFile(out, job, COLUMNS) if out is not None else nullcontext() as kept:
        todo = paths if kept is None else kept.missing(paths)
        if len(todo) < len(paths):
            say(f"{len(paths) - len(todo)} of {len(paths)} images were scored before")
        done = len(paths) - len(todo)
        try:
            with progress_bar("scoring", len(todo)) as update:
                for index, found in score_files(scorer, todo, all_faces, cache=cache):
                    if kept is not None:
                        kept.add(todo[index], found)
                    else:
                        rows += found
                    done += 1
                    update(index + 1)
        except KeyboardInterrupt:
            say(f"interrupted after {done} of {len(paths)} images" + ("; the same command goes on" if kept else ""))
            raise
        if kept is not None:
            kept.order(paths)
            rows = kept.rows
    return rows


def _explain(scorer: BaseScorer, rows: list[ScoreRow], target: Path) -> None:
    from uol.reports.explain import explain_rows

    for path in explain_rows(scorer, [row for row in rows if row["error"] is None], target):
        say(f"picture: {path}")


def _format(as_json: bool, as_csv: bool) -> Format:
    if as_json and as_csv:
        raise CallError("--json and --csv: choose one")
    return Format.JSON if as_json else Format.CSV if as_csv else Format.TABLE


def _print(
    rows: Sequence[ScoreRow], form: Format, headings: dict[str, str], columns: tuple[str, ...] = COLUMNS
) -> None:
    from uol.scoring.row_file import as_csv, flat

    if form is Format.JSON:
        print_json(rows)
    elif form is Format.CSV:
        print(as_csv(rows, columns), end="")
    else:
        shown = [{**row, "place": flat(row["face"]), "tie": "=" if row.get("tied") else ""} for row in rows]
        several = len({row["image"] for row in rows}) < len(rows)
        kept = {"place"} if several else set()
        kept |= {"error"} if _failed(rows) else set()
        print_table(
            shown, {key: title for key, title in headings.items() if key not in {"place", "error"} or key in kept}
        )


def _finish(rows: Sequence[ScoreRow]) -> None:
    doubtful = [(row["image"], face["problems"]) for row in rows if (face := row["face"]) and face["problems"]]
    for image, problems in doubtful[:_MOST_DOUBTS]:
        say(f"{image}: {', '.join(problems)}")
    if len(doubtful) > _MOST_DOUBTS:
        say(f"… and {len(doubtful) - _MOST_DOUBTS} more doubtful faces (problems in --json and --csv)")
    if failed := _failed(rows):
        say(f"uol: {failed} of {len({row['image'] for row in rows})} images could not be scored")
        raise typer.Exit(1)


def _failed(rows: Sequence[ScoreRow]) -> int:
    return sum(row["error"] is not None for row in rows)
