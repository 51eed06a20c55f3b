"""What the tests of the service share: a small study, a service in this process, and one in a separate process."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import yaml
from PIL import Image

from uol.study.api import create_app
from uol.study.folder import images_text, open_study
from uol.study.sessions import Sessions
from uol.study.store import Store, database_url

ADMIN = "token-of-the-researcher"


def make_study(folder, images=6, **settings):
    """A study folder with small pictures that differ in colour."""
    (folder / "images").mkdir(parents=True)
    files = {}
    for number in range(images):
        colours = np.full((40, 30, 3), 20 + 10 * number, np.uint8)
        Image.fromarray(colours).save(folder / "images" / f"secret-{number}.png")
        files[f"image {number}"] = f"secret-{number}.png"
    (folder / "images.csv").write_text(images_text(files))
    given = {
        "title": "Colours", "kind": "pairs", "question": "Which is lighter?", "images": {"folder": "images"},
        "consent": "You can stop at any time.", "instructions": "Choose.", "trials": 6, "seed": 4, **settings,
    }  # fmt: skip
    (folder / "study.yaml").write_text(yaml.safe_dump({name: value for name, value in given.items() if value != ""}))
    return folder


class Asked:
    """A study's application in this process, with a client that waits for answers."""

    def __init__(self, folder, url=None):
        self.study = open_study(folder)
        self.store = Store(database_url(folder, url)).claim()
        self.sessions = Sessions(self.study, self.store)
        self.lines = []
        self.app = create_app(self.sessions, ADMIN, log=self.lines.append)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run(self.client.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self.store.close()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def get(self, path, token=None, **options):
        return self.run(self.client.get(path, headers=bearer(token), **options))

    def post(self, path, token=None, json=None, headers=None, **options):
        return self.run(self.client.post(path, headers={**bearer(token), **(headers or {})}, json=json, **options))

    def enter(self, **personal):
        answer = self.post("/v1/sessions", json={"agreed": True, "language": "en", "personal": personal})
        assert answer.status_code == 200, answer.text
        return answer.json()["token"], answer.json()["state"]

    def answer(self, token, state, choice=0):
        """Answer the current trial; where the participant is then."""
        body = answer_body(state, choice)
        answer = self.post("/v1/answers", token, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["state"]


def answer_body(state, choice=0):
    trial = state["trial"]
    given = 2 if trial["kind"] == "ratings" else trial["images"][choice]
    return {"trial": trial["trial"], "answer": given, "response_ms": 700}


def bearer(token):
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class Served:
    """`uol study serve` in a process, at a free port or a given one."""

    def __init__(self, folder, *options, port=0):
        command = [sys.executable, "-c", "from uol.cli import main\nmain()", "study", "serve", folder, "--port", port]
        self.process = subprocess.Popen(
            [str(part) for part in (*command, *options)], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "UOL_ADMIN_TOKEN": ADMIN},
        )  # fmt: skip
        first = self.process.stderr.readline()
        found = re.search(r"http://\S+:(\d+)/", first)
        assert found, first + self.process.stderr.read()
        self.url, self.port = found[0], int(found[1])
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def wait_until_ready(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if httpx.get(self.url + "readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service is not ready")

    def kill(self):
        self.process.kill()
        self._wait()

    def end(self):
        """End it as an operator would; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self._wait()

    def _wait(self):
        status = self.process.wait(60)
        self._reader.join(10)
        self.process.stderr.close()
        return status
