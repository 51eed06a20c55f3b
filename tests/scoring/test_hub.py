"""Models on the Hugging Face Hub: addresses, what is fetched and stored, and that nothing else goes to the network."""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import re
import shutil

import numpy as np
import pytest

from uol.errors import CallError, UolError
from uol.scoring import hub
from uol.scoring.hub import Address, fetch_model, parse_address
from uol.scoring.released import names, open_model

httpx = pytest.importorskip("httpx2", reason="huggingface_hub is not installed, or of another version")
huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "a" * 40


class FakeHub:
    """The part of the Hub's HTTP interface that one model needs; it keeps the requests and the files it is sent."""

    def __init__(self, files):
        self.files, self.requests, self.stored = files, [], {}

    def __call__(self, request):
        path = request.url.path
        self.requests.append((request.method, path))
        if re.fullmatch(r"/api/models/lab/ours(/revision/[^/]+)?", path):
            return httpx.Response(200, json={"id": "lab/ours", "sha": COMMIT, "siblings": []})
        if path.startswith("/api/models/lab/ours/tree/"):
            return httpx.Response(200, json=[self.entry(name) for name in self.files])
        if path.startswith("/lab/ours/resolve/"):
            return self.file(request.method, path.split("/", 5)[5])
        if path == "/api/repos/create":
            return httpx.Response(200, json={"url": "https://huggingface.co/lab/ours"})
        if path.endswith("/preupload/main"):
            asked = json.loads(request.content)["files"]
            answer = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in asked]
            return httpx.Response(200, json={"files": answer})
        if path == "/api/validate-yaml":
            return httpx.Response(200, json={"errors": [], "warnings": []})
        if path.endswith("/commit/main"):
            for line in map(json.loads, request.content.splitlines()):
                if line["key"] == "file":
                    self.stored[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"https://huggingface.co/lab/ours/commit/{COMMIT}"
            return httpx.Response(200, json={"commitUrl": url, "commitOid": COMMIT, "success": True})
        return httpx.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "not found"})

    def entry(self, name):
        content = self.files[name]
        return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}

    def file(self, method, name):
        content = self.files[name]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
                   "Content-Length": str(len(content))}  # fmt: skip
        return httpx.Response(200, headers=headers, content=b"" if method == "HEAD" else content)


@pytest.fixture
def fake(model_folder, tmp_path, monkeypatch):
    """A Hub with one model, which is at lab/ours, in place of the network."""
    files = {path.name: path.read_bytes() for path in model_folder.iterdir()} | {"evil.py": b"raise SystemExit"}
    served = FakeHub(files)
    monkeypatch.setenv("UOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    huggingface_hub.set_client_factory(
        lambda: httpx.Client(transport=httpx.MockTransport(served), follow_redirects=True)
    )
    fetch_model.cache_clear()
    yield served
    huggingface_hub.close_session()
    huggingface_hub.set_client_factory(_no_network)
    fetch_model.cache_clear()


def _no_network():
    return httpx.Client(transport=httpx.MockTransport(lambda request: pytest.fail(f"a request to {request.url}")))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("hf://lab/ours", Address("lab/ours", None)),
        ("hf://lab/ours@v1.0", Address("lab/ours", "v1.0")),
        ("lab/ours", Address("lab/ours", None)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["hf://ours", "hf://lab/ours/more", "hf://../../etc", "hf://lab/..", "hf://lab/ours@", ""]
)
def test_what_is_no_address_is_refused_in_one_line(text):
    with pytest.raises(CallError, match="an address on the Hub is hf://owner/name") as refused:
        parse_address(text)
    assert "\n" not in str(refused.value)


def test_a_model_is_fetched_whole_and_answers_as_the_original(fake, model_folder, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), np.uint8)
    fetched = open_model("hf://lab/ours")
    assert fetched.score_pixels(pixels) == open_model(model_folder).score_pixels(pixels)
    folder = fetch_model("hf://lab/ours")
    assert folder.is_relative_to(tmp_path / "cache")
    assert not (folder / "evil.py").exists()  # only files of a model folder are taken
    assert not any((folder / name).is_symlink() for name in fake.files)


def test_a_damaged_model_of_the_hub_is_refused(fake):
    fake.files["model.safetensors"] = fake.files["model.safetensors"][:-1] + b"!"
    with pytest.raises(UolError, match="damaged"):
        open_model("hf://lab/ours")


def test_what_the_hub_does_not_have_is_named_in_one_line(fake):
    with pytest.raises(CallError, match="hf://lab/none: the Hub has no such model or revision") as refused:
        open_model("hf://lab/none")
    assert "\n" not in str(refused.value)


def test_a_repository_that_is_no_model_of_uol_is_refused(fake):
    del fake.files["config.json"]
    with pytest.raises(UolError, match=r"not a model of uol: config.json is missing"):
        open_model("hf://lab/ours")


def test_a_model_is_stored_with_its_card(fake, model_folder):
    address = open_model(model_folder).push_to_hub("lab/ours")
    assert address == "hf://lab/ours"
    assert {"config.json", "model.safetensors", "references.safetensors", "manifest.json", "README.md"} <= set(
        fake.stored
    )
    assert fake.stored["README.md"].startswith(b"---\nlicense: other\n")
    assert ("POST", "/api/repos/create") in fake.requests


def test_folders_and_shipped_names_never_ask_the_network(fake, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(model_folder, tmp_path / "lab" / "ours")  # a folder whose name could be one of the Hub
    open_model("lab/ours")
    open_model(names()[0])
    with pytest.raises(CallError, match="no such model folder"):
        open_model("lab/none")
    assert fake.requests == []


def test_without_the_package_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name.startswith("huggingface_hub"):
            raise ModuleNotFoundError(name="huggingface_hub")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    fetch_model.cache_clear()
    with pytest.raises(UolError, match=r"need huggingface_hub: pip install 'uol\[hub\]'"):
        hub.fetch_model("hf://lab/ours")
