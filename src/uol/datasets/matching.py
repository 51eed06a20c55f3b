"""Find the image file for a name in a table, even if it is spelt a little differently there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from uol.datasets.dataset_info import examples
from uol.errors import UolError, counted
from uol.images.read import SUFFIXES


class ImageIndex:
    """The image files below a folder, to be found by name."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        self.folder = folder
        self._parts = {path: path.relative_to(folder).parts for path in paths}
        self._by_stem: dict[str, list[Path]] = {}
        for path in self._parts:
            self._by_stem.setdefault(plain_stem(path.name), []).append(path)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._parts)

    def find(self, name: str) -> list[Path]:
        """The files that fit a name best: none, one, or several that fit equally well.

        Case, extension, URL encoding, and spaces or underscores do not matter. Of several files,
        those that share the most sub-folders with the name are better, and then those spelt exactly alike.
        """
        found = self._by_stem.get(plain_stem(name), [])
        if len(found) < 2:
            return found
        *folders, last = _parts(name)
        shared = {path: _common_tail(folders, self._parts[path][:-1]) for path in found}
        found = [path for path in found if shared[path] == max(shared.values())]
        if len(found) > 1 and not folders:  # "a.jpg" in a table that writes sub-folders elsewhere: the one on top
            found = [path for path in found if len(self._parts[path]) == 1] or found
        return [path for path in found if path.name == last] or found


def match_names(names: Iterable[str], index: ImageIndex, table: str, notes: list[str]) -> dict[str, Path]:
    """The file of each name that has exactly one; notes report the others, and no file at all is an error."""
    fitting = {name: index.find(name) for name in dict.fromkeys(names)}
    matched = {name: found[0] for name, found in fitting.items() if len(found) == 1}
    unmatched = [name for name, found in fitting.items() if not found]
    ambiguous = [name for name, found in fitting.items() if len(found) > 1]
    if not matched:
        raise UolError(
            f"no image of {table} is in {index.folder}: the table has names such as {next(iter(fitting), '')!r}, "
            f"the folder files such as {next(iter(index)).relative_to(index.folder).as_posix()!r}"
        )
    if unmatched:
        notes.append(f"left out: {counted(len(unmatched), 'image')} of {table} without a file: {examples(unmatched)}")
    if ambiguous:
        notes.append(
            f"left out: {counted(len(ambiguous), 'image')} of {table} with several files (name their sub-folders): "
            + examples(ambiguous)
        )
    return matched


def plain_stem(name: str) -> str:
    """The last part of a path without its image extension, decoded, in lower case, spaces as underscores."""
    last = _parts(name)[-1]
    stem, dot, suffix = last.rpartition(".")
    if dot and stem and f".{suffix.strip().lower()}" in SUFFIXES:
        last = stem
    return re.sub(r"[\s_]+", "_", last.strip()).casefold()


def _parts(name: str) -> list[str]:
    text = unicodedata.normalize("NFC", unquote(name.strip().strip("\"'")))
    return [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")] or [""]


def _common_tail(one: list[str], other: tuple[str, ...]) -> int:
    shared = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a.casefold() != b.casefold():
            break
        shared += 1
    return shared
