"""A service in this process, asked without a network, and one in a separate process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import httpx
import pytest

from uol.scoring.digests import write_digests
from uol.scoring.released import DEFAULT, find_model
from uol.serve import samples
from uol.serve.api import Service, create_app
from uol.serve.limits import Limits
from uol.storage.tensors import read_arrays, write_arrays


class Asked:
    """An application whose event loop runs in another thread, with a client that waits for answers."""

    def __init__(self, service, start=True, **options):
        self.service, self.lines, self._start = service, [], start
        self.app = create_app(service, log=self.lines.append, **options)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost")

    def __enter__(self):
        if self._start:
            self.run(self.service.engine.start())
        return self

    def __exit__(self, *_):
        self.run(self.client.aclose())
        self.run(self.service.engine.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, coroutine, seconds=90):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def get(self, path, **options):
        return self.run(self.client.get(path, **options))

    def post(self, path, **options):
        return self.run(self.client.post(path, timeout=90, **options))

    def wait_until_ready(self):
        end = time.monotonic() + 90
        while self.get("/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture(scope="session")
def asked_type():
    return Asked


LIMITS = Limits(images=8, image_bytes=2_000_000, body_bytes=4_000_000)


@pytest.fixture(scope="session")
def asked():
    """The default model with usual limits, but few images in a request."""
    with Asked(Service(DEFAULT, LIMITS)) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="session")
def refusing():
    """The same without the process that scores, for requests that are refused before it is asked."""
    with Asked(Service(DEFAULT, LIMITS), start=False) as there:
        yield there


@pytest.fixture(scope="session")
def faces():
    """Three drawn faces as PNG files."""
    return [samples.sample(name) for name in samples.NAMES[:3]]


@pytest.fixture(scope="session")
def face_files(faces, tmp_path_factory):
    """The same faces in a folder."""
    folder = tmp_path_factory.mktemp("faces")
    for number, content in enumerate(faces):
        (folder / f"{number}.png").write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def couple():
    """Two faces in one picture."""
    return samples.sample(samples.TOGETHER)


class Served:
    """`uol serve` in a process, at a free port."""

    def __init__(self, *options, environment=None, code="from uol.cli import main\nmain()"):
        arguments = [sys.executable, "-c", code, "serve", "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(
            arguments, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self.lines = []
        first = self.process.stderr.readline()
        found = re.search(r"http://\S+:(\d+)/", first)
        assert found, first + self.process.stderr.read()
        self.url, self.port = found[0], int(found[1])
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def wait_until_ready(self):
        end = time.monotonic() + 90
        while time.monotonic() < end:
            try:
                if httpx.get(self.url + "readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError("the service is not ready")

    def end(self):
        """End it as an operator would; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(60)
        self._reader.join(10)
        self.process.stderr.close()
        return status


@pytest.fixture(scope="session")
def served_type():
    return Served


@pytest.fixture(scope="session")
def two_panels(tmp_path_factory):
    """The first panel of the default model and a second, which has the same references on a scale of 1 to 10."""
    folder = tmp_path_factory.mktemp("models") / "two-panels"
    shutil.copytree(find_model(DEFAULT), folder)
    shutil.rmtree(folder / "panels", ignore_errors=True)
    other = folder / "panels" / "ten"
    other.mkdir(parents=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("model")
    low, high = config["panel"]["low"], config["panel"]["high"]
    config["panel"] = {"name": "ten", "low": 1.0, "high": 10.0}
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    arrays = read_arrays(folder / "references.safetensors")
    arrays["score"] = 1 + (arrays["score"] - low) * 9 / (high - low)
    write_arrays(other / "references.safetensors", arrays)
    write_digests(folder)
    return folder


@pytest.fixture
def serve():
    """Start services that end with the test."""
    started = []

    def start(*options, **more):
        started.append(Served(*options, **more))
        return started[-1].wait_until_ready()

    yield start
    for served in started:
        served.end()
