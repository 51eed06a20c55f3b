"""Options and arguments of the commands, each defined once."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from uol.datasets.choosing import DataChoice
from uol.errors import CallError


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


class Interval(StrEnum):
    """Whose mean an interval is for."""

    PANEL = "panel"
    NEW_PANEL = "new-panel"


class On(StrEnum):
    """What runs the work."""

    LOCAL = "local"
    RAY = "ray"


class Framing(StrEnum):
    """Which part of an image a model receives."""

    WHOLE = "whole"
    FACE = "face"


class Takes(StrEnum):
    """Which of a person's photographs count."""

    FIRST = "first"
    MEAN = "mean"


_DATA = "A data set (see `uol data list`), or a folder of images with --table."
_SECOND = "The same as --root after a name, and as --table after a folder."
RootOption = Annotated[
    Path | None, typer.Option("--root", help="Folder of a named data set, as its owner distributes it.")
]
TableOption = Annotated[
    Path | None,
    typer.Option("--table", help="Table of ratings for a folder of images: CSV, TSV, XLSX, ODS, SAV or Parquet."),
]
VotesOption = Annotated[bool, typer.Option("--votes", help="The table has votes on pairs of images, not ratings.")]
ScaleOption = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--scale", metavar="LOW HIGH", help="Lowest and highest possible rating; guessed from the table by default."
    ),
]
ReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        help="How to read the table: image=COLUMN, rater=COLUMN, missing=99,k.A., repeats=mean; for omi attribute=…; "
        "for synthetic n=600, test=100, seed=1, size=32, panel=b. Repeatable. Further settings are in "
        "docs/howto/own-ratings.md.",
    ),
]
FoldsOption = Annotated[
    Path | None, typer.Option("--folds", help="Table of folds (image, fold), as `uol data split` writes it.")
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        "--fold",
        help="A split of the data set: 1 is fold-1, all is every fold, whole trains on all images. 1-inner tests on a "
        "quarter of the training images of fold-1, 1-without-GROUP on those of a group.",
    ),
]

