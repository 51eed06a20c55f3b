"""Requests that schemathesis makes of the OpenAPI description, valid and not: no answer may be a 5xx."""

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

OPERATIONS = 4  # that take a body; the others have one request each
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=10_000)
    arguments.add_argument("--minutes", type=float, default=30, help="at most")
    arguments.add_argument("--seed", type=int, default=1)
    wanted = arguments.parse_args()
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", "from uol.cli import main\nmain()", "serve", "--port", "0"]
        with subprocess.Popen(command, stderr=log) as server:
            try:
                address = _address(log.name)
                failed = _fuzz(address, wanted.requests, wanted.minutes, wanted.seed)
            finally:
                server.terminate()
        log.seek(0)
        entries = [json.loads(line) for line in log if line.startswith("{")]
    counts = Counter(f"{entry.get('route', 'log')} {entry.get('status', entry.get('message'))}" for entry in entries)
    for name, count in sorted(counts.items()):
        print(f"{count:7,} {name}")
    errors = sum(entry.get("status", 0) >= 500 for entry in entries)
    total = sum("status" in entry for entry in entries)
    print(f"{total:,} requests, {errors} answers of 5xx, checks {'failed' if failed else 'passed'}")
    sys.exit(bool(errors or failed))


def _address(log: int | str) -> str:
    """The address that the service prints, once it does."""
    for _ in range(600):
        found = re.search(r"http://\S+/", Path(f"/proc/self/fd/{log}").read_text(encoding="utf-8"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise SystemExit("the service did not start")


def _fuzz(address: str, requests: int, minutes: float, seed: int) -> bool:
    """Run schemathesis; whether one of its checks failed."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}openapi.json",
        "--phases", "coverage,fuzzing", "--max-examples", str(-(-requests // OPERATIONS)), "--checks", CHECKS,
        "--continue-on-failure", "--workers", "4", "--seed", str(seed),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * minutes)
    except subprocess.TimeoutExpired:
        print(f"stopped after {minutes:g} minutes")
        return False
    print(done.stdout[done.stdout.rfind("= SUMMARY =") :])
    return done.returncode != 0


if __name__ == "__main__":
    main()
