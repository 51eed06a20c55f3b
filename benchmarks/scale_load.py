"""Bulk scoring on a Ray of this machine against one process: throughput, memory, deaths, S3 and HTTP.

Images are drawn, the network is small and untrained: what Ray costs shows the more. Prints one JSON object. On a busy
machine compare the processor's time, not the clock's.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

_TICK = os.sysconf("SC_CLK_TCK")
_ALONE = """
import json, sys, time
from uol.images.paths import find_images
from uol.scoring.bulk import score_files
from uol.scoring.released import open_model

scorer, paths = open_model(sys.argv[2], "onnx"), find_images(sys.argv[1])
began, processor = time.perf_counter(), time.process_time()
rows = sum(len(found) for _, found in score_files(scorer, paths))
print(json.dumps([rows, time.perf_counter() - began, time.process_time() - processor]))
"""


class Sample(NamedTuple):
    """The memory of a driver and its workers, in MB, and their processor's time, when so many images were done."""

    images: int
    workers: int
    driver_mb: float
    workers_mb: float
    workers_seconds: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--images", type=int, default=20_000)
    arguments.add_argument("--killed", type=int, default=4_000, help="images of the job whose processes are killed")
    arguments.add_argument("--remote", type=int, default=500, help="images read from S3 and from HTTP")
    arguments.add_argument("--model", help="a model folder with graphs; by default a small one is made")
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = wanted.model or _small_model(folder / "model")
        photographs = _draw(folder / "photographs", max(wanted.images, 1))
        found: dict[str, Any] = {"images": wanted.images, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
        few = _draw(folder / "few", wanted.killed)
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "one process": lambda: _alone(photographs, model),
            "ray": lambda: _on_ray(photographs, folder / "out", model, wanted.images),
            "killed": lambda: _killed(few, folder / "killed", model, wanted.killed),
            "http": lambda: _http(photographs, folder / "http", model, wanted.remote),
            "s3": lambda: _s3(photographs, folder / "s3", model, wanted.remote),
        }
        for name, measure in parts.items():
            found[name] = measure()
            print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
        ratio = found["ray"]["images_per_second"] / found["one process"]["images_per_second"]
        print(json.dumps(found | {"ray against one process": round(ratio, 3)}, indent=2))


def _small_model(folder: Path) -> str:
    """An untrained model of whole images of 32 pixels, exported."""
    import torch

    from uol.order.bradley_terry import BradleyTerry
    from uol.order.config import ModelConfig
    from uol.order.gaussians import Gaussians
    from uol.order.model import OrderModel
    from uol.order.references import ReferenceSet
    from uol.scoring.config import PanelConfig
    from uol.scoring.onnx_export import export_onnx
    from uol.scoring.scorer import Scorer

    torch.manual_seed(0)
    config = ModelConfig(
        backbone="test_byobnet", resize=32, crop=32, dimensions=16, hidden=24, framing="whole", pooling="mean"
    )
    gaussians = Gaussians(torch.randn(40, 16), torch.zeros(40, 16))
    references = ReferenceSet(gaussians, np.linspace(1, 5, 40))
    panel = PanelConfig(name="drawn", low=1, high=5)
    export_onnx(Scorer(OrderModel(config).eval(), references, panel, BradleyTerry(5.0, 1.0), None), folder)
    return str(folder)


def _draw(folder: Path, count: int) -> Path:
    """Small JPEG files of coloured squares."""
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(200):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8)).resize((96, 96)).save(buffer, "JPEG")
        contents.append(buffer.getvalue())
    for number in range(count):
        path = folder / f"{number // 1000:03d}" / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[number % 200])
    return folder


def _alone(photographs: Path, model: str) -> dict[str, Any]:
    call = [sys.executable, "-c", _ALONE, str(photographs), model]
    rows, seconds, processor = json.loads(subprocess.run(call, capture_output=True, check=True, text=True).stdout)
    return {
        "rows": rows, "seconds": round(seconds, 1), "images_per_second": round(rows / seconds, 1),
        "processor_ms_per_image": round(1000 * processor / rows, 3),
    }  # fmt: skip


def _call(source: str, out: Path | str, model: str, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "uol", "score", source, "--on", "ray", "--out", str(out), "--model", model, "--json",
        "--price", "0.1", *options,
    ]  # fmt: skip


