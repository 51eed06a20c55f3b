"""Load on loopback: throughput against `uol score` in the same run, waiting times, refusals and memory at overload.

Clients send requests one after another over kept connections. The overload has four times as many clients, each with
more images than its share of the queue; a client that is refused asks again after Retry-After, at most two seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from PIL import Image

from uol.datasets.synthetic import draw_faces, sample_parameters

SIZE = 512  # pixels of a photograph's sides


@dataclass
class Result:
    """What clients saw: seconds of answers and of refusals, images scored until when, other statuses."""

    began: float
    ended: float
    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    images: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Images per second, until the last answer."""
        return self.images / (self.ended - self.began)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clients", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--images", type=int, default=64, help="different photographs")
    arguments.add_argument("--together", type=int, default=4, help="photographs in a request")
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = _photographs(Path(folder), wanted.images)
        before = _score_files(paths, wanted.seconds / 2)
        with _service(Path(folder) / "log") as (address, pid):
            _load(address, paths, wanted.clients, min(5, wanted.seconds), wanted.together)  # warm
            spent = _processor(pid)
            load = _load(address, paths, wanted.clients, wanted.seconds, wanted.together)
            spent = _processor(pid) - spent
            _report(f"{wanted.clients} clients", load)
            with _watched(pid) as memory:
                over = _load(address, paths, 4 * wanted.clients, wanted.seconds, 2 * wanted.together)
            _report(f"{4 * wanted.clients} clients", over)
        after = _score_files(paths, wanted.seconds / 2)
    command_line = (before.rate + after.rate) / 2
    print(f"uol score: {before.rate:.1f} and {after.rate:.1f} images/s before and after; service {load.rate:.1f}: "
          f"{load.rate / command_line:.0%}")  # fmt: skip
    # On a machine that others use, the processor's time says more than the clock's.
    each, theirs = 1000 * spent / load.images, 500 * (before.processor + after.processor)
    print(f"processor time of an image: uol score {theirs:.0f} ms, both processes of the service {each:.0f} ms")
    quarters = [float(np.median(part)) / 1e6 for part in np.array_split(np.array(memory), 4)]
    print(
        f"memory of both processes in the quarters of the overload: {', '.join(f'{part:.0f}' for part in quarters)} MB"
    )


def _photographs(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{number}.jpg" for number in range(count)]
    faces = draw_faces(sample_parameters(count, np.random.default_rng(0)), SIZE)
    for path, pixels in zip(paths, faces, strict=True):
        Image.fromarray(pixels).save(path, quality=92)
    return paths


class Pace(NamedTuple):
    """Images per second, and seconds of the processor for an image."""

    rate: float
    processor: float


def _score_files(paths: list[Path], seconds: float) -> Pace:
    """The pace of `uol score`, without its start: what a longer job takes more than a shorter one."""

    def run(repeats: int) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            for repeat in range(repeats):
                for path in paths:
                    (Path(folder) / f"{repeat}-{path.name}").symlink_to(path)
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", "from uol.cli import main\nmain()", "score", folder, "--json"]
            subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return time.perf_counter() - began, used

    once, once_used = run(1)
    repeats = max(2, round(seconds / once))
    longer, longer_used = run(repeats)
    images = len(paths) * (repeats - 1)
    return Pace(images / (longer - once), (longer_used - once_used) / images)


@contextlib.contextmanager
def _service(log: Path) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-c", "from uol.cli import main\nmain()", "serve", "--port", "0"]
    with open(log, "w") as file, subprocess.Popen(command, stderr=file) as server:
        try:
            while not (found := re.search(r"http://\S+/", log.read_text())):
                time.sleep(0.1)
            while httpx.get(f"{found[0]}readyz").status_code != 200:
                time.sleep(0.1)
            yield found[0], server.pid
        finally:
            server.terminate()


def _load(address: str, paths: list[Path], clients: int, seconds: float, together: int) -> Result:
    began = time.perf_counter()
    result = Result(began, began)
    photographs = [("images", (path.name, path.read_bytes(), "image/jpeg")) for path in paths]
    bodies = []  # made before, as making them takes time of the same cores
    for start in range(0, len(photographs), together):
        files = [photographs[(start + step) % len(photographs)] for step in range(together)]
        request = httpx.Request("POST", f"{address}v1/score", files=files)
        bodies.append((request.read(), {"Content-Type": request.headers["Content-Type"]}))
    arguments = [(address, bodies, number, began + seconds, result) for number in range(clients)]
    threads = [threading.Thread(target=_client, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


def _client(address: str, bodies: list[tuple[bytes, dict[str, str]]], number: int, end: float, result: Result) -> None:
    with httpx.Client(timeout=120) as client:
        while time.perf_counter() < end:
            number += 1
            content, headers = bodies[number % len(bodies)]
            began = time.perf_counter()
            try:
                answer = client.post(f"{address}v1/score", content=content, headers=headers)
            except httpx.TransportError as error:
                result.failures.append(type(error).__name__)
                continue
            now = time.perf_counter()
            if answer.status_code == 200:
                result.answered.append(now - began)
                result.images += len(answer.json())
                result.ended = max(result.ended, now)
            elif answer.status_code == 429:
                result.refused.append(now - began)
                time.sleep(min(2.0, float(answer.headers["Retry-After"])))
            else:
                result.failures.append(str(answer.status_code))


def _report(title: str, result: Result) -> None:
    line = f"{title}: {result.rate:.1f} images/s, {len(result.answered):,} answers"
    if result.answered:
        p50, p99 = np.percentile(result.answered, [50, 99])
        line += f", p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
    print(f"{line}, {len(result.failures)} failures {sorted(set(result.failures))}")
    if result.refused:
        p50, p99, slowest = 1000 * np.percentile(result.refused, [50, 99, 100])
        print(
            f"  {len(result.refused):,} refused with 429: p50 {p50:.0f} ms, p99 {p99:.0f} ms, slowest {slowest:.0f} ms"
        )


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The memory of the service, twice a second."""
    seen, done = [_memory(pid)], threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            seen.append(_memory(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _memory(pid: int) -> int:
    """Resident bytes of a process and its children."""
    pages = 0
    for process in _family(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _processor(pid: int) -> float:
    """Seconds of the processor that a process and its children have had."""
    stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in _family(pid)]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[str]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
            found += [entry] if str(pid) in (entry, parent) else []
    return found


if __name__ == "__main__":
    main()
