"""Work that is submitted before the answers to earlier work are waited for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def one_ahead(submitted: Iterable[Callable[[], Answer]]) -> Iterator[Answer]:
    """The answers to submitted work, in order; each is waited for after the next is submitted."""
    waiting: Callable[[], Answer] | None = None
    for wait in submitted:
        if waiting is not None:
            yield waiting()
        waiting = wait
    if waiting is not None:
        yield waiting()


def answered(submitted: Iterable[Callable[[], Answer]], ahead: int = 2) -> Generator[Answer]:
    """The answers to submitted work, in order, waited for in another thread than the one that submits.

    At most `ahead` are unanswered when the next is submitted.
    """
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Answer]] = deque()
    try:
        for wait in submitted:
            waiting.append(pool.submit(wait))
            if len(waiting) > ahead or waiting[0].done():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