ImagesArgument = Annotated[
    list[str], typer.Argument(help="Files, folders or patterns such as 'a/*.jpg'; - reads a list from stdin.")
]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="A shipped model, or a model folder.")]
PanelOption = Annotated[
    str | None, typer.Option("--panel", help="Answer for this panel, by default for the model's first.")
]
IntervalOption = Annotated[
    Interval,
    typer.Option("--interval", help="Intervals for the panel's mean, or for that of a panel that nobody has seen."),
]
RuntimeOption = Annotated[Runtime, typer.Option("--runtime", help="torch, onnx, or the faster of those available.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="CPU, GPU, or a GPU if there is one.")]
_RAY = "With --on ray"
OnOption = Annotated[
    On, typer.Option("--on", help="Run in this process, or on Ray: this machine, or the cluster in RAY_ADDRESS.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", rich_help_panel=_RAY, help="Most workers; by default one for each GPU, or for each core."
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", rich_help_panel=_RAY, help="A Ray cluster, instead of RAY_ADDRESS."),
]
PriceOption = Annotated[
    float | None,
    typer.Option(
        "--price",
        rich_help_panel=_RAY,
        help="What all machines cost in an hour; what a million images cost is printed.",
    ),
]
PartSizeOption = Annotated[
    int, typer.Option("--part-size", rich_help_panel=_RAY, help="Images in each part, which is done or repeated whole.")
]
ReadPartsOption = Annotated[
    list[str] | None,
    typer.Option("--read", rich_help_panel=_RAY, help="Columns of Parquet files: image=COLUMN, key=COLUMN."),
]
FramingOption = Annotated[
    Framing | None,
    typer.Option("--framing", help="Take images whole, or find and align a face; by default as the model learnt."),
]
FacesOption = Annotated[bool, typer.Option("--all-faces", help="One row per face, not only for the largest.")]


def _folder(name: str) -> Path:
    if not name:
        raise CallError("--face-cache is empty; name a folder")
    return Path(name)


FaceCacheOption = Annotated[
    Path | None,
    typer.Option(
        "--face-cache", parser=_folder, metavar="PATH", help="Cache aligned faces here; later runs skip detection."
    ),
]
ModelOutOption = Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")]
ReplaceFileOption = Annotated[bool, typer.Option("--replace", help="Let --out replace a file of another kind.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace what is there already.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a page with figures to this file.")]

InitOption = Annotated[
    str | None, typer.Option("--init", help="Weights of the backbone: a safetensors file, or timm to download them.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting of the recipe: --set epochs=50; repeatable.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="The folder of results.")]
TableNameArgument = Annotated[
    str, typer.Argument(help="An experiment or a data set; `uol experiment list` names them.")
]
AlsoOption = Annotated[
    list[str] | None, typer.Option("--also", help="Also test on another data set: mebeauty=FOLDER; repeatable.")
]
MakeupVotesOption = Annotated[
    Path | None, typer.Option("--makeup-votes", help="Votes on the pairs of mifs: columns person, with, without.")
]
MakeupTakesOption = Annotated[
    Takes | None,
    typer.Option("--makeup-takes", help="If mifs has several photographs of a side: the first, or their mean score."),
]
OldVotesOption = Annotated[
    Path | None, typer.Option("--votes", hidden=True, help="The earlier name of --makeup-votes.")
]
OldTakesOption = Annotated[
    Takes | None, typer.Option("--takes", hidden=True, help="The earlier name of --makeup-takes.")
]

Command = Callable[..., None]


def data_argument(command: Command) -> Command:
    """Let a command take a data set as its argument; it receives the choice as its parameter `chosen`."""
    return _choosing(
        command,
        {
            "data": (Annotated[str, typer.Argument(help=_DATA, metavar="DATA")], inspect.Parameter.empty),
            "second": (Annotated[Path | None, typer.Argument(help=_SECOND, metavar="PATH")], None),
        },
    )


def photographs_argument(command: Command) -> Command:
    """Let a command take images, rated or not; options for tables are accepted and not listed."""
    argument = typer.Argument(help="A folder of images, or a data set (see `uol data list`).", metavar="DATA")
    place = typer.Argument(help="The same as --root after a name.", metavar="PATH")
    return _choosing(
        command,
        {
            "data": (Annotated[str, argument], inspect.Parameter.empty),
            "second": (Annotated[Path | None, place], None),
        },
        hidden=("table", "votes", "scale", "read", "folds"),
    )


def data_option(default: str | None = None) -> Callable[[Command], Command]:
    """Let a command take a data set by --data; it receives the choice as its parameter `chosen`.

    Without a default the option is required: which data set is meant is never guessed.
    """
    shown = _DATA if default else f"{_DATA} Required."
    return lambda command: _choosing(
        command, {"data": (Annotated[str | None, typer.Option("--data", "-d", help=shown)], default)}
    )


def _choosing(command: Command, first: dict[str, tuple[Any, Any]], hidden: Collection[str] = ()) -> Command:
    """Put the options that choose a data set in the place of a command's parameter `chosen`."""
    options: dict[str, tuple[Any, Any]] = first | {
        "root": (RootOption, None),
        "table": (TableOption, None),
        "votes": (VotesOption, False),
        "scale": (ScaleOption, None),
        "read": (ReadOption, None),
        "folds": (FoldsOption, None),
    }
    options |= {name: (_hidden(options[name][0]), options[name][1]) for name in hidden}
    parameters: list[inspect.Parameter] = []
    own = inspect.signature(command, eval_str=True).parameters
    options = {name: option for name, option in options.items() if name not in own}  # another --votes, for example
    for parameter in own.values():
        if parameter.name != "chosen":
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in options}
        second = values.pop("second", None)
        if values["data"] is None:
            raise _without_data(values["table"], given.get("model"))
        chosen = DataChoice(**values | {"read": values["read"] or ()})
        command(chosen=chosen.with_second(second), **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _without_data(table: Path | None, model: Any) -> CallError:
    """What to type; in place of a model, a folder of images may have been named."""
    if table is not None and isinstance(model, Path):
        models = (place for pattern in ("", "model/", "*/model/") for place in model.glob(f"{pattern}config.json"))
        images = model.is_dir() and not any(models)
        typed = f"{'MODEL' if images else model} --data {model if images else 'FOLDER'} --table {table}"
        return CallError(f"--data is missing: it names the folder of images: uol evaluate {typed}")
    return CallError(
        "--data is missing: name a data set (`uol data list`), a folder of images (--data FOLDER --table FILE), or "
        "synthetic, which draws faces"
    )


def _hidden(annotated: Any) -> Any:
    """An option that help does not list."""
    (option,) = annotated.__metadata__
    option = copy.copy(option)
    option.hidden = True
    return Annotated[annotated.__origin__, option]
