"""Color FERET: frontal photographs of people, with capture date and pose in the file name; nobody rated them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo
from uol.errors import CallError, UolError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale

POSES = ("fa", "fb")
"""Frontal poses: `fa` with a regular expression, `fb` with another expression, taken seconds later."""

SIZES = ("images", "smaller", "thumbnails")
"""Folders of the official discs that hold the same photographs at 512×768, 256×384 and 128×192 pixels."""

_NAME = re.compile(r"(\d{5})_(\d{6})_([a-z]{2})(_[a-z])?\.(ppm|pgm|png|jpe?g|tiff?|bmp)(\.bz2)?", re.IGNORECASE)


def load_color_feret(
    root: str | os.PathLike[str],
    *,
    poses: Sequence[str] = POSES,
    size: str = "images",
    one_per_person: bool = False,
) -> RatedImages:
    """Load the frontal photographs: groups `person`, `date`, `pose`, and gender, race, born where the discs have them.

    `one_per_person` keeps the earliest photograph of each person, poses in the order given. Flat folders of images
    under the official names (such as a grey derivative) do as well. No image has a score.
    """
    if size not in SIZES:
        raise CallError(f"color-feret has no size {size!r}: there are {', '.join(SIZES)}")
    if not poses or not set(poses) <= set(POSES):
        raise CallError(f"color-feret: poses must be among {', '.join(POSES)}, not {', '.join(poses) or 'none'}")
    base = DATASET.folder(root)
    found = _photographs(base, poses, size)
    if not found:
        raise CallError(
            f"{base}: not the {DATASET.title} download, which is {DATASET.expects}; "
            f"missing: files named NNNNN_YYMMDD_{poses[0]}.ppm in {size}/ or in the folder itself"
        )
    table = pd.DataFrame([(*key, path) for key, path in found.items()], columns=["person", "date", "pose", "q", "path"])
    table["rank"] = table["pose"].map({pose: rank for rank, pose in enumerate(poses)})
    table = table.sort_values(["person", "date", "rank", "q"], ignore_index=True)
    if one_per_person:
        table = table.drop_duplicates("person", ignore_index=True)
    packed = sum(path.suffix == ".bz2" for path in table["path"])
    return RatedImages(
        name="color-feret",
        images=list(table["path"]),
        names=[path.name for path in table["path"]],
        scores=np.full(len(table), np.nan),
        scale=Scale(1, 5),
        groups=table[["person", "date", "pose"]].join(_subjects(base), on="person"),
        notes=(f"{packed} images are packed as .bz2, as on the discs",) if packed else (),
    )


def _photographs(base: Path, poses: Sequence[str], size: str) -> dict[tuple[str, str, str, str], Path]:
    """Photographs of the wanted poses and size, by person, date, pose and its variant; unpacked ones preferred."""
    other_sizes = set(SIZES) - {size}
    found: dict[tuple[str, str, str, str], Path] = {}
    for folder, subfolders, files in os.walk(base):
        subfolders[:] = sorted(name for name in subfolders if name not in other_sizes and name != "ground_truths")
        for name in sorted(files):
            match = _NAME.fullmatch(name)
            if match and match[3].lower() in poses:
                key = (match[1], match[2], match[3].lower(), (match[4] or "").lower())
                found.setdefault(key, Path(folder, name))  # sorted: x.ppm comes before x.ppm.bz2
    return found


def _subjects(base: Path) -> pd.DataFrame:
    """Gender, race and year of birth by person, from the discs' ground truths; no columns where there are none."""
    people: dict[str, dict[str, str]] = {}
    for pattern in ("**/ground_truths/name_value/*/[0-9]*.txt", "**/ground_truths/xml/*/[0-9]*.xml"):
        for path in base.glob(pattern):
            if path.stem == path.parent.name:  # NNNNN/NNNNN.txt is the person, the others are recordings
                facts = _read_text(path) if path.suffix == ".txt" else _read_xml(path)
                people.setdefault(path.stem, facts)
    return pd.DataFrame.from_dict(people, orient="index")


def _read_text(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return _facts({key.strip(): value.strip() for key, value in pairs})


def _read_xml(path: Path) -> dict[str, str]:
    try:
        tree = ElementTree.parse(path)
    except ElementTree.ParseError as error:
        raise UolError(f"{path}: not readable as XML ({error})") from error
    return _facts({node.tag: node.get("value") or (node.text or "").strip() for node in tree.iter()})


def _facts(values: dict[str, str]) -> dict[str, str]:
    columns = {"gender": "gender", "race": "race", "yob": "born"}
    lower = {key.lower(): value for key, value in values.items()}
    return {column: lower[key].lower() for key, column in columns.items() if lower.get(key)}


DATASET = DatasetInfo(
    name="color-feret",
    title="Color FERET",
    images=2722,
    scale=None,
    terms="by agreement with NIST, for face recognition research only; no redistribution",
    expects="a folder with dvd1/data/images and dvd2/data/images, or one folder of NNNNN_YYMMDD_fa.ppm files",
    load=load_color_feret,
)
