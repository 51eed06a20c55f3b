"""Which folders are runs: a run itself, or the folds of one."""

from __future__ import annotations

import re
from pathlib import Path

from uol.errors import CallError


def run_folders(folder: Path) -> list[Path]:
    """The run in a folder, or the runs in its subfolders, fold-2 before fold-10."""
    if not folder.is_dir():
        raise CallError(f"{folder}: no such run folder")
    inside = sorted((entry for entry in folder.iterdir() if entry.is_dir() and is_run(entry)), key=_natural)
    if is_run(folder):
        if inside:
            raise CallError(f"{folder}: a run with other runs in it ({inside[0].name}, …); name one of them")
        return [folder]
    if not inside:
        raise CallError(f"{folder}: not a run folder (no recipe.yaml in it or in its subfolders); uol train makes one")
    return inside


def is_run(folder: Path) -> bool:
    """Whether training has begun here, or its result was put here."""
    return (folder / "recipe.yaml").is_file() or (folder / "result.json").is_file()


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (0, word) for word in re.split(r"(\d+)", path.name)]
