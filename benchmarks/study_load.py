"""Many participants at once: how long saving an answer takes, and whether every acknowledged answer is there.

Each participant waits a random time, as people do who look at a pair, fetches the images of a trial, and answers it.
Participants run in one process, the service in another. The service's processor time is reported too: on a machine
that others use, it says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import yaml
from PIL import Image

from uol.study.folder import images_text, open_study
from uol.study.sessions import Sessions
from uol.study.store import Store, database_url

SIZE = 256  # pixels of an image's sides


@dataclass
class Result:
    """What participants saw: seconds until an answer was acknowledged, what was acknowledged, and problems."""

    saving: list[float] = field(default_factory=list)
    entering: list[float] = field(default_factory=list)
    images: int = 0
    saved: dict[tuple[str, str], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--participants", type=int, default=200)
    arguments.add_argument("--trials", type=int, default=40)
    arguments.add_argument("--think", type=float, default=1.5, help="mean seconds between a trial and its answer")
    arguments.add_argument("--database", help="postgresql://…; a SQLite file if not given")
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = _study(Path(folder) / "study", wanted.trials)
        program = "from uol.cli import main\nmain()"
        command = [sys.executable, "-c", program, "study", "serve", str(study), "--port", "0"]
        command += ["--database", wanted.database] if wanted.database else []
        log = Path(folder) / "log"
        with open(log, "w") as file, subprocess.Popen(command, stderr=file) as server:
            try:
                while not (found := re.search(r"http://\S+/", log.read_text())):
                    time.sleep(0.1)
                began, used, own = time.perf_counter(), _processor(server.pid), time.process_time()
                result = asyncio.run(_everybody(found[0], wanted.participants, wanted.think))
                seconds, used = time.perf_counter() - began, _processor(server.pid) - used
                own = time.process_time() - own
            finally:
                server.kill()  # what was acknowledged is on the disk
        lost, twice = _compare(study, wanted.database, result)
    p50, p95, p99, worst = 1000 * np.percentile(result.saving, [50, 95, 99, 100])
    count = len(result.saving)
    print(f"{wanted.participants} participants, {count:,} answers in {seconds:.0f} s ({count / seconds:.0f}/s), "
          f"{result.images:,} images, {len(result.problems)} problems {sorted(set(result.problems))[:3]}")  # fmt: skip
    print(f"saving an answer: p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms, slowest {worst:.0f} ms")
    print(f"entering: p99 {1000 * np.percentile(result.entering, 99):.0f} ms")
    print(f"processor: service {used:.1f} s ({1000 * used / count:.1f} ms an answer with its images), "
          f"participants {own:.1f} s; load of the machine {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"acknowledged and not stored: {lost}; stored twice: {twice}")
    sys.exit(bool(lost or twice or result.problems))


def _study(folder: Path, trials: int) -> Path:
    """A study of pairs of 60 noisy pictures."""
    (folder / "images").mkdir(parents=True)
    rng, files = np.random.default_rng(0), {}
    for number in range(60):
        pixels = np.clip(rng.normal(4 * number, 12, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.jpg", quality=85)
        files[f"image-{number}"] = f"{number}.jpg"
    (folder / "images.csv").write_text(images_text(files))
    settings = {
        "title": "Load",
        "kind": "pairs",
        "question": "Which?",
        "images": {"folder": "images"},
        "trials": trials,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(settings))
    return folder


async def _everybody(address: str, number: int, think: float) -> Result:
    result = Result()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(address, connector=connector) as session:
        await asyncio.gather(*(_participant(session, name, think, result) for name in range(number)))
    return result


async def _participant(session: aiohttp.ClientSession, number: int, think: float, result: Result) -> None:
    rng = random.Random(number)
    await asyncio.sleep(rng.uniform(0, 2 * think))  # a link that was sent to all is not opened in the same moment
    name = f"person-{number}"
    body = {"agreed": True, "language": "en", "personal": {"PROLIFIC_PID": name}}
    entered, seconds = await _ask(session, "/v1/sessions", body, {}, result)
    if entered is None:
        return
    result.entering.append(seconds)
    head, state, seen = {"Authorization": f"Bearer {entered['token']}"}, entered["state"], set[str]()
    while state["stage"] == "trial":
        trial = state["trial"]
        for key in trial["images"]:
            if key not in seen:  # the page keeps those that it has
                seen.add(key)
                async with session.get(f"/v1/images/{key}", headers=head) as answer:
                    await answer.read()
                    result.images += answer.status == 200
        await asyncio.sleep(rng.expovariate(1 / think))
        given = {"trial": trial["trial"], "answer": rng.choice(trial["images"]), "response_ms": 900}
        saved, seconds = await _ask(session, "/v1/answers", given, head, result)
        if saved is None:
            return
        result.saving.append(seconds)
        result.saved[name, trial["trial"]] = given["answer"]
        state = saved["state"]


async def _ask(
    session: aiohttp.ClientSession, path: str, body: dict[str, Any], head: dict[str, str], result: Result
) -> tuple[Any, float]:
    began = time.perf_counter()
    try:
        async with session.post(path, json=body, headers=head) as answer:
            content = await answer.json()
            if answer.status == 200:
                return content, time.perf_counter() - began
            result.problems.append(f"{answer.status} {content}")
    except (aiohttp.ClientError, TimeoutError) as error:
        result.problems.append(type(error).__name__)
    return None, 0.0


def _compare(folder: Path, database: str | None, result: Result) -> tuple[int, int]:
    """How many acknowledged answers are missing or differ, and how many trials have more than one."""
    store = Store(database_url(folder, database))
    sessions = Sessions(open_study(folder), store)
    names = {participant: fields["PROLIFIC_PID"] for participant, fields in store.personal().items()}
    answers = store.answers()
    stored = {(names[one.participant], one.trial): sessions.key(str(one.answer)) for one in answers}
    store.close()
    lost = sum(stored.get(place) != given for place, given in result.saved.items())
    return lost, len(answers) - len(stored)


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
