"""What is known of a data set before it is loaded, and the checks that all loaders share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uol.errors import CallError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale


@dataclass(frozen=True)
class DatasetInfo:
    """A data set's name, size, scale and terms, what folder its loader expects, and the loader.

    `images` is the official number, 0 where the user decides; `scale` is None where the user decides or nobody rated.
    """

    name: str
    title: str
    images: int
    scale: Scale | None
    terms: str
    expects: str
    load: Callable[..., RatedImages]
    needs_folder: bool = True

    def folder(self, root: str | os.PathLike[str], *needed: str) -> Path:
        """The folder that holds all `needed` files (glob patterns): `root` itself or its only such sub-folder."""
        folder = Path(root)
        if not folder.is_dir():
            raise CallError(f"{folder}: no such folder; {self.name} expects {self.expects}")
        if not _missing(folder, needed):
            return folder
        nested = [child for child in sorted(folder.iterdir()) if child.is_dir() and not _missing(child, needed)]
        if len(nested) == 1:
            return nested[0]
        if nested:
            raise CallError(f"{folder}: several copies of {self.title} in it ({examples(_names(nested))}); name one")
        raise CallError(
            f"{folder}: not the {self.title} download, which is {self.expects}; missing: "
            + ", ".join(_missing(folder, needed))
        )


def examples(names: Sequence[str], limit: int = 3) -> str:
    """The first few of many names, for a message of one line."""
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def _missing(folder: Path, needed: Sequence[str]) -> list[str]:
    return [name for name in needed if not (any(folder.glob(name)) if "*" in name else (folder / name).exists())]


def _names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]
