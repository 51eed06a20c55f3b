"""Data sets: each module loads one and returns `RatedImages`."""

from __future__ import annotations

import difflib
import inspect
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from uol.errors import CallError

if TYPE_CHECKING:
    from uol.datasets.dataset_info import DatasetInfo
    from uol.ratings.rated_images import RatedImages

_MODULES = {
    "scut-fbp5500": "scut_fbp5500",
    "mebeauty": "mebeauty",
    "hot-or-not": "hot_or_not",
    "color-feret": "color_feret",
    "mifs": "mifs",
    "omi": "omi",
    "own": "own",
    "votes": "votes",
    "synthetic": "synthetic",
}


def names() -> list[str]:
    """The names of all data sets that `load` knows."""
    return list(_MODULES)


def unknown(name: str) -> str:
    """What to say of a name that no data set has: the nearest, and all."""
    near = difflib.get_close_matches(name.lower().replace("_", "-"), _MODULES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown data set {name!r}: {hint}there are {', '.join(_MODULES)}"


def info(name: str) -> DatasetInfo:
    """What is known of a data set: title, number of images, scale, terms, and the folder its loader expects."""
    if name not in _MODULES:
        raise CallError(unknown(name))
    found: DatasetInfo = import_module(f"uol.datasets.{_MODULES[name]}").DATASET
    return found


def load(name: str, root: str | os.PathLike[str] | None = None, **options: Any) -> RatedImages:
    """Load a data set by name from the folder of its official download; `synthetic` needs no folder.

    >>> len(load("synthetic", n=20, test=5, size=16))
    20
    """
    known = info(name)
    if known.needs_folder and root is None:
        raise CallError(f"{name} needs a folder: {known.expects}")
    if not known.needs_folder and root is not None:
        raise CallError(f"the {name} data set is generated: leave out the folder")
    folder = () if root is None else (root,)
    settings = list(inspect.signature(known.load).parameters)[len(folder) :]
    for option in options:
        if option not in settings:
            raise CallError(f"data set {name} has no setting {option!r}; there are {', '.join(settings) or 'none'}")
    if "table" in settings and "table" not in options:
        raise CallError(f"{name} needs a table of {'votes' if name == 'votes' else 'ratings'}: give one with --table")
    return known.load(*folder, **options)
