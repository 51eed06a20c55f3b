"""What a busy neighbour costs: `uol score` and `uol demo` alone, and with processes that never rest.

python benchmarks/company.py FOLDER [--photographs 200] [--neighbours 1] [--demo] [--cold]

Run it on a machine without other work. --demo trains for some minutes; --cold adds the first score of a new process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uol.images.paths import find_images

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photographs", type=int, default=200)
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    paths = [str(path) for path in find_images(given.folder)[: given.photographs]]
    if os.getloadavg()[0] > 0.5:
        print(f"other work is on this machine (load {os.getloadavg()[0]:.1f}): these figures are not those of quiet")
    if given.cold:
        first = min(seconds(["score", paths[0]]) for _ in range(2 * ROUNDS))
        print(f"first score of a new process: {first:.2f} s")
    compare(f"score of {len(paths)} photographs", ["score", *paths], given.neighbours, ROUNDS)
    if given.demo:
        with tempfile.TemporaryDirectory() as folder:
            compare("demo", ["demo", "--out", f"{folder}/demo"], given.neighbours, 1)


def compare(name: str, command: list[str], neighbours: int, rounds: int) -> None:
    """Print the least seconds of a command alone and with others running, measured in turn."""
    alone, together = [], []
    for _ in range(rounds):
        alone.append(seconds(command))
        with busy(neighbours):
            together.append(seconds(command))
    ratio = min(together) / min(alone)
    print(f"{name}: {min(alone):.1f} s alone, {min(together):.1f} s with {neighbours} busy: {ratio:.2f} times")


def seconds(command: list[str]) -> float:
    """Wall seconds of a command of this version."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import uol.cli; uol.cli.main()", *command], capture_output=True, check=False)
    return time.perf_counter() - began


@contextmanager
def busy(neighbours: int) -> Iterator[None]:
    """Processes that compute without rest."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
