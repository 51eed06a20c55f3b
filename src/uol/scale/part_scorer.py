"""A worker of a bulk job: holds one model, and turns parts of the inputs into files of rows."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from uol.errors import UolError
from uol.scale.framing import frame_apart, frame_items
from uol.scale.items import read_items
from uol.scale.job_folder import NOT_FETCHED, Counts, JobFolder
from uol.scale.model_files import unpack_model
from uol.scale.sources import Columns, Part
from uol.scoring.base import NO_NUMBER, BaseScorer, Interval
from uol.scoring.bulk import score_files, score_framed
from uol.scoring.released import ALL_PANELS, Runtime, open_model
from uol.scoring.rows import FIGURES, ScoreRow

_ATTEMPTS = 3  # after which each image of a part is read by another process, which it may kill
_KINDS = {  # words of an error → its kind in summaries; anything else is unreadable
    "no such image file": "missing",
    "no face found": "no face",
    "cannot be fetched": NOT_FETCHED,
    "more than the": "too large",
    NO_NUMBER: "no number",
}


class Settings(NamedTuple):
    """What a worker needs to know."""

    out: str
    columns: Columns
    model: str | dict[str, bytes]  # the name of a model that ships, or the files of a folder
    runtime: Runtime
    device: Literal["cpu", "cuda"]
    panel: str | None
    interval: Interval
    all_faces: bool
    threads: int


class PartScorer:
    """Scores parts; the model is opened once, by the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = JobFolder(settings.out)
        self._scorer: BaseScorer | None = None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Do the parts in a batch of Ray Data; failures that concern the whole job are returned, not raised."""
        done: dict[str, list[Any]] = {"part": [], "counts": [], "began": [], "ended": [], "failure": []}
        for number, address, groups, row, images in zip(*(batch[name] for name in Part._fields), strict=True):
            part = Part(int(number), str(address), [int(group) for group in groups], int(row), int(images))
            began, counts, failure = time.time(), Counts(), ""
            try:
                counts = self.score(part)
            except UolError as error:
                failure = str(error)
            outcome = (part.number, json.dumps(counts._asdict()), began, time.time(), failure)
            for values, value in zip(done.values(), outcome, strict=True):
                values.append(value)
        return done

    def score(self, part: Part) -> Counts:
        """Score the images of a part and write its rows."""
        scorer = self._open()
        careful = self._folder.begin_part(part) >= _ATTEMPTS
        rows: list[dict[str, Any]] = []
        images, errors = 0, Counter[str]()
        for found in self._found(scorer, part, careful):
            images += 1
            for face, row in enumerate(found):
                kind = None if row["error"] is None else error_kind(row["error"])
                errors.update([kind] if kind else [])
                rows += _table_rows(row, face, kind, scorer.panel.name)
        if images != part.images:
            raise UolError(f"{part.address}: {images} images where there were {part.images}: it changed meanwhile")
        counts = Counts(images, len(rows), dict(errors))
        self._folder.write_part(part, rows, counts)
        return counts

    def _found(self, scorer: BaseScorer, part: Part, careful: bool) -> Iterator[list[ScoreRow]]:
        """The rows of each image of a part."""
        settings, framer = self._settings, scorer.config.framer()
        items = read_items(part, settings.columns)
        all_panels = settings.panel == ALL_PANELS
        if scorer.on_gpu and not settings.all_faces and not careful:
            kept = list(items)
            if all(item.on_disk for item in kept):  # framed by processes
                paths = [Path(item.address or "") for item in kept]
                for index, rows in score_files(scorer, paths, workers=settings.threads, all_panels=all_panels):
                    yield [{**row, "image": kept[index].key} for row in rows]
                return
            items = iter(kept)
        framer.check_packages()
        if careful:
            framed = frame_apart(items, framer, settings.all_faces)
        else:
            framed = frame_items(items, framer, settings.all_faces, settings.threads, 2 * scorer.batch_size)
        for _, rows in score_framed(scorer, enumerate(framed), all_panels):
            yield rows

    def _open(self) -> BaseScorer:
        if self._scorer is None:
            settings = self._settings
            name = settings.model if isinstance(settings.model, str) else unpack_model(settings.model)
            panel = None if settings.panel == ALL_PANELS else settings.panel
            self._scorer = open_model(
                name, settings.runtime, settings.device, panel, settings.interval, threads=settings.threads
            )
        return self._scorer


def error_kind(error: str) -> str:
    """The kind of an error of a row, by the words of its reason."""
    return next((kind for words, kind in _KINDS.items() if words in error), "unreadable")


def _table_rows(row: ScoreRow, face: int, kind: str | None, panel: str) -> list[dict[str, Any]]:
    """The rows of a part's file for one face: one for each panel that was asked for."""
    place = row["face"]
    box = [None] * 4 if place is None else place["box"]
    common: dict[str, Any] = {
        "key": row["image"],
        "face": None if place is None else face,
        **dict(zip(("face_left", "face_top", "face_width", "face_height"), box, strict=True)),
        "confidence": None if place is None else place["confidence"],
        "problems": None if place is None else "; ".join(place["problems"]),
        "error": row["error"],
        "error_kind": kind,
    }
    figures: Mapping[str, Mapping[str, Any]] = row.get("panels") or {panel: row}
    return [
        common | {"panel": name} | {figure: values[figure] for figure in FIGURES} for name, values in figures.items()
    ]
