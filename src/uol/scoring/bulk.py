"""Scoring many files: decoded and framed by threads or processes, scored in batches, one row after another.

A row is {image, face, value, low, high, dispersion, error}: `face` says where the face was (None where images are
taken whole), and `error` why an image has no score.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from uol.images.framing import FramedFile, Framer
from uol.images.parallel_reading import MANY, ParallelReader, can_share
from uol.scoring.row_file import FIGURES, Row

if TYPE_CHECKING:
    from uol.images.face_cache import FaceCache
    from uol.scoring.base import BaseScorer, Score

Waiting: TypeAlias = list[tuple[int, list[FramedFile]]]

_TOGETHER = 16  # files decoded in one go for a GPU, where each takes a fraction of a millisecond
_AHEAD = 4  # batches in memory for a GPU: the first ready, the others being decoded


def score_files(
    scorer: BaseScorer,
    paths: Sequence[Path],
    all_faces: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: FaceCache | None = None,
) -> Iterator[tuple[int, list[Row]]]:
    """Rows of each file, in order, as (index, rows); none ends the run.

    Files are decoded, and faces looked for, while a batch is scored; a GPU has the next batch before the last one's
    answers are solved. No more wait than two batches, four for a GPU, so that a folder of any size takes the same
    memory. With a `cache`, main faces found before are not looked for again.
    """
    from uol.scoring.base import answered

    size = scorer.batch_size if batch_size is None else batch_size
    workers = workers or os.cpu_count() or 1
    if scorer.on_gpu and scorer.config.framing == "whole" and len(paths) > 1:
        batches = whole_batches(paths, scorer.config.framer(), size, workers)
    else:
        batches = _batches(_framed(paths, scorer.config.framer(cache), all_faces, workers, 2 * size), size)
    with closing(batches):  # at once where the run is left in the middle, not when memory is next tidied up
        if scorer.on_gpu:
            with closing(answered(_begun(scorer, waiting) for waiting in batches)) as answers:
                for rows in answers:
                    yield from rows
            return
        for waiting in batches:  # nothing works meanwhile: each batch's rows are given as soon as they are there
            yield from _begun(scorer, waiting)()


def whole_batches(
    paths: Sequence[Path], framer: Framer, size: int, workers: int, processes: bool | None = None
) -> Generator[Waiting]:
    """Files taken whole, `size` at a time; pixels are there until the next batch is asked for.

    Many files are decoded by processes, unless told otherwise, and with Pillow; a few by threads, and plain JPEG
    files without it.
    """
    if processes is None:
        processes = len(paths) > MANY and can_share()
    names = [str(path) for path in paths]
    room = size * min(_AHEAD, -(-len(names) // size))
    reader = ParallelReader(room, framer, processes=workers if processes else 0)
    pool = ThreadPoolExecutor(workers)

    def begin(start: int) -> list[Future[list[str | None]]]:
        end = min(start + size, len(names))
        return [
            pool.submit(reader.read, at % room, names[at : min(at + _TOGETHER, end)])
            for at in range(start, end, _TOGETHER)
        ]

    try:
        reading = deque(begin(start) for start in range(0, min(room, len(names)), size))
        for start in range(0, len(names), size):
            errors = [error for part in reading.popleft() for error in part.result()]
            pixels = reader.pixels[start % room :].transpose(0, 3, 1, 2)
            yield [
                (start + k, [FramedFile(names[start + k], pixels[k] if error is None else None, None, error)])
                for k, error in enumerate(errors)
            ]
            if start + room < len(names):
                reading.append(begin(start + room))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        reader.close()
        pool.shutdown(wait=True)


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
    """What each file gives, in order; `ahead` files at most are begun before the first of them is asked for."""
    framer.check_packages()
    if len(paths) == 1:  # no thread for a single photograph
        yield 0, framer.frame(paths[0], all_faces)
        return
    pool = ThreadPoolExecutor(workers)
    queue: deque[Future[list[FramedFile]]] = deque()
    index = 0
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


def _begun(scorer: BaseScorer, waiting: Waiting) -> Callable[[], list[tuple[int, list[Row]]]]:
    """Begin to score a batch; calling what is returned waits for its rows."""
    ready = [one.pixels for _, framed in waiting for one in framed if one.pixels is not None]
    wait = scorer.submit(ready) if ready else None

    def rows() -> list[tuple[int, list[Row]]]:
        scores = iter([] if wait is None else wait())
        return [
            (index, [row(one, None if one.pixels is None else next(scores)) for one in framed])
            for index, framed in waiting
        ]

    return rows


def row(framed: FramedFile, score: Score | None) -> Row:
    """One image's row."""
    figures = {name: None if score is None else _known(getattr(score, name)) for name in FIGURES}
    return {"image": framed.image, "face": framed.face, **figures, "error": framed.error}


def _known(value: float) -> float | None:
    return value if value == value else None  # a hundredth of the time that np.isnan takes for a single value
