"""Images of a part as pixels: fetched by many threads, decoded and framed by few, never more than a batch ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from uol.images.framing import FramedFile, Framer
from uol.images.read import ImageBytes
from uol.scale.addresses import fetch
from uol.scale.items import Item

_FETCHING = 16  # requests at the same time: a store answers after tens of milliseconds


def frame_items(
    items: Iterator[Item], framer: Framer, all_faces: bool, threads: int, ahead: int
) -> Iterator[list[FramedFile]]:
    """The framed images of each item, in order; at most `ahead` items are in memory."""
    fetching, framing = ThreadPoolExecutor(_FETCHING), ThreadPoolExecutor(threads)
    queue: deque[Future[list[FramedFile]]] = deque()

    def frame(item: Item, loaded: Future[Path | ImageBytes | str] | None) -> list[FramedFile]:
        return _frame(item, load(item) if loaded is None else loaded.result(), framer, all_faces)

    try:
        for item in items:
            remote = item.content is None and not item.on_disk
            queue.append(framing.submit(frame, item, fetching.submit(load, item) if remote else None))
            if len(queue) >= ahead:
                yield queue.popleft().result()
        while queue:
            yield queue.popleft().result()
    finally:
        fetching.shutdown(wait=True, cancel_futures=True)
        framing.shutdown(wait=True, cancel_futures=True)


def frame_apart(items: Iterator[Item], framer: Framer, all_faces: bool) -> Iterator[list[FramedFile]]:
    """The framed images of each item, each framed by another process: one that kills it costs its row alone."""
    pool: ProcessPoolExecutor | None = None
    try:
        for item in items:
            pool = pool or ProcessPoolExecutor(1, get_context("spawn"))
            try:
                yield pool.submit(_frame, item, load(item), framer, all_faces).result()
            except BrokenProcessPool:
                pool = None
                name = item.address or item.key
                yield [FramedFile(item.key, None, error=f"{name}: not a readable image (it ends the process)")]
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def load(item: Item) -> Path | ImageBytes | str:
    """A file on disk, the content of one, or the reason for which there is none."""
    if item.content is not None:
        return ImageBytes(item.key, item.content)
    if item.address is None:
        return f"{item.key}: no image: its row has neither content nor an address"
    if item.on_disk:
        return Path(item.address)
    try:
        return ImageBytes(item.address, fetch(item.address))
    except FileNotFoundError:
        return f"{item.address}: no such image file"
    except Exception as error:  # each library has its classes, and none may end the job
        reason = (str(error).splitlines() or [""])[0][:200]
        return f"{item.address}: cannot be fetched ({type(error).__name__}: {reason})"


def _frame(item: Item, loaded: Path | ImageBytes | str, framer: Framer, all_faces: bool) -> list[FramedFile]:
    if isinstance(loaded, str):
        return [FramedFile(item.key, None, error=loaded)]
    return [one._replace(image=item.key) for one in framer.frame(loaded, all_faces)]
