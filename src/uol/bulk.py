"""Scoring many files: decoded and framed by threads, scored in batches, one row after another.

A row is {image, face, value, low, high, dispersion, error}: `face` says where the face was (None where images are
taken whole), and `error` why an image has no score.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
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
    from uol.faces import AlignedFace
    from uol.model_config import ModelConfig
    from uol.scores import Score

Pixels: TypeAlias = npt.NDArray[np.uint8]


class FramedFile(NamedTuple):
    """An image, or one face in it, ready for a network; or why it is not."""

    image: str
    pixels: Pixels | None
    face: dict[str, Any] | None = None
    error: str | None = None


def frame_file(path: Path, config: ModelConfig, all_faces: bool = False) -> list[FramedFile]:
    """Decode a file and frame it as a model wants: whole, its main face, or every sure face, the largest first."""
    try:
        if config.framing == "whole":
            return [FramedFile(str(path), _square(read_image(path), config))]
        from uol.faces import find_face, find_faces

        found = find_faces(path) if all_faces else [find_face(path)]
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
    batch_size: int = 32,
    workers: int | None = None,
) -> Iterator[tuple[int, list[Row]]]:
    """Rows of each file, in order, as (index, rows); none ends the run.

    Threads decode and look for faces while a batch is scored; no more wait than two batches, so that a folder of any
    size takes the same memory.
    """
    waiting: list[tuple[int, list[FramedFile]]] = []
    count = 0
    for index, framed in _framed(paths, scorer.config, all_faces, workers or os.cpu_count() or 1, 2 * batch_size):
        waiting.append((index, framed))
        count += sum(one.pixels is not None for one in framed)
        if count >= batch_size or len(waiting) >= 2 * batch_size:
            yield from _scored(scorer, waiting)
            waiting, count = [], 0
    yield from _scored(scorer, waiting)


def _framed(
    paths: Sequence[Path], config: ModelConfig, all_faces: bool, workers: int, ahead: int
) -> Iterator[tuple[int, list[FramedFile]]]:
    if config.framing == "face":
        from uol.face_detector import opencv

        opencv()  # a missing package is one error at the start, not one for each image
    if len(paths) == 1:  # no thread for a single photograph
        yield 0, frame_file(paths[0], config, all_faces)
        return
    pool = ThreadPoolExecutor(workers)
    queue: deque[Future[list[FramedFile]]] = deque()
    try:
        for index in range(len(paths) + ahead):
            if index < len(paths):
                queue.append(pool.submit(frame_file, paths[index], config, all_faces))
            if index >= ahead and queue:
                yield index - ahead, queue.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _scored(scorer: AskedWithImages, waiting: list[tuple[int, list[FramedFile]]]) -> Iterator[tuple[int, list[Row]]]:
    ready = [one.pixels for _, framed in waiting for one in framed if one.pixels is not None]
    scores = iter(scorer.score_pixels(np.stack(ready)) if ready else [])
    for index, framed in waiting:
        yield index, [row(one, None if one.pixels is None else next(scores)) for one in framed]


def row(framed: FramedFile, score: Score | None) -> Row:
    """One image's row."""
    figures = {name: None if score is None else _known(getattr(score, name)) for name in FIGURES}
    return {"image": framed.image, "face": framed.face, **figures, "error": framed.error}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _square(image: Image.Image, config: ModelConfig) -> Pixels:
    return np.ascontiguousarray(fit_square(image, config.resize, config.crop).transpose(2, 0, 1))


def _face(aligned: AlignedFace) -> dict[str, Any]:
    face = aligned.face
    return {
        "box": [round(float(side), 1) for side in face.box],
        "confidence": round(face.confidence, 4),
        "problems": list(aligned.problems),
    }
