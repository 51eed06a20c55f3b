"""The digests of a model folder: which files its answers depend on, and whether they are what was written."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

from uol.scoring.config import COMPARE_GRAPH, CONFIG, MEMBERS, MODEL, SCORE_GRAPH
from uol.scoring.panels import NETWORK, PANELS, REFERENCES
from uol.storage.manifest import MANIFEST, check_manifest, write_manifest


def write_digests(folder: Path) -> None:
    """Write the manifest of a model folder."""
    write_manifest(folder, _files(folder))


def check_digests(folder: Path) -> None:
    """Refuse a model folder whose files are not what its manifest lists; warn of a folder without one, once."""
    if not check_manifest(folder, _files(folder)):
        _warn_once(folder.absolute())


@cache
def _warn_once(folder: Path) -> None:
    warnings.warn(
        f"{folder}: without {MANIFEST}, damage to its files cannot be noticed; save the model again to add it",
        stacklevel=4,
    )


def _files(folder: Path) -> list[str]:
    """The files that a model's answers depend on; of an ensemble, its members' lists of theirs."""
    members = [f"{name}/{MANIFEST}" for name in _inside(folder, MEMBERS)]
    panels = [f"{name}/{file}" for name in _inside(folder, PANELS) for file in (CONFIG, REFERENCES, NETWORK)]
    return [CONFIG, MODEL, REFERENCES, SCORE_GRAPH, COMPARE_GRAPH, *members, *panels]


def _inside(folder: Path, name: str) -> list[str]:
    place = folder / name
    return sorted(f"{name}/{path.name}" for path in place.iterdir()) if place.is_dir() else []
