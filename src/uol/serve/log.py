"""The log: JSON lines on stderr, written by a thread, because a reader that stalls must not hold up requests."""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from typing import Any, TextIO

_MOST_WAITING = 10_000  # lines; more are dropped and counted


class Log:
    """Lines for stderr, or another stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry, with its time, without waiting."""
        if self._dropped:
            entry = {**entry, "dropped_lines": self._dropped}
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry})
        try:
            self._lines.put_nowait(line)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def close(self, seconds: float = 5.0) -> None:
        """Write what waits, if that is possible within some seconds."""
        try:
            self._lines.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads it any more
                return


class LogHandler(logging.Handler):
    """Sends warnings of other packages to the log; of an exception only its type, as its text may name an image."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        entry = {"level": record.levelname.lower(), "message": record.getMessage().splitlines()[0]}
        if record.exc_info and record.exc_info[0] is not None:
            entry["failure"] = record.exc_info[0].__name__
        self._log.write(entry)