def _on_ray(photographs: Path, out: Path, model: str, images: int) -> dict[str, Any]:
    """A whole job; memory is noted at a quarter of the images and at the end."""
    began = time.perf_counter()
    driver = subprocess.Popen(_call(str(photographs), out, model), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    samples: list[Sample] = []
    while driver.poll() is None:
        workers = _workers(driver.pid)
        if workers:
            done = 1000 * len(list(out.glob("part-*.parquet")))
            memory = sum(_memory(worker) for worker in workers)
            samples.append(Sample(done, len(workers), _memory(driver.pid), memory, sum(map(_processor, workers))))
        time.sleep(0.25)
    assert driver.stdout is not None
    summary = json.loads(driver.stdout.read())
    busy = max(sample.workers_seconds for sample in samples)
    quarter = next((sample for sample in samples if sample.images >= images / 4), samples[-1])
    end = [sample for sample in samples if sample.workers == quarter.workers][-1]  # before one leaves
    later = (end.workers_seconds - quarter.workers_seconds) / max(end.images - quarter.images, 1)
    _check_once(out, images)
    return dict(summary) | {
        "whole_command_seconds": round(time.perf_counter() - began, 1),
        "processor_ms_per_image": round(1000 * later, 3),  # without what starting takes
        "processor_ms_per_image_with_start": round(1000 * busy / images, 3),
        "memory": {f"at {sample.images} images": sample._asdict() for sample in (quarter, end)},
        "highest_workers_mb": max(sample.workers_mb for sample in samples),
        "every image once": True,
    }


def _killed(photographs: Path, out: Path, model: str, images: int) -> dict[str, Any]:
    """A job of which first a worker, then the driver is killed by its id, and which is then resumed."""
    call = _call(str(photographs), out, model, "--part-size", "100")
    driver = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def parts() -> int:
        return len(list(out.glob("part-*.parquet")))

    _wait(lambda: parts() >= images / 400)
    worker = _workers(driver.pid)[0]
    os.kill(worker, signal.SIGKILL)
    at_worker = parts()
    _wait(lambda: parts() >= images / 200 or driver.poll() is not None)
    driver.kill()
    driver.wait()
    at_driver = parts()
    summary = json.loads(subprocess.run(call, capture_output=True, check=True, text=True).stdout)
    _check_once(out, images)
    return {
        "worker": worker, "parts when it was killed": at_worker, "driver": driver.pid,
        "parts when it was killed too": at_driver, "images done before": summary["before"],
        "images in the end": summary["images"], "every image once": True,
    }  # fmt: skip


def _http(photographs: Path, out: Path, model: str, images: int) -> dict[str, Any]:
    handler = partial(_Quiet, directory=str(photographs))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listed = out.with_suffix(".txt")
    files = sorted(photographs.rglob("*.jpg"))[:images]
    address = f"http://127.0.0.1:{server.server_address[1]}"
    listed.write_text("\n".join(f"{address}/{path.relative_to(photographs)}" for path in files))
    summary = json.loads(subprocess.run(_call(str(listed), out, model), capture_output=True, text=True).stdout)
    server.shutdown()
    _check_once(out, len(files))
    return dict(summary)


def _s3(photographs: Path, out: Path, model: str, images: int) -> dict[str, Any]:
    """Images from a bucket of moto's server, rows into another folder of it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    store = s3fs.S3FileSystem()
    store.mkdir("photographs")
    for path in sorted(photographs.rglob("*.jpg"))[:images]:
        store.pipe_file(f"photographs/in/{path.name}", path.read_bytes())
    call = _call("s3://photographs/in", "s3://photographs/scores", model, "--part-size", "100")
    summary = json.loads(subprocess.run(call, capture_output=True, text=True).stdout)
    store.invalidate_cache()
    store.get("photographs/scores/", str(out) + "/", recursive=True)
    server.stop()
    _check_once(out, images)
    return dict(summary)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _check_once(out: Path, images: int) -> None:
    from pyarrow import parquet  # type: ignore[import-untyped]

    parts = sorted(out.rglob("part-*.parquet"))
    found = Counter(key for part in parts for key in parquet.read_table(part, columns=["key"])["key"].to_pylist())
    assert len(found) == images, f"{len(found)} of {images} images"
    assert set(found.values()) == {1}, found.most_common(3)


def _wait(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def _workers(driver: int) -> list[int]:
    """The workers that a driver started, found by their parents."""
    parents: dict[int, int] = {}
    named: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (place / "cmdline").read_bytes()
            if words.startswith(b"ray::") and b"PartScorer" in words:
                named.append(int(place.name))

    def below(number: int) -> bool:
        while number in parents and number != driver:
            number = parents[number]
        return number == driver

    return [number for number in named if below(number)]


def _memory(number: int) -> float:
    """The memory of a process that is not shared with others, in MB."""
    with suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{number}/statm").read_text().split())
        return round((resident - shared) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    return 0.0


def _processor(number: int) -> float:
    with suppress(OSError, ValueError):
        fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICK
    return 0.0


if __name__ == "__main__":
    main()
