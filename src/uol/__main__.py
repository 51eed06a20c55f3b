"""`uol`, also as `python -m uol`: the command line, and Ctrl-C while it is still being imported."""

from __future__ import annotations

import os
import signal
import sys
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
        sys.exit(_INTERRUPTED)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """Leave at once: nothing was begun, and an exception would come out of whatever is being imported."""
    print(_SAID, file=sys.stderr)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
