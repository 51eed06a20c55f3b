"""What can be asked of a model, whichever engine runs it: scores, comparisons and rankings of images."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from uol.errors import CallError
from uol.images.framing import pack_images
from uol.images.read import ImageLike, Images
from uol.order.config import ModelConfig
from uol.scoring.scores import Comparison, Ranked, Score, rank_with_ties

Pixels = npt.NDArray[np.uint8]
Answer = TypeVar("Answer")


class AskedWithImages(ABC):
    """Images given as paths, PIL images or uint8 arrays, framed as the model wants them; an engine takes the pixels."""

    @property
    @abstractmethod
    def config(self) -> ModelConfig:
        """What the model is made of."""

    @abstractmethod
    def score_pixels(self, pixels: Pixels) -> list[Score]:
        """Scores of images already framed: uint8 (N, 3, crop, crop)."""

    @abstractmethod
    def compare_pixels(self, first: Pixels, second: Pixels) -> Comparison:
        """How one framed image (3, crop, crop) stands to another."""

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return False

    @property
    def batch_size(self) -> int:
        """How many images are best scored at once."""
        return 32

    def begin(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Begin to score framed images, each (3, crop, crop); calling what is returned waits for their scores.

        The images' memory may be written over as soon as this returns.
        """
        pixels = np.stack(images)
        return lambda: self.score_pixels(pixels)

    def score(self, images: Images | ImageLike, batch_size: int | None = None) -> list[Score]:
        """Score images given as paths, PIL images or uint8 arrays."""
        images = as_sequence(images)
        batch_size = self.batch_size if batch_size is None else batch_size
        if batch_size < 1:
            raise CallError(f"batch_size must be at least 1, not {batch_size}")
        batches = (images[start : start + batch_size] for start in range(0, len(images), batch_size))
        return [score for batch in batches for score in self.score_pixels(self.framed(batch))]

    def compare(self, first: ImageLike, second: ImageLike) -> Comparison:
        """The probabilities that the panel would put the first image below, level with, or above the second."""
        return self.compare_pixels(*self.framed([first, second]))

    def rank(self, images: Images, batch_size: int | None = None) -> list[Ranked]:
        """Images from best to worst; a rank is shared while intervals overlap that of the rank's best."""
        images = as_sequence(images)
        scores = self.score(images, batch_size)
        order = sorted(range(len(scores)), key=lambda i: -scores[i].value)
        ranks = rank_with_ties([scores[i] for i in order])
        return [
            Ranked(rank, i, images[i], scores[i], tied=ranks.count(rank) > 1)
            for rank, i in zip(ranks, order, strict=True)
        ]

    def framed(self, images: Images) -> Pixels:
        """Images as the model wants them: uint8 (N, 3, crop, crop)."""
        config = self.config
        return pack_images(images, config.resize, config.crop, config.framing)


def one_ahead(begun: Iterable[Callable[[], Answer]]) -> Iterator[Answer]:
    """The answers of what was begun, in order; each is waited for only when the next one is begun."""
    waiting: Callable[[], Answer] | None = None
    for wait in begun:
        if waiting is not None:
            yield waiting()
        waiting = wait
    if waiting is not None:
        yield waiting()


def answered(begun: Iterable[Callable[[], Answer]], ahead: int = 2) -> Generator[Answer]:
    """The answers of what was begun, in order, waited for and made in another thread than the one that begins.

    Of those begun, `ahead` at most are not answered when the next is begun.
    """
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Answer]] = deque()
    try:
        for wait in begun:
            waiting.append(pool.submit(wait))
            if len(waiting) > ahead or waiting[0].done():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def as_sequence(images: Images | ImageLike) -> Images:
    """One image as a list of it; many as they are."""
    single = isinstance(images, (str, os.PathLike)) or hasattr(images, "getexif")
    if single or (isinstance(images, np.ndarray) and (images.ndim == 2 or images.ndim == 3)):
        return [images]  # type: ignore[list-item]
    if not hasattr(images, "__getitem__"):
        images = list(images)  # type: ignore[arg-type]
    if len(images) == 0:  # type: ignore[arg-type]
        raise CallError("no images were given")
    return images  # type: ignore[return-value]
