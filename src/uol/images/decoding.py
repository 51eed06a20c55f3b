"""Whole images decoded into one stretch of memory, a few files at a time: by the asking thread, or by processes.

Beside decoding, a thread spends about 0.1 ms on each image in Python and calls of the system, much of it under Python's
lock, for which it contends with the thread that feeds a GPU. Processes have a lock each. They load neither torch nor a
model, so that one starts in a fraction of a second, and they are told of files through a pipe: a
line of JSON [place, [path, …]] in, a line [null or an error, …] out. The pixels go through shared memory.
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
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from uol.errors import ImageError
from uol.images.read import fit_square, read_image

Pixels: TypeAlias = npt.NDArray[np.uint8]

MANY = 2000  # files that are worth starting processes for
_HANDS = 2  # threads that decode until processes do
_PAUSE = 0.01  # seconds between looks for a process that is free

_SETTINGS = {  # for glibc: an image's memory is kept for the next one, which saves a quarter of the time
    "MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TOP_PAD_": str(2**24),
    "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def reason(path: str | os.PathLike[str], error: Exception) -> str:
    """Why a file has no pixels, in one line."""
    return str(error) if isinstance(error, ImageError) else f"{path}: {type(error).__name__}: {error}"


def read_into(target: Pixels, paths: Sequence[str], read: Callable[[str], Pixels]) -> list[str | None]:
    """Read files into the first places of `target`, one each; None, or why its place has no pixels."""
    errors: list[str | None] = []
    for place, path in enumerate(paths):
        try:
            target[place] = read(path)
            errors.append(None)
        except Exception as error:  # a fault in a decoder costs this image, not the run
            errors.append(reason(path, error))
    return errors


class SquareReader:
    """Files read into `pixels` (room, crop, crop, 3) by the thread that asks or, with `processes`, by as many of them.

    With processes all is read by Pillow. While they start, or where they have died, a few threads do themselves what is
    asked; more would hold them up, and Python's lock. Without processes `read` gives a file's pixels (crop, crop, 3).
    """

    def __init__(
        self, room: int, resize: int, crop: int, read: Callable[[str], Pixels] | None = None, processes: int = 0
    ) -> None:
        self._read = read or (lambda path: fit_square(read_image(path), resize, crop))
        self._closed = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._hands = Semaphore(_HANDS if processes else 2**30)  # threads that may decode themselves at a time
        self._waiter = Thread(target=self._wait_for_processes, daemon=True)
        shape = (room, crop, crop, 3)
        if not processes:
            self.pixels: Pixels = np.empty(shape, np.uint8)
            return
        size = int(np.prod(shape))
        shared = os.memfd_create("uol")
        try:
            os.ftruncate(shared, size)
            self.pixels = np.frombuffer(mmap.mmap(shared, size), np.uint8).reshape(shape)
            with suppress(OSError):  # where no more of them may be started, those that are there do
                for _ in range(processes):
                    self._started.append(_start(shared, room, resize, crop))
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
        """Read files into the places from `place` on; None, or why its place has no pixels."""
        while not self._closed:
            with suppress(Empty):
                process = self._idle.get_nowait()
                errors = _asked(process, place, paths)
                if errors is not None:
                    self._idle.put(process)
                    return errors
            if self._hands.acquire(timeout=_PAUSE):
                try:
                    return read_into(self.pixels[place:], paths, self._read)
                finally:
                    self._hands.release()
        return ["stopped"] * len(paths)

    def close(self) -> None:
        """End the processes, in the middle of a file if need be."""
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
    """Whether this system has memory without a name to share, and Python can be started again."""
    return hasattr(os, "memfd_create") and bool(sys.executable)


def _start(shared: int, room: int, resize: int, crop: int) -> subprocess.Popen[bytes]:
    # Ctrl-C is for the process that asks: these are in a session of their own, and end when their input does.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "uol.images.decoding", *map(str, (shared, room, resize, crop))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(shared,),
        start_new_session=True,
        env=os.environ | _SETTINGS | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip


def _asked(process: subprocess.Popen[bytes], place: int, paths: Sequence[str]) -> list[str | None] | None:
    """What a process says of files; None where it has died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps([place, paths]).encode() + b"\n")
        process.stdin.flush()
        answer: list[str | None] = json.loads(process.stdout.readline())
    except (OSError, ValueError):  # a broken pipe, half a line, or a pipe closed meanwhile
        return None
    return answer


def serve(shared: int, room: int, resize: int, crop: int) -> None:
    """Say that one is there, then read the files asked for into shared memory until no more are."""
    reader = SquareReader(0, resize, crop)
    shape = (room, crop, crop, 3)
    reader.pixels = np.frombuffer(mmap.mmap(shared, int(np.prod(shape))), np.uint8).reshape(shape)
    print("[]", flush=True)
    for line in sys.stdin.buffer:
        print(json.dumps(reader.read(*json.loads(line))), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        serve(*map(int, sys.argv[1:5]))
