"""The base install: every command that asks a model works without torch; the others say in one line what they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from uol.scoring.onnx_export import export_onnx

# scipy looks at sys.modules["torch"]: a finder that does not find torch is nearer to an environment without it.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.split(".")[0] in ("torch", "torchvision", "timm", "lightning", "onnx", "pyarrow")
        return None if hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
WATCHED = """
import atexit, sys
atexit.register(lambda: print("torch" if "torch" in sys.modules else "no torch", file=sys.stderr))
"""
NEEDS = "needs torch: pip install 'uol[train]'"


def run_uol(*arguments, before=WITHOUT):
    code = f"{before}\nsys.argv[0] = 'uol'\nfrom uol.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def answer(*arguments):
    done = run_uol(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(trained, drawn, tmp_path_factory):
    """A folder with a model, with and without a graph, photographs and a table of their ratings."""
    folder = tmp_path_factory.mktemp("light")
    export_onnx(trained.scorer, folder / "model")
    trained.scorer.save_pretrained(folder / "without-graph")
    (folder / "photos").mkdir()
    lines = ["image,rater,rating"]
    for number in range(16):
        name = f"{drawn.names[number]}.png"
        Image.fromarray(drawn.images[number]).save(folder / "photos" / name)
        lines += [f"{name},r{rater},{1 + (number * 3 + rater) % 5}" for rater in range(4)]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_scores_comparisons_and_ranks(place):
    first, second, *_ = sorted((place / "photos").iterdir())
    model = ("--model", place / "model", "--json")
    (row,) = answer("score", first, "--explain", place / "why.png", *model)
    assert 1 <= row["low"] <= row["value"] <= row["high"] <= 5
    with Image.open(place / "why.png") as picture:
        assert picture.width > 500
    compared = answer("compare", first, second, *model)
    assert compared["less"] + compared["similar"] + compared["greater"] == pytest.approx(1)
    assert answer("rank", place / "photos", "--html", place / "ranks.html", *model)[0]["rank"] == 1


def test_anchoring_and_then_scoring_and_evaluating(place):
    data, out = (place / "photos", "--table", place / "ratings.csv"), place / "anchored"
    assert answer("anchor", *data, "--model", place / "model", "--out", out, "--json")["images"] == 16
    photo = next((place / "photos").iterdir())
    assert 1 <= answer("score", photo, "--model", out, "--json")[0]["value"] <= 5
    found = answer("evaluate", out, "--data", *data, "--json")
    assert (found["images"], found["mae"] > 0) == (16, True)


@pytest.mark.parametrize("command", ["stats", "check"])
def test_data_is_described_and_checked(place, command):
    done = run_uol("data", command, place / "photos", "--table", place / "ratings.csv", "--json")
    assert json.loads(done.stdout)["images"] == 16, done.stderr


def test_data_is_split(place, tmp_path):
    folds = tmp_path / "folds.csv"
    done = run_uol("data", "split", place / "photos", "--table", place / "ratings.csv", "--folds", 2, "--out", folds)
    assert done.returncode == 0, done.stderr
    assert len(folds.read_text().splitlines()) == 17


@pytest.mark.parametrize("command", ["train", "demo", "export", "experiment run"])
def test_what_needs_torch_says_how_to_install_it_in_one_line(command, tmp_path):
    named = {"export": ["uol-fast-scut5500"], "experiment run": ["scut-fbp5500", "--root", tmp_path]}.get(command, [])
    out = [] if command == "experiment run" else ["--out", tmp_path / "out"]
    done = run_uol(*command.split(), *named, *out)
    assert (done.returncode, done.stderr) == (1, f"uol: uol {command} {NEEDS}\n")
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_graph_says_what_it_needs(place):
    photo = next((place / "photos").iterdir())
    done = run_uol("score", photo, "--model", place / "without-graph")
    assert done.returncode == 1
    assert done.stderr == f"uol: {place / 'without-graph'} (it has no ONNX graph, which uol export writes) {NEEDS}\n"


def test_the_python_interface_works_and_fails_in_one_line(place):
    code = (
        f"{WITHOUT}\nfrom uol import Scorer, UolError\nfolder, photo = sys.argv[1:]\n"
        "print(Scorer.from_pretrained(folder + '/model').score(photo)[0].value)\n"
        "try:\n    Scorer.from_pretrained(folder + '/without-graph')\nexcept UolError as error:\n    print(error)"
    )
    photo = next((place / "photos").iterdir())
    done = subprocess.run([sys.executable, "-c", code, place, photo], capture_output=True, text=True, check=True)
    value, error = done.stdout.splitlines()
    assert 1 <= float(value) <= 5
    assert error.endswith(NEEDS)


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="a GPU is used through torch")
@pytest.mark.parametrize("command", ["score", "compare", "rank", "--help"])
def test_torch_is_not_imported_where_it_is_installed(place, command):
    first, second, *_ = sorted((place / "photos").iterdir())
    arguments = [] if command == "--help" else [first, second, "--model", place / "model"]
    done = run_uol(command, *arguments, before=WATCHED)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "no torch"
