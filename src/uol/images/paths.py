"""Image files as people name them: files, folders, patterns, and lists of these."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from uol.errors import CallError, counted
from uol.images.read import SUFFIXES

Report: TypeAlias = Callable[[str], None]

_OF_SYSTEMS = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})  # nobody misses them


def find_images(folder: str | os.PathLike[str], report: Report = lambda line: None) -> list[Path]:
    """All image files below `folder`, sorted; hidden files and folders are passed over.

    `report` receives one line on what was passed over and why, if anything was.
    """
    return list(iterate_images(folder, report))


def iterate_images(folder: str | os.PathLike[str], report: Report = lambda line: None) -> Iterator[Path]:
    """What `find_images` finds, one after another: the names of one folder are in memory, not those of all."""
    root, found = Path(folder), 0
    if not root.is_dir():
        raise CallError(f"{root}: no such folder")
    passed: Counter[str] = Counter()
    for found, path in enumerate(_search(root, passed), 1):  # noqa: B007 (their number is used below)
        yield path
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(passed.items()))
    if not found:
        looked = f"looked for {', '.join(sorted(SUFFIXES))}"
        raise CallError(f"{root}: no images in this folder ({f'passed over: {reasons}; ' if passed else ''}{looked})")
    if passed:
        report(f"{root}: {counted(found, 'image')}; passed over {counted(passed.total(), 'other')}: {reasons}")


def _search(root: Path, passed: Counter[str]) -> Iterator[Path]:
    """The image files below a folder, sorted; counts the others by the reason to pass them over."""
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if not path.is_dir():
            if reason := _reason(path):
                passed[reason] += 1
            elif path.name not in _OF_SYSTEMS:
                yield path
        elif path != root and path.name.startswith("."):
            passed["hidden folders"] += 1
        elif path != root and path.is_symlink():
            passed["linked folders"] += 1
        else:
            try:
                waiting += sorted(path.iterdir(), reverse=True)
            except OSError:
                passed["folders that cannot be read"] += 1


def _reason(path: Path) -> str | None:
    """Why a file is no image to read; None if it may be one."""
    suffix = path.suffix.lower()
    if path.name in _OF_SYSTEMS:
        return None
    if path.name.startswith("."):
        return "hidden"
    if suffix not in SUFFIXES:
        return suffix or "without an ending"
    if not path.is_file():
        return "links to nothing" if path.is_symlink() else "pipes or devices"
    return None


def expand_paths(names: Iterable[str], listed: Iterable[str] = (), report: Report = lambda line: None) -> list[Path]:
    """The files that names stand for, each once: files, the images of folders, and what patterns match.

    `-` stands for the lines of `listed`. A missing file of the list, or of several names, stays and gets a row with the
    reason, like a broken one, and so does a folder without images; one name at least must exist. `report` receives
    lines on what folders passed over, and on images that were named again.
    """
    names, found = list(names), []
    if "" in names:
        raise CallError("the name of an image or folder is empty; the current folder is .")
    for name in names:
        if name == "-":
            lines = (line.rstrip("\r\n").removeprefix("\ufeff") for line in listed)
            found += [path for line in lines if line.strip() for path in _expand(line, True, report)]
        else:
            found += _expand(name, len(names) > 1, report)
    if not found:
        raise CallError("no images were given")
    if "-" not in names and not any(map(os.path.exists, found)):
        raise CallError(f"{found[0]}: no such file or folder")
    if "-" not in names and not any(map(os.path.isfile, found)) and any(map(os.path.isdir, found)):
        gone = [f"{path}: no such file or folder" for path in found if not os.path.exists(path)]
        raise CallError("; ".join(["no images were found in what was named", *gone[:1]]))
    once = list(dict.fromkeys(found))
    if len(once) < len(found):
        report(f"{counted(len(found) - len(once), 'repeated name')} passed over: each image is used once")
    return once


def _expand(name: str, missing_ok: bool, report: Report) -> list[Path]:
    path = Path(name)
    try:
        if path.is_dir():
            return _images_of(path, missing_ok, report)
        if path.exists():
            return [path]
        matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
    except (OSError, ValueError) as error:  # names that no file can have
        if missing_ok:
            return [path]
        raise CallError(f"{name[:100]!r}: not the name of a file ({error})") from error
    files = [match for match in matches if match.is_file()]
    if not files and not missing_ok:
        raise CallError(f"{name}: no such file or folder")
    return files or [path]


def _images_of(folder: Path, missing_ok: bool, report: Report) -> list[Path]:
    """The images of a folder; one without images stays, for a row of its own, if other names were given too."""
    try:
        return find_images(folder, report)
    except CallError as error:
        if not missing_ok:
            raise
        report(str(error))
        return [folder]


def check_cache(names: Iterable[str], cache: Path | None) -> None:
    """Refuse a cache of faces among photographs: a later run would score the faces as photographs."""
    if cache is None:
        return
    if cache.exists() and not cache.is_dir():
        raise CallError(f"--face-cache {cache}: a file; name a folder")
    for name in names:
        if name != "-" and Path(name).is_dir() and cache.resolve().is_relative_to(Path(name).resolve()):
            raise CallError(f"--face-cache {cache}: lies in {name}, which is to be scored; name a folder outside")
        if Path(name).is_file() and Path(name).resolve().parent == cache.resolve():
            raise CallError(f"--face-cache {cache}: contains {name}; name a folder without photographs")
