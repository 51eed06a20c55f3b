"""A ranking to look at: one HTML file with a thumbnail, rank, score and interval for each image, best first."""

from __future__ import annotations

import base64
import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment
from PIL import Image

import uol
from uol.errors import ImageError
from uol.images.framing import FaceRecord
from uol.images.read import read_image
from uol.ratings.scale import Scale
from uol.reports.html import MEANING
from uol.scoring.base import Score
from uol.scoring.config import PanelConfig
from uol.scoring.rows import RankedRow, score_of
from uol.storage.cores import available_cores
from uol.storage.files import write_text

SIDE = 160  # pixels of a thumbnail's longer side
QUALITY = 80  # some 5 kB for a photograph: a thousand make a page of about 7 MB


class Card(RankedRow):
    """A row with the additions that the page shows."""

    folder: str
    name: str
    picture: str | None
    bar: dict[str, float] | None
    note: str


class Group(NamedTuple):
    """Images under one heading: those that share a rank, or neighbours whose ranks all differ."""

    title: str
    rows: list[RankedRow]


def write_contact_sheet(
    path: str | os.PathLike[str],
    rows: Sequence[RankedRow],
    panel: PanelConfig,
    thumbnails: Callable[[str], bytes | None] | None = None,
) -> int:
    """Write ranked rows {rank, tied, image, face, value, low, high, dispersion, error} to one self-contained page.

    Rows with an error come last, with the reason. `thumbnails` gives the JPEG of an image, None where there is none;
    left out, `thumbnail` does. Returns the size of the page in bytes.
    """
    cards = _cards(rows, panel.scale, _pictures((row["image"] for row in rows), thumbnails or thumbnail))
    ranked = sorted(
        (card for card in cards if card["error"] is None), key=lambda card: (card["rank"] or 0, -score_of(card).value)
    )
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = lambda value: f"{value:.{panel.scale.decimals}f}"
    template = (resources.files("uol.reports") / "templates" / "contact_sheet.html").read_text(encoding="utf-8")
    page = environment.from_string(template).render(
        panel=panel,
        groups=list(rank_groups(ranked)),
        count=len(ranked),
        failed=[card for card in cards if card["error"] is not None],
        meaning=MEANING,
        version=uol.__version__,
    )
    page = page.encode("utf-8", "replace").decode("utf-8")  # file names can hold bytes that are no text
    write_text(path, page)
    return len(page.encode("utf-8"))


def thumbnail(image: str | os.PathLike[str]) -> bytes | None:
    """A file as a small upright JPEG; None where it cannot be read."""
    try:
        picture = read_image(image)
    except ImageError:
        return None
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=QUALITY, optimize=True)
    return data.getvalue()


def rank_groups(rows: Sequence[RankedRow]) -> Iterator[Group]:
    """Rows sorted by rank under headings: each shared rank has its own, ranks that are not shared stand together."""
    for shared, run in groupby(rows, key=lambda row: row["rank"] if row["tied"] else None):
        members = list(run)
        first, last = members[0]["rank"], members[-1]["rank"]
        if shared is not None:
            yield Group(f"Rank {shared}, shared by {len(members)}", members)
        else:
            yield Group(f"Rank {first}" if first == last else f"Ranks {first} to {last}", members)


def short_names(images: Sequence[str]) -> dict[str, str]:
    """Each path without the folders that all of them share, so that names stay short but distinct."""
    try:
        shared = os.path.commonpath([Path(image).parent for image in images])
    except ValueError:  # no images, or absolute and relative paths together
        return {image: image for image in images}
    return {image: Path(image).relative_to(shared).as_posix() if shared else image for image in images}


def bar(score: Score, scale: Scale) -> dict[str, float]:
    """Where the interval and the score lie along the scale, in per cent: left, width and at."""
    left, right, at = (
        round(100 * min(max((value - scale.low) / (scale.high - scale.low), 0), 1), 2)
        for value in (score.low, score.high, score.value)
    )
    return {"left": left, "width": round(right - left, 2), "at": at}


def _cards(rows: Sequence[RankedRow], scale: Scale, pictures: Mapping[str, str]) -> list[Card]:
    """Rows with what the page shows of them besides: name, picture, bar, and what is worth a note."""
    names, notes = short_names([row["image"] for row in rows]), _notes(rows)
    return [
        {
            **row,
            "folder": names[row["image"]].rpartition("/")[0],
            "name": names[row["image"]].rpartition("/")[2],
            "picture": pictures.get(row["image"]),
            "bar": bar(score_of(row), scale) if row["error"] is None else None,
            "note": note,
            "error": None if row["error"] is None else str(row["error"]).removeprefix(f"{row['image']}: "),
        }
        for row, note in zip(rows, notes, strict=True)
    ]


def _notes(rows: Sequence[RankedRow]) -> list[str]:
    """Which face a row is about, where its image has several rows, and what was doubtful about the face."""
    lefts: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["face"]:
            lefts[row["image"]].append(row["face"]["box"][0])
    return ["; ".join(_face_notes(row["face"], sorted(lefts[row["image"]]))) for row in rows]


def _face_notes(face: FaceRecord | None, lefts: Sequence[float]) -> Iterator[str]:
    if face is None:
        return
    if len(lefts) > 1:
        yield f"face {lefts.index(face['box'][0]) + 1} of {len(lefts)} from the left"
    yield from face["problems"]


def _pictures(images: Iterable[str], thumbnails: Callable[[str], bytes | None]) -> dict[str, str]:
    """Data addresses of the thumbnails that there are; made by threads, as decoding is most of the work."""
    distinct = list(dict.fromkeys(images))
    with ThreadPoolExecutor(available_cores()) as pool:
        made = pool.map(thumbnails, distinct)
        return {
            image: "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")
            for image, data in zip(distinct, made, strict=True)
            if data is not None
        }
