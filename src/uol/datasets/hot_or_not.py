"""Hot-Or-Not: women's faces from a rating web site, with the scores and five splits of Gray et al. (ECCV 2010)."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.matching import ImageIndex
from uol.errors import UolError
from uol.images.paths import find_images
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.scale import Scale

_SPLIT = re.compile(r"eccv2010_split(\d+)\.csv")
_PERSON = re.compile(r"([a-z]+)_\d+_([A-Z0-9]+)_")


def load_hot_or_not(root: str | os.PathLike[str]) -> RatedImages:
    """Load the 2056 faces with splits `split-1` … `split-5` and groups `gender` and `person`.

    Scores are standardised, about −3 … 3. The rows of `eccv2010_split*.csv`, which have no header, are file name,
    score, and train or test; they say .bmp where the images are .jpg.
    """
    base = DATASET.folder(root, "eccv2010_split*.csv")
    files = sorted(base.glob("eccv2010_split*.csv"), key=lambda file: (len(file.name), file.name))
    scores: dict[str, float] = {}
    sides: dict[str, dict[str, str]] = {}
    for file in files:
        match = _SPLIT.fullmatch(file.name)
        if match:
            sides[f"split-{match[1]}"] = _read_split(file, scores)
    faces = base / "hotornot_face"
    folder = faces if faces.is_dir() else base
    index = ImageIndex(folder, find_images(folder))
    paths = {name: index.find(name) for name in scores}
    names = [name for name, found in paths.items() if found]
    missing = [name for name, found in paths.items() if not found]
    if not names:
        raise UolError(f"{folder}: has none of the images in {files[0].name}, such as {missing[0]}")
    images = [paths[name][0] for name in names]
    people = [_PERSON.match(path.name) for path in images]
    return RatedImages(
        name="hot-or-not",
        images=images,
        names=[path.name for path in images],
        scores=np.array([scores[name] for name in names]),
        scale=Scale(-3, 3),
        groups=pd.DataFrame(
            {
                "gender": [person[1] if person else "" for person in people],
                "person": [person[2] if person else "" for person in people],
            }
        ),
        splits={split: _indices(names, side) for split, side in sides.items()},
        notes=(f"{len(missing)} rated images are not in {folder.name}: {examples(missing)}",) if missing else (),
    )


def _read_split(file: Path, scores: dict[str, float]) -> dict[str, str]:
    """Which side each image of one split is on; its scores are added to `scores`, and must not contradict them."""
    sides: dict[str, str] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines), start=1):
            if not row:
                continue
            try:
                name, score, side = row[0].strip(), float(row[1]), row[2].strip().lower()
            except (IndexError, ValueError):
                raise UolError(f"{file}, row {number}: expected file name, score, train or test; got {row}") from None
            if side not in ("train", "test") or name in sides or not np.isfinite(score):
                raise UolError(f"{file}, row {number}: {name} must occur once, with a score and train or test")
            if abs(scores.setdefault(name, score) - score) > 1e-4:
                raise UolError(f"{file}, row {number}: {name} has score {score:g} here and {scores[name]:g} elsewhere")
            sides[name] = side
    return sides


def _indices(names: list[str], sides: dict[str, str]) -> Split:
    train = [index for index, name in enumerate(names) if sides.get(name) == "train"]
    test = [index for index, name in enumerate(names) if sides.get(name) == "test"]
    return Split(np.array(train, np.intp), np.array(test, np.intp))


DATASET = DatasetInfo(
    name="hot-or-not",
    title="Hot-Or-Not (Female Facial Beauty Dataset, ECCV 2010, v1.0)",
    images=2056,
    scale=Scale(-3, 3),
    terms="strictly for scientific research; no redistribution without the author's permission",
    expects="a folder with eccv2010_split1.csv … eccv2010_split5.csv and the images in hotornot_face/",
    load=load_hot_or_not,
)
