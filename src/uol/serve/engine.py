"""The queue of images between requests and the process that scores them.

The queue is bounded, every job has a time limit, and a process that hangs, crashes or is idle is ended; the next job
starts another.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, TypeAlias

from uol.errors import ImageError, UolError
from uol.images.framing import FaceRecord
from uol.images.read import ImageBytes
from uol.scoring.base import Interval
from uol.serve.limits import Limits
from uol.serve.worker import Answer, Batch, Cancel, Job, Kind, Loaded, Message, run_worker

_LONGEST_WAIT = 60  # seconds that Retry-After asks for at most
_SMOOTHING = 0.1  # share of the newest job in the seconds and bytes per image
_EXPECTED_SECONDS = 0.1  # per image, before the first is scored
_MOST_EXPECTED = 8  # images of a body that has not been read: a large one may be a single photograph


class BusyError(UolError):
    """The queue is full; `after` is how many seconds to wait."""

    def __init__(self, after: int) -> None:
        super().__init__(f"busy: the queue is full; try again in {after} s")
        self.after = after


class SlowError(UolError):
    """A job was not finished within its time limit."""


class LostError(UolError):
    """The process that scores has ended, or could not load its model."""


@dataclass
class _Waiting:
    future: asyncio.Future[Any]
    kind: Kind
    images: int
    began: float
    process: _Process


class Engine:
    """One model in a separate process; all methods are called in the thread of the event loop."""

    def __init__(self, model: str, limits: Limits, threads: int | None = None) -> None:
        self.limits = limits
        self.loaded = False
        self.ready = False  # from the first time that the model was loaded
        self.load_error: str | None = None
        self.images = 0  # in the queue or being scored
        self.body_bytes = 0  # of bodies in memory
        self.on_batch: Callable[[int], None] = lambda images: None
        self._model, self._threads = model, threads or os.cpu_count() or 1
        self._numbers = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._process: _Process | None = None
        self._used = time.monotonic()
        self._answered = self._used
        self.seconds_per_image: float | None = None  # of the last scores; None before the first
        self._bytes_per_image = 100_000.0
        self._expected = 0  # images of bodies that are being read
        self._idle_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to load the model."""
        self._running()
        self._idle_task = asyncio.create_task(self._unload_when_idle())

    async def close(self) -> None:
        """End the process; requests that wait are refused."""
        if self._idle_task is not None:
            self._idle_task.cancel()
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.stop)

    @property
    def pid(self) -> int | None:
        """The process that scores, if there is one."""
        return None if self._process is None else self._process.pid

    @property
    def retry_after(self) -> int:
        """Seconds until the queue will have been worked off, by the speed of the last jobs."""
        return max(1, min(_LONGEST_WAIT, math.ceil(self.images * (self.seconds_per_image or _EXPECTED_SECONDS))))

    def check_room(self, images: int = 1) -> None:
        """Refuse images that the queue has no room for."""
        if self.images + images > self.limits.queue:
            raise BusyError(self.retry_after)

    @contextmanager
    def body(self, size: int | None) -> Iterator[Callable[[int], None]]:
        """Room for a request's body, of unknown size if None, until its images are answered.

        While it is read, it is taken to have as many images as others of its size; the function given back reports how
        many it has. A request that would find no room afterwards is refused before it is read.
        """
        most = min(_MOST_EXPECTED, self.limits.queue // 4)
        expected = max(1, min(most, int((size or 0) / self._bytes_per_image)))
        self.check_room(self._expected + expected)
        held = self.limits.body_bytes if size is None else size
        if self.body_bytes + held > self.limits.memory_bytes:
            raise BusyError(self.retry_after)
        self._expected += expected
        self.body_bytes += held

        def arrived(images: int) -> None:
            nonlocal expected
            self._expected, expected = self._expected - expected, 0
            if size and images:
                self._bytes_per_image += _SMOOTHING * (size / images - self._bytes_per_image)

        try:
            yield arrived
        finally:
            self.body_bytes -= held
            self._expected -= expected

    async def ask(
        self,
        kind: Kind,
        images: tuple[ImageBytes, ...],
        all_faces: bool = False,
        panel: str | None = None,
        face: FaceRecord | None = None,
        interval: Interval = "panel",
    ) -> Any:
        """The result of a job.

        Raises `BusyError`, `SlowError`, `LostError`, or `ImageError` if its images are at fault.
        """
        self.check_room(len(images))
        job = Job(next(self._numbers), kind, images, all_faces, panel, face, interval)
        process, self._used = self._running(), time.monotonic()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[job.number] = _Waiting(future, kind, len(images), self._used, process)
        self.images += len(images)
        process.send(job)
        try:
            return await asyncio.wait_for(future, self.limits.seconds)
        except TimeoutError:
            self._abandon(job.number)
            raise SlowError(f"not finished within {self.limits.seconds:g} s; send fewer or smaller images") from None
        except asyncio.CancelledError:  # the client has left
            self._abandon(job.number)
            raise

    # ---------------------------------------------------------------- the process

    def _running(self) -> _Process:
        """The process, started if there is none."""
        if self._process is None:
            self.load_error = None
            loop = asyncio.get_running_loop()
            self._process = _Process(self._model, self._threads, loop, self._receive)
        return self._process

    def _receive(self, process: _Process, message: Message | None) -> None:
        """Take a message of a process; None when it has ended."""
        if isinstance(message, Answer):
            self._answer(message)
        elif isinstance(message, Batch):
            self.on_batch(message.images)
        elif process is self._process:
            if isinstance(message, Loaded):
                self.loaded, self.load_error = message.error is None, message.error
                self._used = self._answered = time.monotonic()
                self.ready = self.ready or self.loaded
            else:
                self.loaded, self._process = False, None
        if message is None:
            self._lose(process)

    def _answer(self, answer: Answer) -> None:
        waiting = self._forget(answer.number)
        if waiting is None or waiting.future.done():
            return
        now = time.monotonic()
        if waiting.kind == "score":
            spent = (now - max(waiting.began, self._answered)) / waiting.images
            before = spent if self.seconds_per_image is None else self.seconds_per_image
            self.seconds_per_image = before + _SMOOTHING * (spent - before)
        self._used = self._answered = now
        if answer.error is None:
            waiting.future.set_result(answer.result)
        else:
            waiting.future.set_exception((LostError if answer.fault else ImageError)(answer.error))

    def _lose(self, process: _Process) -> None:
        """Fail what an ended process had not answered."""
        error = self.load_error or "the process that scores has ended; try again"
        for number in [number for number, waiting in self._waiting.items() if waiting.process is process]:
            waiting = self._forget(number)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_exception(LostError(error))

    def _forget(self, number: int) -> _Waiting | None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self.images -= waiting.images
        return waiting

    def _abandon(self, number: int) -> None:
        """Stop a job for which nobody waits; a process that does not even confirm that is ended."""
        waiting = self._waiting.get(number)
        if waiting is None:
            return
        waiting.process.send(Cancel(number))

        def check() -> None:
            if number in self._waiting:
                waiting.process.kill()

        asyncio.get_running_loop().call_later(self.limits.seconds, check)

    async def _unload_when_idle(self) -> None:
        while True:
            await asyncio.sleep(min(5.0, self.limits.idle_seconds / 4))
            idle = time.monotonic() - self._used
            if self._process is not None and self.loaded and not self._waiting and idle > self.limits.idle_seconds:
                process, self._process, self.loaded = self._process, None, False
                await asyncio.to_thread(process.stop)


_Handler: TypeAlias = Callable[["_Process", Message | None], None]


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let a process begin with Ctrl-C held back, until it ignores it itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # now, since it lets the signal through when it has started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Process:
    """The process that scores, with a thread that sends to it and one that receives."""

    def __init__(self, model: str, threads: int, loop: asyncio.AbstractEventLoop, handler: _Handler) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=run_worker, args=(theirs, model, threads), daemon=True)
        with _without_interrupts():
            self._process.start()
        theirs.close()
        self._outbox: queue.SimpleQueue[Job | Cancel | None] = queue.SimpleQueue()
        self._loop, self._handler = loop, handler
        for work in (self._send_all, self._receive_all):
            threading.Thread(target=work, daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def send(self, message: Job | Cancel) -> None:
        """Send without waiting: a large job does not stop the event loop."""
        self._outbox.put(message)

    def stop(self) -> None:
        """End the process after what was sent to it, and wait for that."""
        self._outbox.put(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(10)

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def _send_all(self) -> None:
        with suppress(OSError, ValueError):  # it has ended: the receiving thread reports that
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)
            self._connection.send(None)

    def _receive_all(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._pass_on(self._connection.recv())
        self._pass_on(None)
        self._outbox.put(None)

    def _pass_on(self, message: Message | None) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._handler, self, message)
