"""Requests that schemathesis makes of the OpenAPI description of `uol study serve`: no answer may be a 5xx.

Three rounds: without a token, with a participant's, and with the researcher's.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import yaml
from PIL import Image

from uol.study.folder import images_text

OPERATIONS = 3  # that take a body; the others have few requests each
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
ADMIN = "token-of-the-researcher"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=12_000)
    arguments.add_argument("--minutes", type=float, default=4, help="at most, for each round")
    arguments.add_argument("--seed", type=int, default=1)
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-c", "from uol.cli import main\nmain()", "study", "serve", _study(folder)]
        with open(log, "w") as file, subprocess.Popen(
            [*command, "--port", "0", "--admin-token", ADMIN], stderr=file
        ) as server:  # fmt: skip
            try:
                while not (found := re.search(r"http://\S+/", log.read_text())):
                    time.sleep(0.1)
                entered = httpx.post(f"{found[0]}v1/sessions", json={"agreed": True}, timeout=60).json()
                tokens = [None, str(entered["token"]), ADMIN]
                failed = [_fuzz(found[0], token, wanted.requests // 3, wanted.minutes, wanted.seed) for token in tokens]
            finally:
                server.terminate()
        entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    counts = Counter(f"{entry.get('route', 'log')} {entry.get('status', entry.get('message'))}" for entry in entries)
    for name, count in sorted(counts.items()):
        print(f"{count:7,} {name}")
    errors = sum(entry.get("status", 0) >= 500 for entry in entries)
    total = sum("status" in entry for entry in entries)
    print(f"{total:,} requests, {errors} answers of 5xx, checks {'failed' if any(failed) else 'passed'}")
    sys.exit(bool(errors or any(failed)))


def _study(folder: str) -> str:
    """A study of ratings, whose answers a fuzzer can hit."""
    study = Path(folder) / "study"
    (study / "images").mkdir(parents=True)
    for number in range(4):
        Image.fromarray(np.full((8, 8, 3), 50 * number, np.uint8)).save(study / "images" / f"{number}.png")
    (study / "images.csv").write_text(images_text({str(number): f"{number}.png" for number in range(4)}))
    settings = {"title": "Fuzz", "kind": "ratings", "question": "How light?", "images": {"folder": "images"}}
    (study / "study.yaml").write_text(yaml.safe_dump(settings))
    return str(study)


def _fuzz(address: str, token: str | None, requests: int, minutes: float, seed: int) -> bool:
    """Run schemathesis; whether one of its checks failed."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}openapi.json",
        "--phases", "coverage,fuzzing", "--max-examples", str(-(-requests // OPERATIONS)), "--checks", CHECKS,
        "--continue-on-failure", "--workers", "2", "--seed", str(seed), "--max-time", str(60 * minutes),
    ]  # fmt: skip
    if token:  # who has withdrawn cannot answer any more: the first round, without a token, asks for it
        command += ["--header", f"Authorization: Bearer {token}", "--exclude-path", "/v1/session/withdraw"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * minutes + 300)
    print(done.stdout[done.stdout.rfind("= SUMMARY =") :])
    return done.returncode != 0


if __name__ == "__main__":
    main()
