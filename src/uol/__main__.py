"""`uol`, also as `python -m uol`: the command line, and Ctrl-C while it is still being imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_INTERRUPTED, _SAID = 130, "uol: interrupted"


def main() -> None:
    """Import and run the command line, which answers Ctrl-C itself once it runs."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if it was started to ignore Ctrl-C
    if ours:
        signal.signal(signal.SIGINT, _stop)
    from uol.cli import main as run

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:  # before or after all that `run` answers
        print(_SAID, file=sys.stderr)
        _end()
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            _end()
        raise


def _end() -> None:
    """Leave after Ctrl-C without waiting for threads: one that is opening a model aborts the process or never ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends what is still being tidied up
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(_INTERRUPTED)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """Leave at once: nothing was begun, and an exception would come out of whatever is being imported."""
    print(_SAID, file=sys.stderr)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
