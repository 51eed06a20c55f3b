"""Bulk scoring on a Ray cluster of several nodes on this machine: nodes come by the autoscaler, one is taken away.

The head has no CPU, as in the cluster file of `docs/scale.md`. Ray's autoscaler starts nodes of one CPU, which are
processes of this machine, when workers wait for them. One node is killed while it works, as a spot machine is. Prints
one JSON object. Processes are ended by their ids.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from scale_load import _check_once, _draw, _small_model, _wait

_NODES = 2  # at most, of one CPU each
_LISTS = (  # which `ray up` fills in
    "cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands", "setup_commands",
    "head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands",
)  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--images", type=int, default=2_000)
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        model, photographs = _small_model(folder / "model"), _draw(folder / "photographs", wanted.images)
        address, head = _head(folder)
        try:
            found = _score(address, photographs, folder / "out", model, head.pid)
        finally:
            _end(head)
        _check_once(folder / "out", wanted.images)
    print(json.dumps({"load": os.getloadavg()[0], **found}, indent=2))


def _head(folder: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """A head without CPUs, whose autoscaler starts nodes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head: dict[str, Any] = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    node = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": _NODES}
    provider = {
        "type": "fake_multinode", "gcs_address": f"127.0.0.1:{port}", "use_node_id_as_ip": True,
        "disable_node_updaters": True, "disable_launch_config_check": True,
    }  # fmt: skip
    config = {
        "cluster_name": "nodes", "max_workers": _NODES, "idle_timeout_minutes": 1,
        "provider": provider, "available_node_types": {"ray.head.default": head, "spot": node},
        "head_node_type": "ray.head.default", "upscaling_speed": 1.0, "file_mounts_sync_continuously": False,
        "auth": {}, "docker": {}, "file_mounts": {}, **{name: [] for name in _LISTS},
    }  # fmt: skip
    (folder / "cluster.json").write_text(json.dumps(config))
    ray = str(Path(sys.executable).with_name("ray"))
    command = [
        ray, "start", "--head", "--block", "--num-cpus=0", f"--port={port}", "--include-dashboard=false",
        f"--autoscaling-config={folder / 'cluster.json'}", f"--temp-dir={folder / 'r'}",
        "--object-store-memory=100000000",
    ]  # fmt: skip
    os.environ |= {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # nobody else connects
    with open(folder / "head.log", "wb") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log)
    _wait(lambda: "Ray runtime started" in (folder / "head.log").read_text() or started.poll() is not None)
    return f"127.0.0.1:{port}", started


def _score(address: str, photographs: Path, out: Path, model: str, head: int) -> dict[str, Any]:
    """Score a folder on the cluster, kill a node after some parts, and count nodes."""
    call = [
        sys.executable, "-m", "uol", "score", str(photographs), "--on", "ray", "--cluster", address, "--out", str(out),
        "-m", model, "--part-size", "50", "--workers", "8", "--json",
    ]  # fmt: skip
    began = time.monotonic()
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as driver:
        _wait(lambda: len(list(out.glob("part-*"))) >= 5 or driver.poll() is not None)
        before = _nodes(head)
        for node in list(before)[:1]:
            os.kill(node, signal.SIGKILL)
        killed_at, later, most = len(list(out.glob("part-*"))), set[int](), len(before)
        while driver.poll() is None:
            now = _nodes(head)
            most, later = max(most, len(now)), later | now
            time.sleep(0.2)
        assert driver.stdout is not None
        said = driver.stdout.read()
    if driver.returncode:
        raise SystemExit(f"uol score ended with {driver.returncode}")
    summary = json.loads(said)
    return {
        "nodes at first": len(before), "nodes at most": most, "nodes begun later": len(later - before),
        "parts when a node was killed": killed_at, "seconds": round(time.monotonic() - began, 1), **summary,
    }  # fmt: skip


def _nodes(head: int) -> set[int]:
    """The nodes that the autoscaler has started: the raylets below its process."""
    return {number for number, parent in _below(head).items() if _is(number, b"raylet") and _is(parent, b"monitor.py")}


def _is(number: int, word: bytes) -> bool:
    with suppress(OSError):
        return any(part.endswith(word) for part in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[:4])
    return False


def _below(ancestor: int) -> dict[int, int]:
    """The processes that a process and those below it have started, each with its parent."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    found = {ancestor}
    while more := {number for number, parent in parents.items() if parent in found} - found:
        found |= more
    return {number: parents[number] for number in found - {ancestor}}


def _end(head: subprocess.Popen[bytes]) -> None:
    """End a cluster: every process below its head, by its id."""
    processes = _below(head.pid)
    head.terminate()
    with suppress(subprocess.TimeoutExpired):
        head.wait(20)
    for number in [*processes, head.pid]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
