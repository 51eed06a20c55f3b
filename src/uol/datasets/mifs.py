"""MIFS, make-up induced face spoofing: people photographed before and after make-up; nobody rated them."""

from __future__ import annotations

import os
import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo, examples
from uol.errors import UolError
from uol.ratings.rated_images import Indices, RatedImages
from uol.ratings.scale import Scale

_NAME = re.compile(r"(\d+)_([AB])_(\d+)\.(?:jpe?g|png|bmp)", re.IGNORECASE)
_FOLDERS = {"before": ("B", "without"), "after": ("A", "with")}


def load_mifs(root: str | os.PathLike[str]) -> RatedImages:
    """Load the photographs before and after make-up: groups `person`, `makeup` (with, without) and `take`.

    The target celebrities of the official download are left out. No image has a score.
    """
    base = DATASET.folder(root, *_FOLDERS)
    rows, odd = [], []
    for folder, (letter, makeup) in _FOLDERS.items():
        for path in (base / folder).iterdir():
            match = _NAME.fullmatch(path.name)
            if match and match[2].upper() == letter:
                rows.append((match[1], makeup, int(match[3]), path))
            elif not path.name.startswith("."):
                odd.append(f"{folder}/{path.name}")
    if not rows:
        raise UolError(f"{base}: no photographs before/NNN_B_k.jpg and after/NNN_A_k.jpg in the MIFS download")
    table = pd.DataFrame(rows, columns=["person", "makeup", "take", "path"])
    table = table.sort_values(["person", "makeup", "take"], ignore_index=True)
    notes = [f"{len(odd)} files have unexpected names and were skipped: {examples(sorted(odd))}"] if odd else []
    return RatedImages(
        name="mifs",
        images=list(table["path"]),
        names=[path.name for path in table["path"]],
        scores=np.full(len(table), np.nan),
        scale=Scale(1, 5),
        groups=table[["person", "makeup", "take"]],
        notes=tuple(notes),
    )


def pairs(images: RatedImages, *, all_takes: bool = False) -> Indices:
    """The pairs (with make-up, without) of the same person, as indices (n, 2), sorted by person.

    One pair per person, of the first take of each; with `all_takes` every combination of takes. People of whom
    one side is missing have no pair.
    """
    table = pd.DataFrame({column: images.groups[column].to_numpy() for column in ("person", "makeup", "take")})
    table["index"] = np.arange(len(table))
    table = table.sort_values(["person", "take"], kind="stable")
    if not all_takes:
        table = table.drop_duplicates(["person", "makeup"])
    sides = [table.loc[table["makeup"] == makeup, ["person", "index"]] for makeup in ("with", "without")]
    joined = sides[0].merge(sides[1], on="person")
    found: npt.NDArray[np.intp] = joined[["index_x", "index_y"]].to_numpy(np.intp)
    return found


DATASET = DatasetInfo(
    name="mifs",
    title="MIFS (makeup induced face spoofing)",
    images=428,
    scale=None,
    terms="on request from the authors, for research only; no redistribution",
    expects="a folder with before/NNN_B_k.jpg and after/NNN_A_k.jpg",
    load=load_mifs,
)
