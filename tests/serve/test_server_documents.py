"""The calls in docs/serve.md work as they are printed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from uol.scoring.released import DEFAULT
from uol.serve import samples

TEXT = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(served_type):
    running = served_type().wait_until_ready()
    yield running
    running.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("calls")
    for name, sample in zip(("a.jpg", "b.jpg"), samples.NAMES, strict=False):
        (made / name).write_bytes(samples.sample(sample))
    return made


def printed(language, served):
    """The code of a language in the document's section on calls, for the address of the service."""
    section = TEXT.partition("## Calls")[2].partition("## In a lab")[0]
    (code,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return code.replace("http://127.0.0.1:8000/", served.url)


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(served, folder):
    score, table, compared, ranked, picture, models = [
        run(folder, "bash", "-c", f"{line.replace('curl ', 'curl --fail -s ', 1)}")
        for line in printed("sh", served).splitlines()
    ]
    assert [row["image"] for row in json.loads(score)] == ["a.jpg", "b.jpg"]
    assert table.startswith("image,face,")
    assert set(json.loads(compared)) == {"first", "second", "less", "similar", "greater"}
    assert json.loads(ranked)[0]["rank"] == 1
    assert picture == ""
    with Image.open(folder / "why.png") as opened:
        assert opened.width > 500
    assert json.loads(models)["models"][0]["name"] == DEFAULT


def test_python(served, folder):
    pytest.importorskip("requests")
    lines = run(folder, sys.executable, "-W", "ignore", "-c", printed("python", served)).splitlines()
    assert [line.split()[0] for line in lines] == ["a.jpg", "b.jpg"]
    assert all(line.endswith("None") for line in lines)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r(served, folder):
    missing = subprocess.run(
        ["Rscript", "-e", "stopifnot(requireNamespace('httr'), requireNamespace('jsonlite'))"],
        capture_output=True,
        check=False,
    )
    if missing.returncode:
        pytest.skip("R has no httr or jsonlite")
    found = run(folder, "Rscript", "-e", printed("r", served))
    assert "a.jpg" in found
    assert "b.jpg" in found
