"""Scoring many files: decoded and framed by threads, scored in batches, one row after another.

A row is {image, face, value, low, high, dispersion, error}: `face` says where the face was (None where images are
taken whole), and `error` why an image has no score.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from uol.errors import ImageError
from uol.images import fit_square, read_image
from uol.row_file import FIGURES, Row

if TYPE_CHECKING:
    from uol.asking import AskedWithImages
    from uol.face_cache import FaceCache
    from uol.faces import AlignedFace
    from uol.model_config import ModelConfig
    from uol.scores import Score

Pixels: TypeAlias = npt.NDArray[np.uint8]
Waiting: TypeAlias = list[tuple[int, list["FramedFile"]]]

_TOGETHER = 8  # files that a thread decodes in one go, where each takes a fraction of a millisecond


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
    quick: bool = False  # decode and resize plain JPEG files without Pillow, for a GPU that would wait

    def frame(self, path: Path) -> list[FramedFile]:
        """Decode a file and frame it."""
        return frame_file(path, self.config, self.all_faces, self.cache, self.quick)

    def frame_some(self, paths: Sequence[Path]) -> list[list[FramedFile]]:
        """Decode several files and frame them."""
        return [self.frame(path) for path in paths]


def frame_file(
    path: Path, config: ModelConfig, all_faces: bool = False, cache: FaceCache | None = None, quick: bool = False
) -> list[FramedFile]:
    """Decode a file and frame it as a model wants: whole, its main face, or every sure face, the largest first."""
    try:
        if config.framing == "whole":
            return [FramedFile(str(path), _read_square(path, config, quick))]
        from uol.faces import find_face, find_faces

        find_main = find_face if cache is None else cache.get
        found = find_faces(path) if all_faces else [find_main(path)]
        return [
            FramedFile(str(path), _square(Image.fromarray(aligned.image), config), _face(aligned)) for aligned in found
        ]
    except ImageError as error:
        return [FramedFile(str(path), None, error=str(error))]
    except Exception as error:  # a fault in a decoder or the detector costs this image, not the run
        return [FramedFile(str(path), None, error=f"{path}: {type(error).__name__}: {error}")]


def score_files(
    scorer: AskedWithImages,
    paths: Sequence[Path],
    all_faces: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: FaceCache | None = None,
) -> Iterator[tuple[int, list[Row]]]:
    """Rows of each file, in order, as (index, rows); none ends the run.

    Threads decode and look for faces while a batch is scored, and a GPU has the next batch before the last one's
    answers are solved. No more wait than two batches, so that a folder of any size takes the same memory. With a
    `cache`, main faces found before are not looked for again.
    """
    from uol.asking import one_ahead

    size = scorer.batch_size if batch_size is None else batch_size
    framer = FileFramer(scorer.config, all_faces, cache, quick=scorer.on_gpu)
    batches = _batches(_framed(paths, framer, workers or os.cpu_count() or 1, 2 * size), size)
    if not scorer.on_gpu:  # nothing works meanwhile: each batch's rows are given as soon as they are there
        for waiting in batches:
            yield from _begun(scorer, waiting)()
        return
    for rows in one_ahead(_begun(scorer, waiting) for waiting in batches):
        yield from rows


def _batches(framed: Iterator[tuple[int, list[FramedFile]]], size: int) -> Iterator[Waiting]:
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
        from uol.face_detector import opencv

        opencv()  # a missing package is one error at the start, not one for each image
    if len(paths) == 1:  # no thread for a single photograph
        yield 0, framer.frame(paths[0])
        return
    together = _TOGETHER if framer.quick and framer.config.framing == "whole" else 1
    parts = (paths[start : start + together] for start in range(0, len(paths), together))
    pool = ThreadPoolExecutor(workers)
    queue: deque[Future[list[list[FramedFile]]]] = deque()
    index = 0
    try:
        more = True
        while more or queue:
            part = next(parts, None) if more else None
            more = part is not None
            if part is not None:
                queue.append(pool.submit(framer.frame_some, part))
                if len(queue) * together < ahead:
                    continue
            if queue:
                for found in queue.popleft().result():
                    yield index, found
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
    return None if np.isnan(value) else float(value)


def _read_square(path: Path, config: ModelConfig, quick: bool) -> Pixels:
    if quick:
        from uol.plain_jpeg import read_plain_jpeg, resized

        pixels = read_plain_jpeg(path)
        if pixels is not None:
            start = (config.resize - config.crop) // 2
            inside = slice(start, start + config.crop)
            return np.array(resized(pixels, config.resize)[inside, inside]).transpose(2, 0, 1)
    return _square(read_image(path), config)


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
