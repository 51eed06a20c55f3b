"""The service as a process: it ends without losing answers, and strangers cannot hold it up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from uol.errors import CallError
from uol.scoring.released import DEFAULT, find_model
from uol.serve.guard import allowed_hosts, is_loopback
from uol.serve.server import check_access, listen

IMPATIENT = f"""
from uol.serve.api import Service
from uol.serve.limits import Limits
from uol.serve.server import listen, serve
import sys
listening = listen("127.0.0.1", 0)
print(f"http://127.0.0.1:{{listening.getsockname()[1]}}/", file=sys.stderr, flush=True)
if __name__ == "__main__":
    serve(Service({DEFAULT!r}, Limits(body_seconds=1, header_seconds=1)), listening, "127.0.0.1")
"""


# -------------------------------------------------------------------- addresses


def test_other_machines_need_a_token():
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        check_access(host, None)
    for host in ("0.0.0.0", "::", "192.168.1.5", "lab.example"):
        with pytest.raises(CallError, match="set --token, or UOL_TOKEN"):
            check_access(host, None)
        check_access(host, "secret")
    for token in ("two words", "schlüssel", "line\n"):
        with pytest.raises(CallError, match="--token"):
            check_access("127.0.0.1", token)


def test_only_loopback_names_are_served_on_a_loopback_address():
    assert is_loopback("[::1]")
    assert allowed_hosts("0.0.0.0") is None
    assert allowed_hosts("127.0.0.1", ("Lab.Example",)) >= {"localhost", "127.0.0.1", "::1", "lab.example"}


def test_a_port_in_use_is_one_line():
    with listen("127.0.0.1", 0) as first, pytest.raises(CallError, match="choose another --port"):
        listen("127.0.0.1", first.getsockname()[1])


def test_wrong_calls_are_one_line(uol, tmp_path):
    assert uol("serve", "--host", "0.0.0.0")[0] == 2
    code, _, words = uol("serve", "--model", tmp_path / "nothing")
    assert (code, words.count("\n")) == (2, 1)
    code, _, words = uol("serve", "--model", tmp_path)
    assert (code, words.count("\n")) == (1, 1)
    damaged = tmp_path / "damaged"
    shutil.copytree(find_model(DEFAULT), damaged)
    (damaged / "model.onnx").write_bytes(b"no graph")
    code, _, words = uol("serve", "--model", damaged)
    assert (code, words.count("\n")) == (1, 1)


@pytest.mark.slow
def test_without_its_packages_the_command_names_them():
    hide = "import sys\nsys.modules['fastapi'] = None\nfrom uol.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", hide, "serve"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "uol: uol serve needs fastapi: pip install 'uol[serve]'\n")


# -------------------------------------------------------------------- the process


@pytest.mark.slow
def test_every_accepted_request_is_answered_when_it_ends_under_load(serve, faces):
    served = serve()
    statuses, failures, stop = [], [], threading.Event()

    def ask():
        with httpx.Client(timeout=90) as client:
            while not stop.is_set():
                try:
                    answer = client.post(served.url + "v1/score", files=[("images", ("a.png", faces[0]))] * 4)
                except httpx.TransportError:
                    failures.append(time.monotonic())
                    return
                statuses.append(answer.status_code)
                assert len(answer.json()) == 4

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while len(statuses) < 6 and time.monotonic() < end:
        time.sleep(0.05)
    began = time.monotonic()
    assert served.end() == 0
    stop.set()
    for thread in threads:
        thread.join(60)
    lines = [json.loads(line) for line in served.lines if '"/v1/score"' in line]
    assert len(lines) == len(statuses) > 6
    assert {line["status"] for line in lines} == set(statuses) == {200}
    assert all(moment > began for moment in failures)


@pytest.mark.slow
def test_both_processes_end_when_the_terminal_interrupts_them(serve):
    served = serve()
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(30) == 0


@pytest.mark.slow
def test_slow_headers_and_bodies_are_cut_off(serve):
    served = serve(code=IMPATIENT)
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as slow:
        slow.sendall(b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\n")
        assert slow.recv(1000) == b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as slow:
        head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        slow.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        began = time.monotonic()
        assert b" 408 " in slow.recv(1000).splitlines()[0]
        assert time.monotonic() - began < 10
    # A connection that is kept open between requests is none that is slow.
    with httpx.Client(base_url=served.url) as client:
        for _ in range(3):
            assert client.get("healthz").status_code == 200
            time.sleep(0.6)


@pytest.mark.slow
def test_tokens_hosts_paths_and_sizes_on_the_wire(serve, faces):
    served = serve("--max-megabytes", "1", environment={"UOL_TOKEN": "from-the-environment"})
    assert httpx.get(served.url + "v1/models").status_code == 401
    token = {"Authorization": "Bearer from-the-environment"}
    assert httpx.get(served.url + "v1/models", headers=token).json()["limits"]["body_bytes"] == 1_000_000
    assert httpx.get(served.url, headers={"Host": "evil.example"}).status_code == 421
    for path in (b"/page/../../api.py", b"/page/%2e%2e%2fapi.py", b"/../../../../etc/passwd", b"//etc/passwd"):
        answer = exchange(served, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + bearer(token) + b"\r\n")
        assert b" 404 " in answer.splitlines()[0]
        assert b"import" not in answer
    head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + bearer(token)
    began = time.monotonic()
    assert b" 413 " in exchange(served, head + b"Content-Length: 99999999999\r\n\r\n").splitlines()[0]
    assert time.monotonic() - began < 5
    assert b" 400 " in exchange(served, head + b"Content-Length: many\r\n\r\n").splitlines()[0]
    assert b" 400 " in exchange(served, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").splitlines()[0]
    assert not any("passwd" in line for line in served.lines)


def bearer(headers):
    return b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items())


def exchange(served, request):
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(request)
        return connection.recv(100_000)


@pytest.mark.slow
def test_memory_is_given_back_when_idle_and_the_model_returns(serve, faces):
    served = serve("--idle", "1")
    files = [("images", ("a.png", faces[0]))]
    first = httpx.post(served.url + "v1/score", files=files, timeout=90).json()
    end = time.monotonic() + 60
    while worker_pids(served.process.pid):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert httpx.get(served.url + "readyz").status_code == 200
    assert "uol_model_loaded 0.0" in httpx.get(served.url + "metrics").text
    assert httpx.post(served.url + "v1/score", files=files, timeout=90).json() == first


@pytest.mark.slow
def test_a_process_that_dies_costs_one_answer(serve, faces):
    served = serve()
    files = [("images", ("a.png", faces[0]))]
    for pid in worker_pids(served.process.pid):
        os.kill(pid, signal.SIGKILL)
    statuses = [httpx.post(served.url + "v1/score", files=files, timeout=90).status_code for _ in range(3)]
    assert statuses[-2:] == [200, 200]
    assert statuses[0] in (200, 503)


def worker_pids(parent):
    """The process that scores."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as command:
                mine = int(stat.read().rpartition(")")[2].split()[1]) == parent
                if mine and "spawn_main" in command.read():
                    found.append(int(entry))
        except (OSError, ValueError, IndexError):
            continue
    return found


@pytest.mark.slow
def test_the_base_install_serves_without_torch(serve, faces, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Finder(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        hidden = name.split('.')[0] in ('torch', 'torchvision', 'timm', 'lightning', 'onnx', 'pyarrow')\n"
        "        return None if hidden else PathFinder.find_spec(name, path, target)\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = Finder\n"
    )
    path = os.pathsep.join([str(tmp_path), os.path.abspath("src"), os.environ.get("PYTHONPATH", "")])
    served = serve(environment={"PYTHONPATH": path})
    files = [("images", ("a.png", face)) for face in faces[:2]]
    assert httpx.post(served.url + "v1/compare", files=files, timeout=90).status_code == 200
    assert httpx.post(served.url + "v1/explain", files=files[:1], timeout=90).status_code == 200
    assert httpx.get(served.url + "samples/face-1.png", timeout=90).status_code == 200
