"""The wheel: small, complete, and enough to score an image without torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from PIL import Image

from uol.scoring.released import names

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
MOST = 100_000_000  # bytes

ASKED = """
import json, sys
sys.modules.update(dict.fromkeys(["torch", "torchvision", "timm", "lightning"]))  # importing them fails

import numpy as np
import uol

scorer = uol.Scorer.from_pretrained(sys.argv[1])
(score,) = scorer.score_pixels(np.full((1, 3, scorer.config.crop, scorer.config.crop), 128, np.uint8))
(framed,) = scorer.config.framer().frame(sys.argv[2])
scale = list(scorer.panel.scale)
print(json.dumps({"from": uol.__file__, "value": score.value, "scale": scale, "error": framed.error}))
"""


def pip(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("pip", "setuptools", "wheel"):  # with them, nothing is fetched from an index
        try:
            version(name)
        except PackageNotFoundError:
            if name != "wheel":  # setuptools builds wheels without it
                pytest.skip(f"{name} is not installed here: no wheel can be built without an index")
    if int(version("setuptools").split(".")[0]) < 77:
        pytest.skip(f"setuptools {version('setuptools')} cannot build the package: 77 is needed")
    sources, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(place, sources / name)
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", out, sources)
    (built,) = out.glob("uol-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--no-compile", "--target", folder, wheel)
    return folder


@pytest.mark.slow
def test_the_wheel_is_small_and_whole(wheel):
    assert wheel.stat().st_size < MOST
    with zipfile.ZipFile(wheel) as opened:
        inside = {name for name in opened.namelist() if name.startswith("uol/")}
    for place in (ROOT / "src" / "uol").rglob("*"):
        if place.is_file() and "__pycache__" not in place.parts:
            assert place.relative_to(ROOT / "src").as_posix() in inside


@pytest.mark.slow
@pytest.mark.parametrize("model", names())
def test_what_the_wheel_installs_scores_without_torch(installed, tmp_path, model):
    Image.new("RGB", (80, 60), (90, 140, 220)).save(tmp_path / "sky.png")
    done = subprocess.run(
        [sys.executable, "-c", ASKED, model, tmp_path / "sky.png"],
        env={**os.environ, "PYTHONPATH": str(installed)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert Path(answer["from"]).is_relative_to(installed)
    assert answer["scale"][0] <= answer["value"] <= answer["scale"][1]
    assert "no face found" in answer["error"]  # the detector's weights are there, and it looked
