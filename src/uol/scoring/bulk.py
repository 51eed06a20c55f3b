"""Scoring many files: decoded and framed by threads or processes, scored in batches, one row after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from uol.images.framing import FramedFile, Framer, Pixels
from uol.images.framing_process import Found
from uol.images.packages import one_thread_each
from uol.images.parallel_framing import MANY, ParallelFramer, can_share
from uol.scoring.ahead import answered
from uol.scoring.base import BaseScorer
from uol.scoring.rows import ScoreRow, panels_row, score_row
from uol.storage.cores import available_cores

if TYPE_CHECKING:
    from uol.images.face_cache import FaceCache

Waiting: TypeAlias = list[tuple[int, list[FramedFile]]]

_AHEAD = 4  # batches in memory: the first ready, the others being framed


def score_files(
    scorer: BaseScorer,
    paths: Sequence[Path],
    all_faces: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: FaceCache | None = None,
    all_panels: bool = False,
) -> Iterator[tuple[int, list[ScoreRow]]]:
    """Rows of each file, in order, as (index, rows); a file that cannot be scored has a row with its error.

    With `all_panels`, rows include the scores on the scale of each panel that the model knows.

    Files are decoded, and faces detected, while a batch is scored; a GPU has the next batch before the scores of the
    last one are solved. At most four batches wait: a folder of any size takes the same memory. With a `cache`, main
    faces found before are not detected again.
    """
    size = scorer.batch_size if batch_size is None else batch_size
    workers, framer = workers or available_cores(), scorer.config.framer(cache)
    if scorer.on_gpu and not all_faces and len(paths) > 1:
        batches = framed_batches(paths, framer, size, workers)
    elif framer.framing == "face" and not all_faces and _pays(paths, framer):
        batches = _batches(_kept(framed_batches(paths, framer, size, workers)), size)
    else:
        batches = _batches(_framed(paths, framer, all_faces, workers, 2 * size), size)
    yield from _scored(scorer, batches, all_panels)


def score_framed(
    scorer: BaseScorer, framed: Iterator[tuple[int, list[FramedFile]]], all_panels: bool = False
) -> Iterator[tuple[int, list[ScoreRow]]]:
    """Rows of images that were framed elsewhere, in order, as `score_files` gives those of files."""
    yield from _scored(scorer, _batches(framed, scorer.batch_size), all_panels)


def _scored(scorer: BaseScorer, batches: Generator[Waiting], all_panels: bool) -> Iterator[tuple[int, list[ScoreRow]]]:
    submit = partial(submit_on_all_panels if all_panels else submit_batch, scorer)
    with closing(batches):  # at once if the run is left in the middle, not when memory is next freed
        if scorer.on_gpu:
            with closing(answered(submit(waiting) for waiting in batches)) as answers:
                for rows in answers:
                    yield from rows
            return
        for waiting in batches:  # without a GPU nothing is gained by submitting ahead
            yield from submit(waiting)()


def framed_batches(
    paths: Sequence[Path], framer: Framer, size: int, workers: int, processes: bool | None = None
) -> Generator[Waiting]:
    """Files taken whole, or their main faces, `size` at a time; pixels are valid until the next batch is requested.

    By default many files are framed by processes, and a few by threads.
    """
    if processes is None:
        processes = _pays(paths, framer)
    names = [str(path) for path in paths]
    room = size * min(_AHEAD, -(-len(names) // size))
    try:
        reader = ParallelFramer(names, room, framer, workers, processes)
    except (OSError, RuntimeError):  # no shared memory, or no more threads: the system's limits are low
        if not processes:
            raise
        reader = ParallelFramer(names, room, framer, workers, processes=False)
    try:
        reading = deque(
            reader.submit(at, min(at + size, len(names)), at) for at in range(0, min(room, len(names)), size)
        )
        for start in range(0, len(names), size):
            found = [one for part in reading.popleft() for one in part.result()]
            pixels = reader.pixels[start % room :].transpose(0, 3, 1, 2)
            framed = map(_framed_file, names[start : start + size], pixels, found)
            yield list(enumerate(([one] for one in framed), start))
            reader.warn()
            if start + room < len(names):
                reading.append(reader.submit(start + room, min(start + room + size, len(names)), start % room))
    finally:
        reader.close()


def _pays(paths: Sequence[Path], framer: Framer) -> bool:
    """Whether there are enough files for processes, which take a moment to start."""
    return len(paths) > MANY[framer.framing] and can_share()


def _kept(batches: Generator[Waiting]) -> Iterator[tuple[int, list[FramedFile]]]:
    """The files of batches, one by one, with pixels that stay."""
    with closing(batches):
        for waiting in batches:
            for index, (one,) in waiting:
                yield index, [one if one.pixels is None else one._replace(pixels=one.pixels.copy("K"))]


def _framed_file(name: str, pixels: Pixels, found: Found) -> FramedFile:
    return FramedFile(name, None, None, found) if isinstance(found, str) else FramedFile(name, pixels, found)


def _batches(framed: Iterator[tuple[int, list[FramedFile]]], size: int) -> Generator[Waiting]:
    """Files until they have `size` images, or twice as many files."""
    waiting: Waiting = []
    count = 0
    for index, found in framed:
        waiting.append((index, found))
        count += sum(one.pixels is not None for one in found)
        if count >= size or len(waiting) >= 2 * size:
            yield waiting
            waiting, count = [], 0
    if waiting:
        yield waiting


def _framed(
    paths: Sequence[Path], framer: Framer, all_faces: bool, workers: int, ahead: int
) -> Iterator[tuple[int, list[FramedFile]]]:
    """The framed images of each file, in order; at most `ahead` files wait to be scored."""
    framer.check_packages()
    if len(paths) == 1:  # no thread for a single photograph
        yield 0, framer.frame(paths[0], all_faces)
        return
    pool = ThreadPoolExecutor(workers)
    queue: deque[Future[list[FramedFile]]] = deque()
    index = 0
    with one_thread_each() if framer.framing == "face" else nullcontext():
        try:
            for path in paths:
                queue.append(pool.submit(framer.frame, path, all_faces))
                if len(queue) >= ahead:
                    yield index, queue.popleft().result()
                    index += 1
            while queue:
                yield index, queue.popleft().result()
                index += 1
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def submit_batch(scorer: BaseScorer, waiting: Waiting) -> Callable[[], list[tuple[int, list[ScoreRow]]]]:
    """Start to score a batch; the function returned waits for its rows."""
    ready = [one.pixels for _, framed in waiting for one in framed if one.pixels is not None]
    wait = scorer.submit(ready) if ready else None

    def rows() -> list[tuple[int, list[ScoreRow]]]:
        scores = iter([] if wait is None else wait())
        return [
            (index, [score_row(one, None if one.pixels is None else next(scores)) for one in framed])
            for index, framed in waiting
        ]

    return rows


def submit_on_all_panels(scorer: BaseScorer, waiting: Waiting) -> Callable[[], list[tuple[int, list[ScoreRow]]]]:
    """Score a batch on the scale of each panel; the function returned has its rows."""
    ready = [one.pixels for _, framed in waiting for one in framed if one.pixels is not None]
    by_panel = scorer.score_panels(np.stack(ready)) if ready else {}
    scores = iter([dict(zip(by_panel, each, strict=True)) for each in zip(*by_panel.values(), strict=True)])
    none = {panel.name: None for panel in scorer.panels}
    rows = [
        (index, [panels_row(one, none if one.pixels is None else next(scores)) for one in framed])
        for index, framed in waiting
    ]
    return lambda: rows
