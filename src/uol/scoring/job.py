"""A job of scoring many files: the rows of all of them, kept in a file as they are finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from uol.errors import CallError
from uol.scoring.bulk import score_files
from uol.scoring.released import ALL_PANELS, find_model, fingerprint
from uol.scoring.row_file import RowFile
from uol.scoring.rows import FIGURES

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer
    from uol.scoring.rows import ScoreRow

COLUMNS = (
    "image", "face", "face_left", "face_top", "face_width", "face_height", "problems", "value", "low", "high",
    "dispersion", "error",
)  # fmt: skip
RANK_COLUMNS = ("rank", "tied", *COLUMNS)


class Named(Protocol):
    """A panel, of which columns have the name."""

    @property
    def name(self) -> str: ...


def columns_of(panels: Sequence[Named] | None) -> tuple[str, ...]:
    """The columns of tables: figures on one scale, or on that of each of several panels (value_NAME, …)."""
    if panels is None:
        return COLUMNS
    start, end = COLUMNS.index(FIGURES[0]), COLUMNS.index(FIGURES[-1]) + 1
    figures = [f"{figure}_{panel.name}" for panel in panels for figure in FIGURES]
    return (*COLUMNS[:start], *figures, *COLUMNS[end:])


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
    all_panels: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
) -> list[ScoreRow]:
    """The rows of all files; with `out`, finished rows are kept in it and a stopped job is resumed."""
    if all_faces and scorer.config.framing == "whole":
        raise CallError("--all-faces: this model scores whole images and finds no faces")
    if all_faces and face_cache is not None:
        raise CallError("--face-cache stores the main face of an image; leave out --all-faces")
    cache = None
    if face_cache is not None and scorer.config.framing == "face":
        from uol.images.face_cache import FaceCache

        cache = FaceCache(face_cache)
    rows: list[ScoreRow] = []
    panel = ALL_PANELS if all_panels else scorer.panel.name
    job = {"model": fingerprint(find_model(model)), "all_faces": all_faces, "panel": panel, "interval": scorer.interval}
    with (
        RowFile(out, job, columns_of(scorer.panels if all_panels else None))
        if out is not None
        else nullcontext() as kept
    ):
        todo = list(paths) if kept is None else kept.missing(paths)
        progress = Progress(0, len(paths) - len(todo), len(paths))
        report(progress)
        for index, found in score_files(scorer, todo, all_faces, cache=cache, all_panels=all_panels):
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
