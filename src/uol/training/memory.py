"""Memory of the processor between the steps of a training."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # glibc's numbers of these settings
_NEVER = -1
_AFTERWARDS = {  # what glibc itself arrives at once large blocks were freed; setting one ends that adjustment
    _MMAP_MAX: 65536,
    _MMAP_THRESHOLD: 32 << 20,
    _TRIM_THRESHOLD: 64 << 20,
}


@contextmanager
def freed_memory_kept(wanted: bool) -> Iterator[None]:
    """Let the process keep the memory that a step frees, for the next step.

    Each step asks for the same gigabytes as the last. If freed memory goes back to the system, every page of it is
    cleared again when it is next written, which took half of the time of training EfficientNet-lite on two cores.
    Only glibc is asked; with other C libraries nothing changes.
    """
    libc = _glibc() if wanted else None
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        for setting, value in _AFTERWARDS.items():
            libc.mallopt(setting, value)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process if it is glibc."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):  # TypeError: Windows
        return None
    return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt") else None
