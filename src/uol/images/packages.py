"""The packages that finding faces needs, imported when they are first needed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from uol.errors import UolError

_import_lock, _count_lock = threading.Lock(), threading.Lock()
_uses, _threads = 0, 0  # of `one_thread_each` now, and OpenCV's threads before the first


def opencv() -> Any:
    """The module `cv2`."""
    return import_package("cv2")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let OpenCV work in one thread for each photograph: where several are framed at once, more only get in the way."""
    global _uses, _threads
    cv2 = opencv()
    with _count_lock:
        if _uses == 0:
            _threads = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _uses += 1
    try:
        yield
    finally:
        with _count_lock:
            _uses -= 1
            if _uses == 0:
                cv2.setNumThreads(_threads)


def import_package(name: str) -> Any:
    """A package, or one line that says what to install."""
    with _import_lock:
        try:  # also if it is in sys.modules: there it is before another thread has imported all of it, and this waits
            return importlib.import_module(name)
        except ImportError as error:
            raise UolError(f"finding faces needs more packages ({error}): pip install uol") from error
