"""Read many image files at once into one array of pixels, by threads or by worker processes.

A thread spends about 0.1 ms per image in Python and system calls, in addition to decoding. Much of that time it holds
Python's lock, which the thread that feeds a GPU needs too. Processes have a lock each. They import neither torch nor a
model, so that one starts in a fraction of a second. A process receives file names through a pipe and returns errors the
same way: a line of JSON [place, [path, …]] in, a line [null or an error, …] out. Pixels go through shared memory.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread

import numpy as np

from uol.images.framing import Framer, Pixels, reason

MANY = 2000  # files from which starting processes pays
_READING_THREADS = 2  # threads that read files themselves until processes have started
_PAUSE = 0.01  # seconds between looks for a free process

_ENVIRONMENT = {  # for glibc: memory is kept from one image to the next, which saves a quarter of the time
    "MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TOP_PAD_": str(2**24),
    "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def read_into(target: Pixels, paths: Sequence[str], read: Callable[[str], Pixels]) -> list[str | None]:
    """Read files into the first places of `target`; for each None, or the error for which its place has no pixels."""
    errors: list[str | None] = []
    for place, path in enumerate(paths):
        try:
            target[place] = read(path)
            errors.append(None)
        except Exception as error:  # a fault in a decoder costs this image, not the run
            errors.append(reason(path, error))
    return errors


class ParallelReader:
    """Reads files, taken whole, into `pixels` (places, crop, crop, 3): by the calling threads or by processes.

    Without processes, plain JPEG files are read by `fast_jpeg`; with them, Pillow reads everything. Until processes
    have started, or when they have died, a few calling threads read files themselves: more would slow the start down.
    """

    def __init__(self, places: int, framer: Framer, processes: int = 0) -> None:
        self._read = framer.pixels if processes else framer.pixels_fast
        self._closed = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._may_read = Semaphore(_READING_THREADS if processes else 2**30)
        self._waiter = Thread(target=self._wait_for_processes, daemon=True)
        crop = framer.resize if framer.crop is None else framer.crop
        shape = (places, crop, crop, 3)
        if not processes:
            self.pixels: Pixels = np.empty(shape, np.uint8)
            return
        shared = os.memfd_create("uol")
        try:
            os.ftruncate(shared, int(np.prod(shape)))
            self.pixels = _map(shared, shape)
            with suppress(OSError):  # where the system allows no more processes, those that started do the work
                for _ in range(processes):
                    self._started.append(_start(shared, places, framer.resize, crop))
            self._waiter.start()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(shared)

    def _wait_for_processes(self) -> None:
        for process in self._started:
            if process.stdout is not None and process.stdout.readline():
                self._idle.put(process)

    def read(self, place: int, paths: Sequence[str]) -> list[str | None]:
        """Read files into the places from `place` on; for each None, or the error for which it has no pixels."""
        while not self._closed:
            with suppress(Empty):
                process = self._idle.get_nowait()
                errors = _ask(process, place, paths)
                if errors is not None:
                    self._idle.put(process)
                    return errors
            if self._may_read.acquire(timeout=_PAUSE):
                try:
                    return read_into(self.pixels[place:], paths, self._read)
                finally:
                    self._may_read.release()
        return ["stopped"] * len(paths)

    def close(self) -> None:
        """End the processes, even in the middle of a file."""
        self._closed = True
        for process in self._started:
            process.kill()
        if self._waiter.is_alive():
            self._waiter.join()
        for process in self._started:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def can_share() -> bool:
    """Whether this system has anonymous shared memory, and Python can start processes."""
    return hasattr(os, "memfd_create") and bool(sys.executable)


def _map(shared: int, shape: tuple[int, ...]) -> Pixels:
    return np.frombuffer(mmap.mmap(shared, int(np.prod(shape))), np.uint8).reshape(shape)


def _start(shared: int, places: int, resize: int, crop: int) -> subprocess.Popen[bytes]:
    # In a new session: Ctrl-C reaches only the parent, and the processes end when their input does.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "uol.images.parallel_reading", *map(str, (shared, places, resize, crop))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(shared,),
        start_new_session=True,
        env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip


def _ask(process: subprocess.Popen[bytes], place: int, paths: Sequence[str]) -> list[str | None] | None:
    """A process's answer about files; None where it has died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps([place, paths]).encode() + b"\n")
        process.stdin.flush()
        answer: list[str | None] = json.loads(process.stdout.readline())
    except (OSError, ValueError):  # a broken pipe, half a line, or a pipe closed meanwhile
        return None
    return answer


def serve(shared: int, places: int, resize: int, crop: int) -> None:
    """Report to be ready, then read the requested files into shared memory until the input ends."""
    pixels = _map(shared, (places, crop, crop, 3))
    read = Framer(resize, crop).pixels
    print("[]", flush=True)
    for line in sys.stdin.buffer:
        place, paths = json.loads(line)
        print(json.dumps(read_into(pixels[place:], paths, read)), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        serve(*map(int, sys.argv[1:5]))
