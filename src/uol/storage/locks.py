"""One writer at a time: a lock that the system releases when the process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from filelock import FileLock, Timeout

from uol.errors import CallError, UolError


@contextmanager
def holding(lock_file: Path, busy: str, again: bool = False) -> Iterator[None]:
    """Hold a lock, or raise `CallError` with the words `busy` if another does; `again`: one process may hold it twice.

    The file exists only while the lock is held, or after a kill. A folder in which it cannot be made is a `UolError`.
    """
    lock = FileLock(lock_file.resolve(), is_singleton=again)
    outermost = not lock.is_locked
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not lock_file.exists():  # /proc refuses new files as if their folder were missing
            _check_writable(lock_file.parent)
        raise CallError(busy) from None
    try:
        yield
    finally:
        if outermost:
            lock_file.unlink(missing_ok=True)  # while it is held: nobody else can hold this file
        lock.release()


def _check_writable(folder: Path) -> None:
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UolError(f"{folder}: this folder cannot be written; choose another") from error
