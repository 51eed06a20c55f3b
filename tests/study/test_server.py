"""`uol study serve` and `uol study forget` as commands: wrong calls are one line, and one process serves a study."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import httpx
import pytest

from served_study import ADMIN, Served, answer_body, bearer, make_study


def test_wrong_calls_are_one_line(uol, tmp_path):
    study = make_study(tmp_path / "study")
    for call, words in {
        ("serve", tmp_path / "nothing"): "no such folder",
        ("serve", tmp_path): "no study.yaml",
        ("serve", study, "--host", "0.0.0.0"): "--protected-by",
        ("serve", study, "--host", "0.0.0.0", "--protected-by", "proxy"): "--admin-token",
        ("serve", study, "--database", "mysql://localhost/x"): "--database mysql",
    }.items():
        code, out, said = uol("study", *call)
        assert (code, out, said.count("\n")) == (2, "", 1), said
        assert words in said
    code, _, said = uol("study", "forget", study, "p0001")
    assert (code, said.count("\n")) == (1, 1)
    assert "no answers yet" in said
    assert not (study / "study.sqlite").exists()


def test_without_its_packages_the_command_names_them(tmp_path):
    hide = "import sys\nsys.modules['sqlalchemy'] = None\nfrom uol.cli import main\nmain()"
    command = [sys.executable, "-c", hide, "study", "serve", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "uol: uol study serve needs sqlalchemy: pip install 'uol[study]'\n")


@pytest.mark.slow
def test_a_study_is_served_once_and_ends_without_a_loss(uol, tmp_path):
    folder = make_study(tmp_path / "study")
    served = Served(folder).wait_until_ready()
    entered = httpx.post(f"{served.url}v1/sessions", json={"agreed": True, "personal": {"PROLIFIC_PID": "me"}}).json()
    saved = httpx.post(
        f"{served.url}v1/answers", json=answer_body(entered["state"]), headers=bearer(entered["token"])
    )  # fmt: skip
    assert saved.json()["saved"]
    code, _, said = uol("study", "serve", folder, "--port", "0")
    assert (code, said.count("\n")) == (2, 1)
    assert "another `uol study serve`" in said
    assert uol("study", "forget", folder, "p0001")[0] == 2  # the live page deletes while the study runs
    served.process.send_signal(signal.SIGINT)
    assert served.end() == 0
    log = "".join(served.lines)
    assert not re.search(rf"{ADMIN}|{entered['token']}|\bme\b|p0001", log)
    code, _, said = uol("study", "forget", folder, "p0001", "--answers")
    assert (code, said) == (0, "p0001: deleted 1 personal fields and 1 answers\n")
