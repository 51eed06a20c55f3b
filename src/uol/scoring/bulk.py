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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from uol.images.decoding import MANY, SquareReader, can_share, reason
from uol.images.read import fit_square, read_image
from uol.scoring.row_file import FIGURES, Row

if TYPE_CHECKING:
    from uol.images.face_cache import FaceCache
    from uol.images.faces import AlignedFace
    from uol.order.config import ModelConfig
    from uol.scoring.base import AskedWithImages
    from uol.scoring.scores import Score

Pixels: TypeAlias = npt.NDArray[np.uint8]
Waiting: TypeAlias = list[tuple[int, list["FramedFile"]]]

_TOGETHER = 16  # files decoded in one go for a GPU, where each takes a fraction of a millisecond
_AHEAD = 4  # batches in memory for a GPU: the first ready, the others being decoded


class FramedFile(NamedTuple):
    """An image, or one face in it, ready for a network; or why it is not."""

    image: str
    pixels: Pixels | None
    face: dict[str, Any] | None = None
    error: str | None = None


class FileFramer(NamedTuple):
    """How files are framed: as a model wants them; every sure face or the main one; with faces kept on disk or not."""

    config: ModelConfig
    all_faces: bool = False
    cache: FaceCache | None = None

    def frame(self, path: Path) -> list[FramedFile]:
        """Decode a file and frame it."""
        return frame_file(path, self.config, self.all_faces, self.cache)


def frame_file(
    path: Path, config: ModelConfig, all_faces: bool = False, cache: FaceCache | None = None
) -> list[FramedFile]:
    """Decode a file and frame it as a model wants: whole, its main face, or every sure face, the largest first."""
    try:
        if config.framing == "whole":
            return [FramedFile(str(path), _square(read_image(path), config))]
        from uol.images.faces import find_face, find_faces

        if all_faces:
            found = find_faces(path, border=config.border)
        elif cache is None:
            found = [find_face(path, border=config.border)]
        else:
            found = [cache.get(path, config.border)]
        return [
            FramedFile(str(path), _square(Image.fromarray(aligned.image), config), _face(aligned)) for aligned in found
        ]
    except Exception as error:  # a fault in a decoder or the detector costs this image, not the run
        return [FramedFile(str(path), None, error=reason(path, error))]


def score_files(
    scorer: AskedWithImages,
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
        batches = whole_batches(paths, scorer.config, size, workers)
    else:
        batches = _batches(_framed(paths, FileFramer(scorer.config, all_faces, cache), workers, 2 * size), size)
    with closing(batches):  # at once where the run is left in the middle, not when memory is next tidied up
        if scorer.on_gpu:
            with closing(answered(_begun(scorer, waiting) for waiting in batches)) as answers:
                for rows in answers:
                    yield from rows
            return
        for waiting in batches:  # nothing works meanwhile: each batch's rows are given as soon as they are there
            yield from _begun(scorer, waiting)()


def whole_batches(
    paths: Sequence[Path], config: ModelConfig, size: int, workers: int, processes: bool | None = None
) -> Generator[Waiting]:
    """Files taken whole, `size` at a time; pixels are there until the next batch is asked for.

    Many files are decoded by processes, unless told otherwise, and with Pillow; a few by threads, and plain JPEG
    files without it.
    """
    if processes is None:
        processes = len(paths) > MANY and can_share()
    names = [str(path) for path in paths]
    room = size * min(_AHEAD, -(-len(names) // size))
    quick = None if processes else partial(_quick_square, config=config)
    reader = SquareReader(room, config.resize, config.crop, quick, workers if processes else 0)
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
    paths: Sequence[Path], framer: FileFramer, workers: int, ahead: int
) -> Iterator[tuple[int, list[FramedFile]]]:
    """What each file gives, in order; `ahead` files at most are begun before the first of them is asked for."""
    if framer.config.framing == "face":
        from uol.images.detector import opencv

        opencv()  # a missing package is one error at the start, not one for each image
    if len(paths) == 1:  # no thread for a single photograph
        yield 0, framer.frame(paths[0])
        return
    pool = ThreadPoolExecutor(workers)
    queue: deque[Future[list[FramedFile]]] = deque()
    index = 0
    try:
        for path in paths:
            queue.append(pool.submit(framer.frame, path))
            if len(queue) >= ahead:
                yield index, queue.popleft().result()
                index += 1
        while queue:
            yield index, queue.popleft().result()
            index += 1
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begun(scorer: AskedWithImages, waiting: Waiting) -> Callable[[], list[tuple[int, list[Row]]]]:
    """Begin to score a batch; calling what is returned waits for its rows."""
    ready = [one.pixels for _, framed in waiting for one in framed if one.pixels is not None]
    wait = scorer.begin(ready) if ready else None

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


def _quick_square(path: str, config: ModelConfig) -> Pixels:
    """(crop, crop, 3), of a plain JPEG file without Pillow."""
    from uol.images.plain_jpeg import read_plain_jpeg, resized

    pixels = read_plain_jpeg(path)
    if pixels is None:
        return fit_square(read_image(path), config.resize, config.crop)
    start = (config.resize - config.crop) // 2
    inside = slice(start, start + config.crop)
    return resized(pixels, config.resize)[inside, inside]


def _square(image: Image.Image, config: ModelConfig) -> Pixels:
    """(3, crop, crop), in memory with the channels last: as PIL has them and networks want them."""
    return np.array(fit_square(image, config.resize, config.crop)).transpose(2, 0, 1)


def _face(aligned: AlignedFace) -> dict[str, Any]:
    face = aligned.face
    return {
        "box": [round(float(side), 1) for side in face.box],
        "confidence": round(face.confidence, 4),
        "problems": list(aligned.problems),
    }
