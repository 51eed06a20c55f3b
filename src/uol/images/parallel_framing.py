"""Frame many image files at once into one array of pixels, by threads or by worker processes.

A thread spends about 0.1 ms per image in Python and system calls, in addition to decoding, and several milliseconds per
face. Much of that time it holds Python's lock, which the thread that feeds a GPU needs too. Processes have a lock each.
One thread of this process hands out the work and collects the answers.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import subprocess
import sys
import time
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

import numpy as np

from uol.errors import UolError
from uol.images.face_cache import NOT_CACHED
from uol.images.framing import Framer, Framing, Pixels
from uol.images.framing_process import REQUEST, Found, Layout, Task, frame_into

MANY: dict[Framing, int] = {"whole": 2000, "face": 200}  # files from which starting processes pays
_TOGETHER: dict[Framing, int] = {"whole": 16, "face": 4}  # files framed in one go
_OWN_THREADS = 2  # threads that frame files themselves until processes have started
_AHEAD = 3  # requests that wait for a quick process
_QUICK = 0.05  # seconds for an answer; a slow process gets the next request when it has answered

_ENVIRONMENT = {  # for glibc: memory is kept from one image to the next, which saves a quarter of the time
    "MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TOP_PAD_": str(2**24),
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip


class _Part(NamedTuple):
    """Files to be framed: from the first to the one before the end, and the place of the first one's pixels."""

    first: int
    end: int
    place: int
    found: Future[list[Found]]


class _Process:
    """A process, and the parts that it was asked for."""

    def __init__(self, task: Task) -> None:
        # In a new session: Ctrl-C reaches only the parent, and the processes end when their input does.
        self.popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "uol.images.framing_process", json.dumps(task)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            pass_fds=(task.shared,), start_new_session=True,
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.input, self.output = self.popen.stdin, self.popen.stdout
        self.ready = False
        self.asked: deque[_Part] = deque()
        self.texts: list[str] = []  # warnings
        self._room, self._since = 1, 0.0
        self._rest = b""

    @property
    def has_room(self) -> bool:
        """Whether it may be asked for more."""
        return self.ready and len(self.asked) < self._room

    def ask(self, part: _Part) -> None:
        """Ask for a part."""
        if not self.asked:
            self._since = time.monotonic()
        self.asked.append(part)
        with suppress(OSError):  # it has died: its output ends, too
            self.input.write(REQUEST.pack(part.first, part.end, part.place))

    def receive(self) -> bool:
        """Take the answers that have come; False if it has died."""
        try:
            content = os.read(self.output.fileno(), 1 << 16)
            *lines, self._rest = (self._rest + content).split(b"\n")
            for line in lines:
                if self.ready:
                    self._answer(*json.loads(line))
                self.ready = True
        except (OSError, ValueError, TypeError, IndexError):
            return False
        return bool(content)

    def _answer(self, found: list[Found], texts: list[str]) -> None:
        part = self.asked.popleft()
        now = time.monotonic()
        self._room, self._since = _AHEAD if now - self._since < _QUICK else 1, now
        self.texts += texts
        with suppress(InvalidStateError):
            part.found.set_result(found or [None] * (part.end - part.first))

    def end(self) -> None:
        """End it, even in the middle of a file."""
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.input, self.output):
            with suppress(OSError):
                pipe.close()


