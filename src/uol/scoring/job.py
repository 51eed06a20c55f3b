"""A job of scoring many files: the rows of all of them, kept in a file as they are finished, and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from uol.errors import CallError
from uol.scoring.base import Score, rank_with_ties
from uol.scoring.bulk import score_files
from uol.scoring.released import find_model, fingerprint
from uol.scoring.row_file import RowFile

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer

COLUMNS = (
    "image", "face", "face_left", "face_top", "face_width", "face_height", "problems", "value", "low", "high",
    "dispersion", "error",
)  # fmt: skip
RANK_COLUMNS = ("rank", "tied", *COLUMNS)

Row = dict[str, Any]


class Progress(NamedTuple):
    """How far a job is: images finished by this call, by earlier ones, and in all."""

    done: int
    before: int
    total: int


def score_job(
    scorer: BaseScorer,
    model: str,
    paths: Sequence[Path],
    out: Path | None = None,
    all_faces: bool = False,
    face_cache: Path | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> list[Row]:
    """The rows of all files; with `out`, finished rows are kept in it and a stopped job is resumed."""
    if all_faces and scorer.config.framing == "whole":
        raise CallError("--all-faces: this model scores whole images and finds no faces")
    if all_faces and face_cache is not None:
        raise CallError("--face-cache stores the main face of an image; leave out --all-faces")
    cache = None
    if face_cache is not None and scorer.config.framing == "face":
        from uol.images.face_cache import FaceCache

        cache = FaceCache(face_cache)
    rows: list[Row] = []
    job = {"model": fingerprint(find_model(model)), "all_faces": all_faces}
    with RowFile(out, job, COLUMNS) if out is not None else nullcontext() as kept:
        todo = list(paths) if kept is None else kept.missing(paths)
        progress = Progress(0, len(paths) - len(todo), len(paths))
        report(progress)
        for index, found in score_files(scorer, todo, all_faces, cache=cache):
            if kept is None:
                rows += found
            else:
                kept.add(todo[index], found)
            progress = progress._replace(done=progress.done + 1)
            report(progress)
        if kept is not None:
            kept.order(paths)
            rows = kept.rows
    return rows


def rank_rows(scored: Sequence[Row]) -> list[Row]:
    """Rows from best to worst with their rank, and whether others share it; those with an error come last."""
    good = sorted((row for row in scored if row["error"] is None), key=lambda row: -row["value"])
    ranks = rank_with_ties([Score(row["value"], row["low"], row["high"], 0.0, 0.0) for row in good])
    shared = {place for place, times in Counter(ranks).items() if times > 1}
    ranked = [{"rank": place, "tied": place in shared, **row} for place, row in zip(ranks, good, strict=True)]
    return ranked + [{"rank": None, "tied": False, **row} for row in scored if row["error"] is not None]
