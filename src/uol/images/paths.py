"""Image files as people name them: files, folders, patterns, and lists of these."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from uol.errors import CallError
from uol.images.read import find_images


def expand_paths(names: Iterable[str], listed: Iterable[str] = ()) -> list[Path]:
    """The files that names stand for, each once: files, the images of folders, and what patterns match.

    `-` stands for the lines of `listed`. A name must exist; a missing file of the list stays in it, so that it gets a
    row with the reason, like a broken one.
    """
    found: list[Path] = []
    for name in names:
        if name == "-":
            lines = (line.rstrip("\r\n").removeprefix("\ufeff") for line in listed)
            found += [path for line in lines if line.strip() for path in _expand(line, missing_ok=True)]
        else:
            found += _expand(name)
    if not found:
        raise CallError("no images were given")
    return list(dict.fromkeys(found))


def _expand(name: str, missing_ok: bool = False) -> list[Path]:
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


def check_targets(paths: Iterable[Path], *targets: Path | None) -> None:
    """Refuse to overwrite images that are to be scored."""
    files = {path.resolve() for path in paths}
    folders = {path.parent for path in files}
    for target in targets:
        if target is not None and target.resolve() in files | folders:
            raise CallError(f"{target}: contains images that are to be scored; choose another name")


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