class ParallelFramer:
    """Frames files into `pixels` (places, crop, crop, 3), by `workers` threads or processes.

    Until processes have started, or when they have died, a few threads frame files themselves: more would slow the
    start down.
    """

    def __init__(self, names: Sequence[str], places: int, framer: Framer, workers: int, processes: bool) -> None:
        framer.check_packages()
        self._names, self._framer = names, framer
        self._pending: deque[_Part] = deque()
        self._lost: deque[_Part] = deque()  # by processes that died: not for others
        self._helping: set[Future[None]] = set()
        self._warned: set[str] = set()
        self._closed = False
        self._failure: BaseException | None = None  # of the thread that hands out work
        self._processes: list[_Process] = []
        self._own = ThreadPoolExecutor(_OWN_THREADS if processes else workers)
        self._thread: Thread | None = None
        crop = framer.resize if framer.crop is None else framer.crop
        if not processes:
            self.pixels: Pixels = np.empty((places, crop, crop, 3), np.uint8)
            return
        layout = Layout(places, crop, len(names))
        shared = os.memfd_create("uol")
        self._heard, self._bell = os.pipe()
        try:
            layout.write_names(shared, names)
            self.pixels = layout.pixels(mmap.mmap(shared, layout.offsets_at))
            with suppress(OSError):  # where the system allows no more processes, those that started do the work
                for _ in range(workers):
                    self._processes.append(_Process(Task.of(shared, layout, framer)))
            self._alive = list(self._processes)
            thread = Thread(target=self._run, daemon=True)
            thread.start()
            self._thread = thread
        except BaseException:
            self.close()
            raise
        finally:
            os.close(shared)

    def submit(self, first: int, end: int, place: int) -> list[Future[list[Found]]]:
        """Have files framed into the places from `place` on; what is found in them, a few files at a time, in order."""
        step = _TOGETHER[self._framer.framing]
        parts = [_Part(at, min(at + step, end), place + at - first, Future()) for at in range(first, end, step)]
        if self._thread is None:
            for part in parts:
                self._own.submit(self._frame, part)
        else:
            self._pending.extend(parts)
            if self._failure is None:
                self._ring()
            else:
                self._fail(parts)
        return [part.found for part in parts]

    def warn(self) -> None:
        """Pass on what processes warned of, the first warning of each kind."""
        for text in [text for process in self._processes for text in process.texts]:
            kind = text.partition(":")[0]  # what follows differs from file to file
            if kind not in self._warned:
                self._warned.add(kind)
                if kind == NOT_CACHED and self._framer.cache is not None:  # threads of this process may have warned
                    self._framer.cache.stop_storing(text)
                else:
                    warnings.warn(text, stacklevel=2)

    def close(self) -> None:
        """End all, even in the middle of a file of a process."""
        if not self._closed:
            self._closed = True
            if self._thread is not None:
                self._ring()
                self._thread.join()
            for process in self._processes:
                process.end()
            self._own.shutdown(wait=True, cancel_futures=True)
            self._helping.clear()  # they refer to this framer: its memory would stay
            if hasattr(self, "_bell"):
                os.close(self._bell)
                os.close(self._heard)

    def _ring(self, _: object = None) -> None:
        os.write(self._bell, b"\n")

    def _frame(self, part: _Part) -> None:
        """Frame a part in this thread."""
        paths = self._names[part.first : part.end]
        found = frame_into(self.pixels[part.place :], paths, self._framer)
        with suppress(InvalidStateError):  # by a process, since no thread could be started at once
            part.found.set_result(found)

    def _run(self) -> None:
        """Hand out parts and collect answers; what stops this, such as too many open files, stops those who wait."""
        try:
            self._hand_out_all()
        except BaseException as error:
            self._failure = error
            asked = [part for process in self._processes for part in process.asked]
            self._fail([*self._pending, *self._lost, *asked])

    def _fail(self, parts: Sequence[_Part]) -> None:
        for part in parts:
            with suppress(InvalidStateError):  # it has been answered
                part.found.set_exception(
                    UolError(f"no more photographs can be read: {self._failure}; give the command more resources")
                )

    def _hand_out_all(self) -> None:
        """Hand out parts and collect answers until the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._heard, selectors.EVENT_READ)
            for process in self._processes:
                selector.register(process.output, selectors.EVENT_READ, process)
            while not self._closed:
                self._hand_out()
                for key, _ in selector.select():
                    if key.data is None:
                        os.read(self._heard, 1 << 10)
                    elif not key.data.receive():
                        selector.unregister(key.fileobj)
                        self._alive.remove(key.data)
                        self._lost.extend(key.data.asked)

    def _hand_out(self) -> None:
        free = sorted((one for one in self._alive if one.has_room), key=lambda one: len(one.asked))
        while self._pending and free:
            process = free.pop(0)
            process.ask(self._pending.popleft())
            if process.has_room:
                free.append(process)
        self._helping = {one for one in self._helping if not one.done()}
        waiting = [self._lost] if self._alive and all(one.ready for one in self._alive) else [self._lost, self._pending]
        for parts in waiting:
            while parts and len(self._helping) < _OWN_THREADS:
                try:
                    helping = self._own.submit(self._frame, parts[0])
                except RuntimeError:  # the system allows no more threads
                    if self._alive and parts is self._pending:
                        return  # processes will do it
                    raise
                parts.popleft()
                self._helping.add(helping)
                helping.add_done_callback(self._ring)


def can_share() -> bool:
    """Whether this system has anonymous shared memory, and Python can start processes."""
    return hasattr(os, "memfd_create") and bool(sys.executable)
