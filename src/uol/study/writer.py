"""One thread that writes: changes that wait together are committed together, and each is answered after its commit.

A commit waits for the disk. With one commit per answer, 200 participants would wait for each other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from uol.errors import UolError

Result = TypeVar("Result")

_MOST_TOGETHER = 256


class StoreError(UolError):
    """The database cannot be read or written now: the disk is full, the server of the database is away."""


class _Job(NamedTuple, Generic[Result]):
    work: Callable[[Connection], Result]
    then: Callable[[Result], None] | None
    future: Future[Result]


class Writer:
    """Runs changes of a database one after another, in few transactions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: queue.Queue[_Job[Any] | None] = queue.Queue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="uol-study-writer", daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[Connection], Result], then: Callable[[Result], None] | None = None
    ) -> Future[Result]:
        """Do some work in a transaction; the future has its result once that is committed.

        `then` is called with the result after the commit and before the next work begins.
        """
        future: Future[Result] = Future()
        if self._closed:
            future.set_exception(StoreError("the study is being closed"))
        else:
            self._jobs.put(_Job(work, then, future))
        return future

    def close(self) -> None:
        """Finish what waits, and end."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            waiting = [self._jobs.get()]
            while len(waiting) < _MOST_TOGETHER and not self._jobs.empty():
                waiting.append(self._jobs.get())
            running = None not in waiting
            self._commit([job for job in waiting if job is not None])

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        outcomes: list[Any] = []
        try:
            with self._engine.begin() as connection:
                outcomes += (_attempt(connection, job.work) for job in jobs)
        except Exception as error:
            for job in jobs:
                job.future.set_exception(_as_store_error(error))
            return
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                job.future.set_exception(_as_store_error(outcome))
                continue
            try:
                if job.then is not None:
                    job.then(outcome)
                job.future.set_result(outcome)
            except Exception as error:
                job.future.set_exception(error)


def _attempt(connection: Connection, work: Callable[[Connection], Any]) -> Any:
    """The result of some work, or the exception after which none of its changes remain."""
    try:
        with connection.begin_nested():
            return work(connection)
    except Exception as error:
        if connection.invalidated:
            raise
        return error


def _as_store_error(error: Exception) -> Exception:
    if isinstance(error, SQLAlchemyError):
        return StoreError(f"the database cannot be used now ({reason(error)})")
    return error


def reason(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return lines[0] if lines else type(error).__name__
